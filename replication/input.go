package replication

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Input is one thing that happened. The set is closed. Inputs are passed by pointer so that the caller can reuse their memory; Step keeps
// no pointer to them, only to the immutable cluster.Partition that some carry.
type Input interface{ input() }

// RequestID is the handle of a produce request, chosen by the owner, unique among those waiting.
type RequestID uint64

// Acks says what a request waits for.
type Acks int8

// The acknowledgement levels.
const (
	AcksISR    Acks = iota // the high watermark reaches its end
	AcksLeader             // this replica has it, on disk unless the topic is relaxed
	AcksNone               // the append
)

// Peer is what the metadata says about the broker of one replica.
type Peer struct {
	Broker   cluster.BrokerID
	Epoch    cluster.BrokerEpoch // cluster.NoBrokerEpoch when it is not registered
	Eligible bool                // neither fenced nor draining
}

// PartitionChanged brings the partition's metadata, also when only the registration of a replica's broker has changed. Peers has one entry per
// State.Replicas; a nil Peers keeps what is known. Config, if not nil, are the settings of the same metadata: they count together with State, never
// with an older one.
type PartitionChanged struct {
	State  *cluster.Partition
	Peers  []Peer
	Config *ConfigChanged
}

// ConfigChanged brings the topic's settings. Alone it is for settings under which the present State was decided.
type ConfigChanged struct {
	MinISR int // effective: at least 1, at most the number of replicas
	// LagMax is replica.lag.time.max; 0 keeps what it was.
	LagMax  time.Duration
	Relaxed bool // the flush policy is not always: ends count when written, not when flushed
}

// ControllerContact extends the lease within which this broker may believe its metadata.
type ControllerContact struct{ Until time.Duration }

// ProduceRequested asks for admission of one batch.
type ProduceRequested struct {
	Request     RequestID
	LeaderEpoch record.LeaderEpoch // record.NoEpoch: not fenced
	Offsets     int64              // how many offsets the batch takes, at least 1
	Acks        Acks
	Deadline    time.Duration
	// DuplicateEnd, if above 0, says that the batch is in the log already and ends there: the request waits, nothing is appended.
	DuplicateEnd record.Offset
	// DuplicateBase is where the original begins.
	DuplicateBase record.Offset
}

// Appended says that the appends asked for so far are in the log.
type Appended struct{ End record.Offset }

// Truncated says that an effect Truncate is done, and where the log ends now: lower than asked for where a batch reached across.
type Truncated struct{ End record.Offset }

// AppendRefused says that the log took none of the appends asked for since the last Appended, and is as it was: the disk is full.
type AppendRefused struct{}

// AppendFailed says that a write or a truncation failed, or that a read found damage. The log is not usable any more.
type AppendFailed struct{ Reason error }

// Flushed says that everything below End is on disk, as far as the log of that generation reaches.
type Flushed struct {
	Generation uint64 // Replica.Generation when the flush began
	End        record.Offset
}

// FlushFailed says that an fsync failed. What it covered may be gone although later ones succeed.
type FlushFailed struct{ Reason error }

// LogStartMoved says that records below Start are gone: by retention, or by an effect MoveStart.
type LogStartMoved struct{ Start record.Offset }

// SubscribeRequested is a follower's request to be sent the log from its end on.
type SubscribeRequested struct {
	Follower cluster.BrokerID
	Epoch    cluster.BrokerEpoch
	session.Subscribe
}

// Unsubscribed says that a subscription has ended: the follower asked, or its stream broke.
type Unsubscribed struct {
	Follower cluster.BrokerID
	Epoch    cluster.BrokerEpoch // of the life that had subscribed
	ID       session.SubscriptionID
}

// FollowerAck tells the leader how far a follower is.
type FollowerAck struct {
	Follower    cluster.BrokerID
	Epoch       cluster.BrokerEpoch
	ID          session.SubscriptionID // of the subscription under which it was sent
	LeaderEpoch record.LeaderEpoch
	LogEnd      record.Offset
	Flushed     record.Offset
}

// Delivered is data from the leader: the owner holds the bytes, has checked them, and has left out batches that the log has already.
type Delivered struct {
	LeaderEpoch record.LeaderEpoch
	// First is where the first batch begins, which is below the log's end when the log ends inside it; End is where the last one ends. They are
	// equal when no batches came.
	First, End    record.Offset
	Epochs        []record.EpochStart
	HighWatermark record.Offset
	LogStart      record.Offset
}

// SubscribeRefused is the leader's refusal, of a request or of a running subscription.
type SubscribeRefused struct {
	LeaderEpoch record.LeaderEpoch // under which this replica had subscribed
	session.Refused
}

// AlterPartitionResult is the controller's answer to an effect Alter.
type AlterPartitionResult struct {
	LeaderEpoch    record.LeaderEpoch     // of the proposal
	PartitionEpoch cluster.PartitionEpoch // of the proposal
	Code           cluster.Code
	State          *cluster.Partition // after an accepted proposal; otherwise nil or what the controller has
}

// Tick says that the deadline asked for has come, or simply that time has passed.
type Tick struct{}

// Stop ends the replica in an orderly way.
type Stop struct{}

func (*PartitionChanged) input()     {}
func (*ConfigChanged) input()        {}
func (*ControllerContact) input()    {}
func (*ProduceRequested) input()     {}
func (*Appended) input()             {}
func (*Truncated) input()            {}
func (*AppendRefused) input()        {}
func (*AppendFailed) input()         {}
func (*Flushed) input()              {}
func (*FlushFailed) input()          {}
func (*LogStartMoved) input()        {}
func (*SubscribeRequested) input()   {}
func (*Unsubscribed) input()         {}
func (*FollowerAck) input()          {}
func (*Delivered) input()            {}
func (*SubscribeRefused) input()     {}
func (*AlterPartitionResult) input() {}
func (*Tick) input()                 {}
func (*Stop) input()                 {}
