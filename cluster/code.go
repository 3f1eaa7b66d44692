package cluster

// Code is why something was refused. It is the one enum of refusals: every front door maps it to its own protocol in one table that a
// test keeps complete. CodeNone is success.
type Code int32

// The refusals.
const (
	CodeNone                   Code = iota
	CodeUnknown                     // an unexpected failure; the message says more
	CodeInvalidRequest              // the request makes no sense
	CodeUnknownTopic                // no topic or partition of that name or id
	CodeTopicExists                 // a topic of that name is there
	CodeInvalidTopicName            // the name is not allowed
	CodeInvalidPartitions           // a partition count that is not allowed
	CodeInvalidReplication          // more replicas than registered brokers, or fewer than one; retriable while brokers register
	CodeInvalidAssignment           // a replica assignment that is not allowed
	CodeInvalidConfig               // a config key or value that is not allowed
	CodeNotLeader                   // this broker does not lead the partition
	CodeFencedLeaderEpoch           // the request's leader epoch is older than the broker's
	CodeUnknownLeaderEpoch          // the request's leader epoch is newer than the broker's
	CodeNotEnoughReplicas           // the ISR is smaller than min.insync.replicas; nothing was appended
	CodeNotEnoughReplicasAfter      // the ISR became too small after the append; the outcome is unknown
	CodeTimedOut                    // the deadline passed; the outcome is unknown
	CodeOffsetOutOfRange            // below the log start or above the end
	CodeOffsetNotAvailable          // a new leader does not know the high watermark yet, or a follower does not have the offset yet; retry
	CodeStorage                     // the log is offline or the disk refused
	CodeCorrupt                     // a batch fails its checksum
	CodeInvalidRecord               // a batch is well formed but not allowed
	CodeTooLarge                    // a batch or request above its limit
	CodeUnsupportedCompression      // a codec that is not known or not allowed
	CodeInvalidTimestamp            // a record timestamp outside the topic's bounds
	CodeOutOfOrderSequence          // a gap in a producer's sequence numbers
	CodeDuplicateSequence           // a batch older than the window of remembered ones
	CodeUnknownProducer             // the producer id has no state here and the sequence does not start at 0
	CodeFencedProducer              // a newer epoch of the producer id is registered
	CodeTransactional               // transactions are not supported
	CodeNotController               // this broker is not the controller
	CodeNoController                // no controller is known right now; retry
	CodeStaleBrokerEpoch            // the request is from an older registration of the broker
	CodeUnknownBroker               // no broker of that id is registered
	CodeDuplicateBroker             // a live broker has that id
	CodeWrongCluster                // the broker belongs to another cluster
	CodeBrokerFenced                // the broker is fenced
	CodeStalePartitionEpoch         // a compare-and-set on the partition epoch failed
	CodeIneligibleReplica           // a proposed ISR member may not join
	CodeStaleShardEpoch             // a group batch of an older coordinator
	CodeNoReassignment              // no reassignment is in progress
	CodeElectionNotNeeded           // the wanted leader leads
	CodeNoEligibleLeader            // no replica may become leader
	CodeUnsupportedFeature          // above the finalized feature level, or a level that not all brokers support
	CodeNotCoordinator              // this broker does not coordinate the group
	CodeCoordinatorLoading          // the coordinator is taking over; retry
	CodeNoCoordinator               // the group has no coordinator right now; retry
	CodeUnknownMember               // the group has no member of that id
	CodeFencedMemberEpoch           // the member's epoch is old
	CodeFencedInstance              // another member took over the group instance id
	CodeIllegalGeneration           // the generation is old
	CodeRebalanceInProgress         // the group is rebalancing
	CodeGroupTypeMismatch           // the group is of another type
	CodeInconsistentProtocol        // the member supports no protocol that the group uses
	CodeInvalidGroup                // the group id is not allowed
	CodeUnknownGroup                // no group of that id
	CodeGroupNotEmpty               // the group has members
	CodeGroupFull                   // the group has its maximum of members
	CodeInvalidSessionTimeout       // outside the broker's bounds
	CodeOffsetMetadataTooLarge      // commit metadata above its limit
	CodeUnreleasedInstance          // the static member is still active
	CodeSubscribed                  // the group subscribes to the topic; its offsets cannot be deleted
	CodeOverloaded                  // a bound of the broker is reached; retry later
	CodeShuttingDown                // the broker is stopping; retry elsewhere
	CodeForbidden                   // not authorized
	CodeCompactedKeyMissing         // a record without key in a compacted topic
	codeEnd
)

// Codes returns every code, for tests of completeness.
func Codes() []Code {
	out := make([]Code, 0, codeEnd)
	for c := CodeNone; c < codeEnd; c++ {
		out = append(out, c)
	}
	return out
}

// Error is a refusal as a Go error: the code, a sentence for people (what failed, why, what to do), and, where it helps, who to ask.
type Error struct {
	Code    Code
	Message string
	// Leader, LeaderEpoch and Endpoint name the broker to ask instead (CodeNotLeader, CodeNotCoordinator, CodeNotController).
	Leader      BrokerID
	LeaderEpoch int32
	Endpoint    string
}

// Error gives the message, or the code's name when there is none.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.String()
}

// Refuse builds an Error without a leader hint.
func Refuse(code Code, message string) *Error {
	return &Error{Code: code, Message: message, Leader: NoBroker, LeaderEpoch: -1}
}
