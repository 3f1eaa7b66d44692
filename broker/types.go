package broker

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// Slice is a stretch of a stored log, with a counted reference on its file. Front doors send it and then call Release.
type Slice = segment.Slice

// TopicRef names a topic by id, or by name while the id is zero. An id that is no longer the name's is refused with CodeUnknownTopic.
type TopicRef struct {
	ID   cluster.TopicID
	Name string
}

// Acks says when a produce request is answered.
type Acks int8

// The acknowledgement levels, with the numbers that Kafka's protocol uses.
const (
	AcksISR    Acks = -1 // every in-sync replica has it on disk
	AcksNone   Acks = 0  // no answer is waited for
	AcksLeader Acks = 1  // the leader has it (on disk under flush.policy=always)
)

// ProduceRequest appends one batch to one partition.
type ProduceRequest struct {
	Topic     TopicRef
	Partition int32
	// LeaderEpoch fences the request when it is not record.NoEpoch.
	LeaderEpoch record.LeaderEpoch
	// Batch is one whole record batch v2. Its base offset and leader epoch are stamped in place; the broker owns the bytes until Release, or done
	// if Release is nil, is called.
	Batch   []byte
	Release func() // called once when the bytes are no longer needed: after the append, before a waiting request is answered
	Acks    Acks
	Timeout time.Duration // bounded by MaxProduceTimeout; on expiry the answer is CodeTimedOut, outcome unknown
	// Patient lets Produce block its caller for up to a second while the metadata says that this broker leads and its replica is not there yet, as after the
	// topic was created. It is for clients that do not try again, or only after a pause.
	Patient bool
}

// ProduceResult answers a ProduceRequest.
type ProduceResult struct {
	Code       cluster.Code
	Message    string
	BaseOffset record.Offset
	LogStart   record.Offset
	// LogAppendMs is the broker's time stamp when the topic uses LogAppendTime, else -1.
	LogAppendMs int64
	// Leader and LeaderEpoch say who leads as far as this broker knows, with CodeNotLeader and CodeFencedLeaderEpoch.
	Leader      cluster.BrokerID
	LeaderEpoch record.LeaderEpoch
}

// FetchRequest reads from several partitions. It is answered when MinBytes are there in total, when MaxWait has passed, or when a partition has
// an error to tell.
type FetchRequest struct {
	Partitions []FetchPartition
	MinBytes   int
	MaxBytes   int // over all partitions; the first batch is returned even if it is larger
	MaxWait    time.Duration
	// Followers lets a replica that does not lead answer, up to the watermark that it knows. Rack, when not empty, lets a leader in another rack name an
	// in-sync follower in this one instead of answering with records (KIP-392).
	Followers bool
	Rack      string
	// Patient lets Fetch wait for up to a second while the metadata says that this broker leads and its replica is not there yet.
	Patient bool
}

// FetchPartition is one partition of a FetchRequest.
type FetchPartition struct {
	Topic       TopicRef
	Partition   int32
	Offset      record.Offset
	MaxBytes    int
	LeaderEpoch record.LeaderEpoch // the reader's; record.NoEpoch if unknown
	// LastFetchedEpoch, when not record.NoEpoch, asks for a divergence check.
	LastFetchedEpoch record.LeaderEpoch
}

// FetchedPartition answers one FetchPartition, in the order of the request. Slice is nil when there is nothing to read; otherwise the caller releases it.
type FetchedPartition struct {
	Code          cluster.Code
	Message       string
	Topic         cluster.TopicID
	HighWatermark record.Offset
	LogStart      record.Offset
	Slice         *Slice
	Diverged      bool
	Divergence    cluster.EpochEnd
	Elsewhere     bool // read from Preferred: it is in the reader's rack
	Preferred     cluster.BrokerID
	Leader        cluster.BrokerID
	LeaderEpoch   record.LeaderEpoch
}

// The special timestamps of an OffsetQuery, with the numbers of Kafka's protocol.
const (
	LatestTimestamp   int64 = -1
	EarliestTimestamp int64 = -2
	MaxTimestamp      int64 = -3
)

// OffsetQuery asks for the first offset whose record has at least a timestamp, or for one of the special positions.
type OffsetQuery struct {
	Topic       TopicRef
	Partition   int32
	Timestamp   int64
	LeaderEpoch record.LeaderEpoch
}

// OffsetAnswer answers an OffsetQuery. Offset is -1 when no record is that young.
type OffsetAnswer struct {
	Code        cluster.Code
	Message     string
	Offset      record.Offset
	Timestamp   int64
	LeaderEpoch record.LeaderEpoch
	Leader      cluster.BrokerID
}

// TopicSpec is what a client asks a topic to be.
type TopicSpec struct {
	Name              string
	Partitions        int32 // -1: the broker's default
	ReplicationFactor int16 // -1: the broker's default
	// Assignment, when not nil, names the replicas of each partition and overrides the two numbers.
	Assignment   [][]cluster.BrokerID
	Configs      cluster.Configs
	ValidateOnly bool
}

// CreatedTopic answers CreateTopic.
type CreatedTopic struct {
	Topic cluster.Topic
	// Notes are sentences for people, such as "compaction is accepted but not enforced yet".
	Notes []string
}

// PartitionStatus is a partition as its leader sees it (or, with Leading false, as the answering replica does).
type PartitionStatus struct {
	Partition     cluster.TopicPartition
	Leading       bool
	LogStart      record.Offset
	LogEnd        record.Offset
	LastEpoch     record.LeaderEpoch // of the last record; record.NoEpoch without one
	Flushed       record.Offset
	HighWatermark record.Offset
	SizeBytes     int64
	Offline       string // why the local log is offline; empty when it is not
}

// Health is the cluster's state in one answer.
type Health struct {
	Healthy         bool
	Reasons         []string // why it is not, one sentence each
	Cluster         cluster.ClusterID
	Controller      cluster.BrokerID
	Brokers         int
	Fenced          []cluster.BrokerID
	Topics          int
	Partitions      int
	Leaderless      int
	UnderReplicated int
	UnderMinISR     int
	Reassigning     int
	OfflineLogs     int                // on all brokers but those of Unreached
	LostEnds        int                // partitions of one replica whose damaged end was cut off, likewise
	Unreached       []cluster.BrokerID // fenced, or did not say in time how their logs are
}
