package kafka

import (
	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// The error codes of Kafka's protocol that the door gives. The numbers are on the wire.
const (
	errNone                     int16 = 0
	errUnknownServer            int16 = -1
	errOffsetOutOfRange         int16 = 1
	errCorruptMessage           int16 = 2
	errUnknownTopicOrPartition  int16 = 3
	errLeaderNotAvailable       int16 = 5
	errNotLeaderOrFollower      int16 = 6
	errRequestTimedOut          int16 = 7
	errMessageTooLarge          int16 = 10
	errOffsetMetadataTooLarge   int16 = 12
	errCoordinatorLoading       int16 = 14
	errCoordinatorNotAvailable  int16 = 15
	errNotCoordinator           int16 = 16
	errInvalidTopic             int16 = 17
	errNotEnoughReplicas        int16 = 19
	errNotEnoughReplicasAfter   int16 = 20
	errInvalidRequiredAcks      int16 = 21
	errIllegalGeneration        int16 = 22
	errInconsistentProtocol     int16 = 23
	errInvalidGroupID           int16 = 24
	errUnknownMemberID          int16 = 25
	errInvalidSessionTimeout    int16 = 26
	errRebalanceInProgress      int16 = 27
	errTopicAuthorizationFailed int16 = 29
	errInvalidTimestamp         int16 = 32
	errUnsupportedVersion       int16 = 35
	errTopicAlreadyExists       int16 = 36
	errInvalidPartitions        int16 = 37
	errInvalidReplicationFactor int16 = 38
	errInvalidReplicaAssignment int16 = 39
	errInvalidConfig            int16 = 40
	errNotController            int16 = 41
	errInvalidRequest           int16 = 42
	errOutOfOrderSequence       int16 = 45
	errInvalidProducerEpoch     int16 = 47
	errTransactionalID          int16 = 53 // TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the one that every client takes as final
	errSecurityDisabled         int16 = 54
	errKafkaStorage             int16 = 56
	errUnknownProducerID        int16 = 59
	errNonEmptyGroup            int16 = 68
	errGroupIDNotFound          int16 = 69
	errFencedLeaderEpoch        int16 = 74
	errUnknownLeaderEpoch       int16 = 75
	errUnsupportedCompression   int16 = 76
	errStaleBrokerEpoch         int16 = 77
	errOffsetNotAvailable       int16 = 78
	errMemberIDRequired         int16 = 79
	errPreferredLeaderNotAvail  int16 = 80
	errGroupMaxSize             int16 = 81
	errFencedInstanceID         int16 = 82
	errEligibleLeadersNotAvail  int16 = 83
	errElectionNotNeeded        int16 = 84
	errNoReassignment           int16 = 85
	errGroupSubscribedToTopic   int16 = 86
	errInvalidRecord            int16 = 87
	errThrottlingQuota          int16 = 89
	errFeatureUpdateFailed      int16 = 96
	errUnknownTopicID           int16 = 100
	errDuplicateBroker          int16 = 101
	errBrokerIDNotRegistered    int16 = 102
	errInconsistentClusterID    int16 = 104
	errIneligibleReplica        int16 = 107
	errInvalidUpdateVersion     int16 = 95
	errFencedMemberEpoch        int16 = 110
	errUnreleasedInstanceID     int16 = 111
)

// wireCodes is the one table from refusals to Kafka's errors. Retriable refusals are retriable there too.
var wireCodes = map[cluster.Code]int16{
	cluster.CodeNone:                   errNone,
	cluster.CodeUnknown:                errUnknownServer,
	cluster.CodeInvalidRequest:         errInvalidRequest,
	cluster.CodeUnknownTopic:           errUnknownTopicOrPartition,
	cluster.CodeTopicExists:            errTopicAlreadyExists,
	cluster.CodeInvalidTopicName:       errInvalidTopic,
	cluster.CodeInvalidPartitions:      errInvalidPartitions,
	cluster.CodeInvalidReplication:     errInvalidReplicationFactor,
	cluster.CodeInvalidAssignment:      errInvalidReplicaAssignment,
	cluster.CodeInvalidConfig:          errInvalidConfig,
	cluster.CodeNotLeader:              errNotLeaderOrFollower,
	cluster.CodeFencedLeaderEpoch:      errFencedLeaderEpoch,
	cluster.CodeUnknownLeaderEpoch:     errUnknownLeaderEpoch,
	cluster.CodeNotEnoughReplicas:      errNotEnoughReplicas,
	cluster.CodeNotEnoughReplicasAfter: errNotEnoughReplicasAfter,
	cluster.CodeTimedOut:               errRequestTimedOut,
	cluster.CodeOffsetOutOfRange:       errOffsetOutOfRange,
	cluster.CodeOffsetNotAvailable:     errOffsetNotAvailable,
	cluster.CodeStorage:                errKafkaStorage,
	cluster.CodeCorrupt:                errCorruptMessage,
	cluster.CodeInvalidRecord:          errInvalidRecord,
	cluster.CodeTooLarge:               errMessageTooLarge,
	cluster.CodeUnsupportedCompression: errUnsupportedCompression,
	cluster.CodeInvalidTimestamp:       errInvalidTimestamp,
	cluster.CodeOutOfOrderSequence:     errOutOfOrderSequence,
	// Clients take Kafka's DUPLICATE_SEQUENCE_NUMBER for an acknowledgement, and nobody knows whether such an old batch is in the log. Kafka answers the same.
	cluster.CodeDuplicateSequence:      errOutOfOrderSequence,
	cluster.CodeUnknownProducer:        errUnknownProducerID,
	cluster.CodeFencedProducer:         errInvalidProducerEpoch,
	cluster.CodeTransactional:          errTransactionalID,
	cluster.CodeNotController:          errNotController,
	cluster.CodeNoController:           errRequestTimedOut,
	cluster.CodeStaleBrokerEpoch:       errStaleBrokerEpoch,
	cluster.CodeUnknownBroker:          errBrokerIDNotRegistered,
	cluster.CodeDuplicateBroker:        errDuplicateBroker,
	cluster.CodeWrongCluster:           errInconsistentClusterID,
	cluster.CodeBrokerFenced:           errNotLeaderOrFollower,
	cluster.CodeStalePartitionEpoch:    errInvalidUpdateVersion,
	cluster.CodeIneligibleReplica:      errIneligibleReplica,
	cluster.CodeStaleShardEpoch:        errNotCoordinator,
	cluster.CodeNoReassignment:         errNoReassignment,
	cluster.CodeElectionNotNeeded:      errElectionNotNeeded,
	cluster.CodeNoEligibleLeader:       errEligibleLeadersNotAvail,
	cluster.CodeUnsupportedFeature:     errFeatureUpdateFailed,
	cluster.CodeNotCoordinator:         errNotCoordinator,
	cluster.CodeCoordinatorLoading:     errCoordinatorLoading,
	cluster.CodeNoCoordinator:          errCoordinatorNotAvailable,
	cluster.CodeUnknownMember:          errUnknownMemberID,
	cluster.CodeFencedMemberEpoch:      errFencedMemberEpoch,
	cluster.CodeFencedInstance:         errFencedInstanceID,
	cluster.CodeIllegalGeneration:      errIllegalGeneration,
	cluster.CodeRebalanceInProgress:    errRebalanceInProgress,
	cluster.CodeGroupTypeMismatch:      errInconsistentProtocol,
	cluster.CodeInconsistentProtocol:   errInconsistentProtocol,
	cluster.CodeInvalidGroup:           errInvalidGroupID,
	cluster.CodeUnknownGroup:           errGroupIDNotFound,
	cluster.CodeGroupNotEmpty:          errNonEmptyGroup,
	cluster.CodeGroupFull:              errGroupMaxSize,
	cluster.CodeInvalidSessionTimeout:  errInvalidSessionTimeout,
	cluster.CodeOffsetMetadataTooLarge: errOffsetMetadataTooLarge,
	cluster.CodeUnreleasedInstance:     errUnreleasedInstanceID,
	cluster.CodeSubscribed:             errGroupSubscribedToTopic,
	cluster.CodeOverloaded:             errRequestTimedOut,
	cluster.CodeShuttingDown:           errNotLeaderOrFollower,
	cluster.CodeForbidden:              errTopicAuthorizationFailed,
	cluster.CodeCompactedKeyMissing:    errInvalidRecord,
}

// wire is the number of a refusal.
func wire(c cluster.Code) int16 {
	if n, ok := wireCodes[c]; ok {
		return n
	}
	return errUnknownServer
}

// wireGroup is wire for requests to a coordinator: where a partition's client asks for metadata, a group's client looks for its coordinator.
func wireGroup(c cluster.Code) int16 {
	switch c {
	case cluster.CodeShuttingDown, cluster.CodeBrokerFenced:
		return errNotCoordinator
	case cluster.CodeTimedOut, cluster.CodeNoController, cluster.CodeOverloaded:
		return errCoordinatorNotAvailable
	}
	return wire(c)
}

// refused gives the number and the message of an error; a nil error is success.
func refused(err error) (code int16, message *string) {
	if err == nil {
		return errNone, nil
	}
	e := broker.AsRefusal(err)
	text := e.Error()
	return wire(e.Code), &text
}
