package peer

import (
	"encoding/binary"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Replication streams carry frames | u32 length of the rest | u8 type | body |, numbers big endian (pinned by TestReplicationFramesGolden):
//
//	up    subscribe    u32 id, topic id (16), i32 partition, i32 leader epoch, i64 log end, i32 last epoch, i64 flushed, i64 log start
//	      unsubscribe  u32 id
//	      ack          u32 id, i64 log end, i64 flushed, i64 log start
//	down  data         u32 id, i64 high watermark, i64 log start, i64 first, then whole batches as stored
//	      refused      u32 id, i32 code, i32 leader epoch, u8 diverged, i32 diverged epoch, i64 its end, i64 log start
//	both  ping         nothing
type replicationFrame uint8

const (
	replicationPing  replicationFrame = 0
	frameSubscribe   replicationFrame = 1
	frameUnsubscribe replicationFrame = 2
	frameAck         replicationFrame = 3
	frameData        replicationFrame = 16
	frameRefused     replicationFrame = 17
)

const (
	replicationHead = 4 + 1
	dataHead        = replicationHead + 4 + 3*8 // bytes of a data frame before its batches
	maxSmallFrame   = 256                       // any frame but data
)

// begin starts a frame and returns where its length goes.
func begin(b []byte, t replicationFrame) ([]byte, int) {
	at := len(b)
	return append(b, 0, 0, 0, 0, byte(t)), at
}

func finish(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// appendUp encodes a follower's frame.
func appendUp(b []byte, up session.Up) []byte {
	w := writer{}
	var at int
	switch f := up.(type) {
	case session.Subscribe:
		w.b, at = begin(b, frameSubscribe)
		w.u32(uint32(f.ID))
		w.partition(f.Partition)
		w.i32(int32(f.LeaderEpoch))
		w.i64(int64(f.LogEnd))
		w.i32(int32(f.LastEpoch))
		w.i64(int64(f.Flushed))
		w.i64(int64(f.LogStart))
	case session.Unsubscribe:
		w.b, at = begin(b, frameUnsubscribe)
		w.u32(uint32(f.ID))
	case session.Ack:
		w.b, at = begin(b, frameAck)
		w.u32(uint32(f.ID))
		w.i64(int64(f.LogEnd))
		w.i64(int64(f.Flushed))
		w.i64(int64(f.LogStart))
	}
	return finish(w.b, at)
}

// decodeUp decodes the body of a follower's frame.
func decodeUp(t replicationFrame, body []byte) (session.Up, error) {
	r := reader{b: body}
	var up session.Up
	switch t {
	case frameSubscribe:
		up = session.Subscribe{
			ID:          session.SubscriptionID(r.u32()),
			Partition:   r.partition(),
			LeaderEpoch: record.LeaderEpoch(r.i32()),
			LogEnd:      record.Offset(r.i64()),
			LastEpoch:   record.LeaderEpoch(r.i32()),
			Flushed:     record.Offset(r.i64()),
			LogStart:    record.Offset(r.i64()),
		}
	case frameUnsubscribe:
		up = session.Unsubscribe{ID: session.SubscriptionID(r.u32())}
	case frameAck:
		up = session.Ack{
			ID:       session.SubscriptionID(r.u32()),
			LogEnd:   record.Offset(r.i64()),
			Flushed:  record.Offset(r.i64()),
			LogStart: record.Offset(r.i64()),
		}
	default:
		return nil, fmt.Errorf("%w: type %d from a follower", errFrameMangled, t)
	}
	return up, r.err
}

// appendDataHead encodes a data frame up to its n bytes of batches, which the caller puts behind it.
func appendDataHead(b []byte, d session.Data, n int) []byte {
	w := writer{}
	var at int
	w.b, at = begin(b, frameData)
	w.u32(uint32(d.ID))
	w.i64(int64(d.HighWatermark))
	w.i64(int64(d.LogStart))
	w.i64(int64(d.First))
	binary.BigEndian.PutUint32(w.b[at:], uint32(dataHead-4+n))
	return w.b
}

// decodeDataHead decodes what lies between the frame's type and its batches.
func decodeDataHead(body []byte) (session.Data, error) {
	r := reader{b: body}
	d := session.Data{
		ID:            session.SubscriptionID(r.u32()),
		HighWatermark: record.Offset(r.i64()),
		LogStart:      record.Offset(r.i64()),
		First:         record.Offset(r.i64()),
	}
	return d, r.err
}

func appendRefused(b []byte, f session.Refused) []byte {
	w := writer{}
	var at int
	w.b, at = begin(b, frameRefused)
	w.u32(uint32(f.ID))
	w.i32(int32(f.Code))
	w.i32(int32(f.LeaderEpoch))
	w.flag(f.Diverged)
	w.i32(int32(f.Divergence.Epoch))
	w.i64(int64(f.Divergence.End))
	w.i64(int64(f.LogStart))
	return finish(w.b, at)
}

func decodeRefused(body []byte) (session.Refused, error) {
	r := reader{b: body}
	f := session.Refused{
		ID:          session.SubscriptionID(r.u32()),
		Code:        cluster.Code(r.i32()),
		LeaderEpoch: record.LeaderEpoch(r.i32()),
		Diverged:    r.flag(),
		Divergence:  cluster.EpochEnd{Epoch: record.LeaderEpoch(r.i32()), End: record.Offset(r.i64())},
		LogStart:    record.Offset(r.i64()),
	}
	return f, r.err
}
