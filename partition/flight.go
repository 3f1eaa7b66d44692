package partition

import (
	"fmt"
	"strings"
	"time"

	"github.com/moldau-log/moldau/replication"
)

// flight remembers the last inputs of a partition, cheaply: what is needed to tell the story of a broken invariant.
type flight struct {
	size    int
	entries []flightEntry
	next    int
}

// flightEntry is one input in short. The meaning of the numbers depends on the kind.
type flightEntry struct {
	at      time.Duration
	kind    string
	a, b, c int64
}

// note remembers an input. It allocates only when the ring grows.
func (f *flight) note(now time.Duration, in replication.Input) {
	if f.size <= 0 {
		return
	}
	e := flightEntry{at: now}
	switch in := in.(type) {
	case *replication.ProduceRequested:
		e.kind, e.a, e.b, e.c = "produce request, offsets, acks", int64(in.Request), in.Offsets, int64(in.Acks)
	case *replication.Appended:
		e.kind, e.a = "appended end", int64(in.End)
	case *replication.Flushed:
		e.kind, e.a, e.b = "flushed end, generation", int64(in.End), int64(in.Generation)
	case *replication.FollowerAck:
		e.kind, e.a, e.b, e.c = "ack follower, end, flushed", int64(in.Follower), int64(in.LogEnd), int64(in.Flushed)
	case *replication.Delivered:
		e.kind, e.a, e.b, e.c = "delivered first, end, watermark", int64(in.First), int64(in.End), int64(in.HighWatermark)
	case *replication.PartitionChanged:
		e.kind, e.a, e.b, e.c = "partition leader, leader epoch, partition epoch", int64(in.State.Leader), int64(in.State.LeaderEpoch), int64(in.State.PartitionEpoch)
	case *replication.SubscribeRequested:
		e.kind, e.a, e.b, e.c = "subscribe follower, end, last epoch", int64(in.Follower), int64(in.LogEnd), int64(in.LastEpoch)
	case *replication.SubscribeRefused:
		e.kind, e.a, e.b, e.c = "refused code, divergence epoch, end", int64(in.Code), int64(in.Divergence.Epoch), int64(in.Divergence.End)
	case *replication.AlterPartitionResult:
		e.kind, e.a, e.b = "alter result code, partition epoch", int64(in.Code), int64(in.PartitionEpoch)
	case *replication.LogStartMoved:
		e.kind, e.a = "log start", int64(in.Start)
	case *replication.Truncated:
		e.kind, e.a = "truncated end", int64(in.End)
	default:
		e.kind = strings.TrimPrefix(fmt.Sprintf("%T", in), "*replication.")
	}
	if len(f.entries) < f.size {
		f.entries = append(f.entries, e)
		return
	}
	f.entries[f.next] = e
	f.next = (f.next + 1) % f.size
}

// String lists the inputs, oldest first, one a line.
func (f *flight) String() string {
	var b strings.Builder
	for i := range f.entries {
		e := &f.entries[(f.next+i)%len(f.entries)]
		fmt.Fprintf(&b, "%s %s: %d %d %d\n", e.at, e.kind, e.a, e.b, e.c)
	}
	return b.String()
}
