package partition

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// Acks says what a produce request waits for.
type Acks int8

// The acknowledgement levels.
const (
	AcksISR    Acks = iota // every member of the in-sync set has it, on disk under flush.policy=always
	AcksLeader             // the leader has it, on disk under flush.policy=always
	AcksNone               // nothing: the answer comes after the append, and producers of this kind ignore it
)

// ProduceRequest appends one batch. The door has checked the checksum and the records (record.Batch.Validate); the partition checks what
// depends on the topic and the producer's state.
type ProduceRequest struct {
	// LeaderEpoch fences the request; record.NoEpoch when the client does not know one.
	LeaderEpoch record.LeaderEpoch
	// Batch is one whole batch. It belongs to the partition, which stamps it in place, until Release is called.
	Batch []byte
	Acks  Acks
	// Deadline is on the manager's clock (Clock.Now). A request that still waits then is answered CodeTimedOut.
	Deadline time.Duration
	// Release, if not nil, is called once, from any goroutine, when the partition needs Batch no longer: after the append or refusal,
	// which is before the answer of a request that waits.
	Release func()
}

// ProduceResult answers a ProduceRequest.
type ProduceResult struct {
	Code cluster.Code
	// BaseOffset is the offset of the first record. For a duplicate it is that of the original. With a Code other than CodeNone it is -1 if nothing was
	// appended; otherwise the batch is in the log and its fate is unknown.
	BaseOffset record.Offset
	LogStart   record.Offset
	// AppendTimeMs is the broker's time of append for topics that stamp it, otherwise -1.
	AppendTimeMs int64
	// Leader and LeaderEpoch are a hint with CodeNotLeader, CodeFencedLeaderEpoch and CodeUnknownLeaderEpoch.
	Leader      cluster.BrokerID
	LeaderEpoch record.LeaderEpoch
	// Message says more for people; often empty.
	Message string
}

// ReadRequest asks for records below the high watermark.
type ReadRequest struct {
	Offset record.Offset
	// MaxBytes bounds the answer; one batch is returned even if it is larger, unless Strict.
	MaxBytes int
	// Strict returns nothing rather than a first batch above MaxBytes: for the later partitions of a request whose budget is used up.
	Strict bool
	// LeaderEpoch fences the request; record.NoEpoch when the client does not know one.
	LeaderEpoch record.LeaderEpoch
	// LastEpoch is the leader epoch of the last record that the client has; record.NoEpoch when unknown. If the log that it read from has
	// been cut since, the answer carries Diverged.
	LastEpoch record.LeaderEpoch
	// Follower allows a replica that does not lead to answer, up to the watermark that it knows.
	Follower bool
}

// ReadResult answers a ReadRequest. The caller releases Slice when Code is CodeNone.
type ReadResult struct {
	Code          cluster.Code
	Slice         Slice
	HighWatermark record.Offset
	LastStable    record.Offset // equal to HighWatermark: there are no transactions
	LogStart      record.Offset
	LogEnd        record.Offset
	Leader        cluster.BrokerID // hint with CodeNotLeader and the epoch refusals
	LeaderEpoch   record.LeaderEpoch
	// Diverged says that the client's position was cut off the log; Divergence tells where the epochs part.
	Diverged   bool
	Divergence cluster.EpochEnd
	// Err says more about CodeStorage.
	Err error
}

// Slice is a range of whole batches in a file; see segment.Slice.
type Slice = segment.Slice

// ListKind is what a ListRequest asks for.
type ListKind int8

// The kinds of offset questions.
const (
	ListEarliest     ListKind = iota // the log start
	ListLatest                       // the high watermark; needs the controller's lease and a settled watermark (KIP-207)
	ListTimestamp                    // the first record at or after TimestampMs
	ListMaxTimestamp                 // the record with the largest timestamp
)

// ListRequest asks for an offset.
type ListRequest struct {
	Kind        ListKind
	TimestampMs int64
	LeaderEpoch record.LeaderEpoch // fences; record.NoEpoch when unknown
	Follower    bool               // a replica that does not lead may answer
	Memory      *record.Memory     // counts what a search in compressed batches holds; nil for nothing
}

// ListResult answers a ListRequest. Offset and TimestampMs are -1 when no record answers.
type ListResult struct {
	Code        cluster.Code
	Offset      record.Offset
	TimestampMs int64
	LeaderEpoch record.LeaderEpoch // of the record at Offset
}

// EpochEndResult answers "where does that leader epoch end in your log?" (OffsetForLeaderEpoch): the largest epoch not above the asked one and
// its exclusive end, both -1 when there is none.
type EpochEndResult struct {
	Code cluster.Code
	cluster.EpochEnd
}

