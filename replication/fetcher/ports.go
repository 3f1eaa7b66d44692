package fetcher

import (
	"context"
	"io"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Transport opens replication streams to other brokers. Package peer implements it.
type Transport interface {
	// DialReplication opens a stream to a broker; the hello carries our broker epoch. It fails when the broker cannot be reached before ctx ends.
	DialReplication(ctx context.Context, to cluster.BrokerID, self cluster.BrokerEpoch) (FollowerStream, error)
}

// FollowerStream is the follower's end. Send and Recv may be called from two goroutines, each from one.
type FollowerStream interface {
	// Send writes frames, in order, and returns when they are handed to the socket.
	Send(frames []session.Up) error
	// Recv returns the next frame. Data.Bytes belong to the caller, who gives the buffer back with Recycle when nothing refers to it.
	Recv() (session.Down, error)
	Recycle(buf []byte)
	Close() error
}

// LeaderStream is the leader's end of the same stream, handed over by package peer when a follower has dialled.
type LeaderStream interface {
	Recv() (session.Up, error)
	// SendData writes a Data frame whose bytes come from r (nil: none). It does not release r.
	SendData(d session.Data, r Range) error
	SendRefused(r session.Refused) error
	// Flush pushes out what is buffered.
	Flush() error
	Close() error
}

// Range is a stretch of a stored log that can be written to a socket without being copied into memory first. segment.Slice is one.
type Range interface {
	Len() int
	WriteTo(w io.Writer) (int64, error)
	AppendTo(dst []byte) ([]byte, error)
	Release()
}

// Target is what a Fetcher feeds: the local follower replicas. Methods never block for long and never call back.
type Target interface {
	// Data hands over batches of a partition. The target copies nothing: it calls recycle once, when it no longer needs the bytes. It returns false when
	// its inbox is full or the partition is gone; then the fetcher drops the subscription and, if it is still wanted, subscribes again from the log end.
	Data(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, d session.Data, recycle func()) bool
	Refused(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, r session.Refused)
	// Lost says that the stream to the leader broke; the fetcher reconnects by itself and then asks Position for each wanted partition.
	Lost(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch)
	// Position returns where to subscribe from; false when the partition does not follow under this epoch: then it is asked again after a pause, until Unfollow.
	Position(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch) (Position, bool)
}

// Position is a follower's place in a log, as a subscription states it.
type Position struct {
	LogEnd, Flushed, LogStart record.Offset
	LastEpoch                 record.LeaderEpoch
}

// Source is what a Sender reads from: the local leader replicas.
type Source interface {
	// Subscribe asks the leader's core to admit a follower. The answer comes through sink, from any goroutine, perhaps before Subscribe returns.
	Subscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s session.Subscribe, sink Sink)
	// Unsubscribe ends one subscription, and no other: the end of a stream may be noticed after the follower has subscribed on the next one, even in
	// its next life.
	Unsubscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, tp cluster.TopicPartition, id session.SubscriptionID)
	Ack(follower cluster.BrokerID, epoch cluster.BrokerEpoch, tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, a session.Ack)
}

// Sink is the sender's side of one subscription. Methods never block.
type Sink interface {
	// Accepted gives the reader of the partition's log.
	Accepted(id session.SubscriptionID, r Reader)
	// Wake says that there is more to send: bytes, a higher watermark, or a higher log start.
	Wake(id session.SubscriptionID)
	// Refused ends the subscription.
	Refused(r session.Refused)
}

// Reader reads a leader's log on any goroutine over an atomic view.
type Reader interface {
	// ReadReplica returns whole batches from an offset, at most max bytes but at least one batch, up to the log end; a nil Range when there is
	// nothing to read. It also gives the watermark and log start of that moment and where the range ends.
	ReadReplica(from record.Offset, max int) (r Range, end, highWatermark, logStart record.Offset, err error)
}
