package session

import (
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Replication is a subscription: a follower opens one stream to each broker that leads some of its partitions, subscribes with its position,
// and the leader sends batches as they are appended, bounded by the bytes that the follower has not yet acknowledged as appended. Frames
// are plain values; package peer gives them bytes.

// SubscriptionID numbers a subscription on one stream. The follower chooses it, never twice in one life, so that frames and the
// end of an earlier subscription, also on an earlier stream, are told from those of its successor.
type SubscriptionID uint32

// Up is a frame from follower to leader: Subscribe, Unsubscribe or Ack.
type Up interface{ up() }

// Subscribe asks for everything from LogEnd on, under the follower's leader epoch.
type Subscribe struct {
	ID          SubscriptionID
	Partition   cluster.TopicPartition
	LeaderEpoch record.LeaderEpoch // fences the request: must equal the leader's
	LogEnd      record.Offset      // fetch offset
	LastEpoch   record.LeaderEpoch // epoch of the last batch before LogEnd, record.NoEpoch for an empty log
	Flushed     record.Offset
	LogStart    record.Offset
}

// Unsubscribe ends a subscription; the leader answers nothing.
type Unsubscribe struct{ ID SubscriptionID }

// Ack tells how far the follower is. Acks coalesce: only the newest of a subscription counts.
type Ack struct {
	ID       SubscriptionID
	LogEnd   record.Offset // appended; frees send credit
	Flushed  record.Offset // on disk; counts for ISR and high watermark
	LogStart record.Offset
}

// Down is a frame from leader to follower: Data or Refused.
type Down interface{ down() }

// Data carries whole batches, possibly none: then it only moves the follower's high watermark or log start.
type Data struct {
	ID            SubscriptionID
	HighWatermark record.Offset
	LogStart      record.Offset
	// First is the base offset of the first batch, and equals the position the leader had reached.
	First record.Offset
	// Bytes are whole batches as stored. Empty in the leader's core, which names ranges only.
	Bytes []byte
}

// Refused ends a subscription or a request for one. With Diverged set the follower's log leaves the leader's at an older epoch: it truncates to
// the smaller of Diverged.End and its own end of that epoch, and subscribes again.
type Refused struct {
	ID          SubscriptionID
	Code        cluster.Code
	LeaderEpoch record.LeaderEpoch // the leader's, record.NoEpoch if it does not lead
	Diverged    bool
	Divergence  cluster.EpochEnd
	// LogStart answers CodeOffsetOutOfRange: where a follower that is too far behind starts anew.
	LogStart record.Offset
}

func (Subscribe) up()   {}
func (Unsubscribe) up() {}
func (Ack) up()         {}
func (Data) down()      {}
func (Refused) down()   {}