// Role is what a replica is at present.
type Role int8

// The roles.
const (
	RoleIdle     Role = iota // no leader is known, or the controller has not spoken yet
	RoleFollower             // copies from the leader
	RoleLeader               // accepts records
	RoleOffline              // the log failed or an invariant broke; see Status.Reason
)

// String gives the lower-case name.
func (r Role) String() string {
	return [...]string{"idle", "follower", "leader", "offline"}[r]
}

// FollowerStatus is what a leader knows of one follower.
type FollowerStatus struct {
	Broker      cluster.BrokerID
	BrokerEpoch cluster.BrokerEpoch
	Subscribed  bool // an admitted subscription of this leader epoch exists
	InSync      bool
	LogEnd      record.Offset
	Flushed     record.Offset
	// LagMs is for how long the follower has not been caught up, 0 while it is.
	LagMs int64
}

// Status is a snapshot of one replica for administration and metrics.
type Status struct {
	Partition      cluster.TopicPartition
	Topic          string
	Role           Role
	Reason         string // why it is offline
	Leader         cluster.BrokerID
	LeaderEpoch    record.LeaderEpoch
	PartitionEpoch cluster.PartitionEpoch
	ISR            []cluster.BrokerID
	PendingISR     []cluster.BrokerID // proposed and not yet decided; nil when none
	MinISR         int
	LogStart       record.Offset
	HighWatermark  record.Offset
	LogEnd         record.Offset
	LastEpoch      record.LeaderEpoch // of the last record; record.NoEpoch without one
	Flushed        record.Offset
	SizeBytes      int64
	Waiting        int // produce requests
	Followers      []FollowerStatus
}

// Outputs is what partitions ask of the rest of the broker; package broker implements it. Methods are called from Runner goroutines: they must not
// block and must not call back into the partition on the same goroutine.
type Outputs interface {
	// Subscribe asks the fetcher to follow a partition from leader under leaderEpoch. It replaces any earlier subscription of the partition, also
	// one to the same leader and epoch: the fetcher then asks Manager.Position anew.
	Subscribe(tp cluster.TopicPartition, leader cluster.BrokerID, leaderEpoch record.LeaderEpoch)
	// Unsubscribe ends following under leaderEpoch or an older one.
	Unsubscribe(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch)
	// Ack tells the leader how far the local follower is. The newest counts.
	Ack(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, p Progress)
	// Alter proposes an ISR to the controller; the answer, also a failure, comes through Manager.AlterResult, exactly once.
	Alter(change cluster.ISRChange)
	// Offline reports that a local log has failed, for the controller and the operator.
	Offline(tp cluster.TopicPartition, reason error)
	// Online takes back what Offline may have said of a replica: it has been begun anew since, and works, or it is gone.
	Online(tp cluster.TopicPartition)
	// Removed reports replicas whose files are gone, so that their tombstones can be confirmed. It may repeat itself.
	Removed(tombstones []cluster.Tombstone)
	// Parked reports local directories that metadata knows nothing about. They are kept.
	Parked(directories []string)
}

// Progress is how far a follower is: ends are exclusive.
type Progress struct {
	LogEnd, Flushed, LogStart record.Offset
}

// Clock is the time that a Manager lives by. Now is monotonic, WallMs is milliseconds since 1970.
type Clock interface {
	Now() time.Duration
	WallMs() int64
}

// LoadReport is what Manager.Load found on disk: the part of a broker's registration that concerns its logs.
type LoadReport struct {
	Opened int
	// Damaged replicas need repair and stay offline: recovery found corruption, or could make nothing of what is there.
	Damaged []cluster.TopicPartition
	// Failed replicas are offline because the disk gave an error, or was full. Nothing says that they lack anything, and the next start may open them: to the
	// controller they are as one whose log fails while it is open, so that the only complete one keeps its place.
	Failed []cluster.TopicPartition
	// Doubtful replicas are open, and may lack records that were acknowledged: recovery cut an end off them that does not look like a torn write, or they were
	// written under a relaxed flush policy and not closed in order. They are not complete until a leader has filled them up, and are reported by every start until Registered.
	Doubtful []cluster.TopicPartition
	// Rotten are those of Doubtful of which an end was cut off that had been written whole and has changed since.
	Rotten []cluster.TopicPartition
	// Missing replicas were in this data directory, and are not any more. They stay offline until they can be copied anew.
	Missing []cluster.TopicPartition
	// Logs are how far the logs go that were opened, and UnknownLog of those that are Failed.
	Logs []cluster.ReplicaLog
	// Unclean counts logs that were not closed cleanly.
	Unclean int
	// Strange lists directories that are not partition directories or belong to another cluster.
	Strange []string
}
