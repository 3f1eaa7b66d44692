package grpcapi

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// fetchStream is one Fetch call.
type fetchStream struct {
	s       *Server
	ctx     context.Context
	stream  grpc.ServerStream
	unread  *unread
	req     broker.FetchRequest
	indexes []int32                 // of req.Partitions, in the client's list
	marks   map[int32]record.Offset // watermark last told, by index
}

// Fetch handles the stream of batches to a reader.
func (l *logService) Fetch(req *moldauv1.FetchRequest, stream grpc.ServerStreamingServer[moldauv1.FetchResponse]) error {
	ctx, cancel := l.untilDrain(stream.Context())
	defer cancel()
	f := &fetchStream{s: l.Server, ctx: ctx, stream: stream, unread: l.unreadOf(ctx), marks: map[int32]record.Offset{}}
	if err := f.open(req); err != nil {
		return err
	}
	// The first round does not wait: a reader wants to know at once where the ends are.
	wait := f.req.MaxWait
	f.req.MaxWait = 0
	for ; len(f.req.Partitions) > 0; f.req.MaxWait = wait {
		if l.draining() {
			return errStopping()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.round(); err != nil {
			if l.draining() {
				return errStopping()
			}
			return err
		}
	}
	return nil
}

// open translates the request.
func (f *fetchStream) open(req *moldauv1.FetchRequest) error {
	if len(req.GetPartitions()) == 0 || len(req.GetPartitions()) > maxFetchPartitions {
		return cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("1 to %d partitions can be fetched on one stream, not %d", maxFetchPartitions, len(req.GetPartitions())))
	}
	size := int(req.GetMaxBytes())
	if size <= 0 {
		size = defaultFetchBytes
	}
	size = min(size, maxFetchBytes)
	f.req = broker.FetchRequest{MinBytes: max(int(req.GetMinBytes()), 1), MaxBytes: fetchRoundFactor * size, MaxWait: fetchWait(req.GetMaxWaitMs())}
	for i, p := range req.GetPartitions() {
		ref, err := topicRef(p.GetTopic(), p.GetTopicId())
		if err != nil {
			return err
		}
		want := broker.FetchPartition{
			Topic: ref, Partition: p.GetPartition(), Offset: record.Offset(p.GetOffset()), MaxBytes: size,
			LeaderEpoch: record.NoEpoch, LastFetchedEpoch: record.NoEpoch,
		}
		if p.LeaderEpoch != nil {
			want.LeaderEpoch = record.LeaderEpoch(p.GetLeaderEpoch())
		}
		if p.LastFetchedEpoch != nil {
			want.LastFetchedEpoch = record.LeaderEpoch(p.GetLastFetchedEpoch())
		}
		f.req.Partitions = append(f.req.Partitions, want)
		f.indexes = append(f.indexes, int32(i))
	}
	return nil
}

func fetchWait(ms int32) time.Duration {
	if ms <= 0 {
		return defaultFetchWait
	}
	return min(time.Duration(ms)*time.Millisecond, maxFetchWait)
}

// notAvailableWait is how long a reader waits for a new leader to know its watermark, per try.
const notAvailableWait = 20 * time.Millisecond

// round reads once from every partition and sends what there is. The partitions take turns at being first, so that none starves behind
// others that always have data.
func (f *fetchStream) round() error {
	answers := f.s.broker.Fetch(f.ctx, f.req)
	for i := range answers {
		if answers[i].Slice != nil {
			defer answers[i].Slice.Release()
		}
	}
	keep, sent, waiting := 0, false, false
	for i := range answers {
		a := &answers[i]
		want := f.req.Partitions[i]
		index := f.indexes[i]
		if int(a.Code) < len(f.s.meters.fetch) {
			f.s.meters.fetch[a.Code].Inc()
		}
		served, told, err := f.tell(index, &want, a)
		if err != nil {
			return err
		}
		sent = sent || told
		waiting = waiting || a.Code == cluster.CodeOffsetNotAvailable
		if served {
			f.req.Partitions[keep], f.indexes[keep] = want, index
			keep++
		}
	}
	f.req.Partitions, f.indexes = f.req.Partitions[:keep], f.indexes[:keep]
	if keep > 1 {
		f.req.Partitions = append(f.req.Partitions[1:], f.req.Partitions[0])
		f.indexes = append(f.indexes[1:], f.indexes[0])
	}
	if sent || keep == 0 {
		return nil
	}
	if waiting {
		return f.pause()
	}
	// Nothing happened for a whole wait: one message shows that the stream is alive.
	return f.stream.SendMsg(&grpcframe.Fetched{
		Index: f.indexes[0], TopicID: grpcframe.TopicID(answers[0].Topic), Partition: f.req.Partitions[0].Partition,
		HighWatermark: int64(f.marks[f.indexes[0]]),
	})
}

func (f *fetchStream) pause() error {
	timer := time.NewTimer(notAvailableWait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.ctx.Done():
		return nil // the loop sees why
	}
}

// tell sends what one partition has to say and moves want on. served is false when the partition leaves the stream.
func (f *fetchStream) tell(index int32, want *broker.FetchPartition, a *broker.FetchedPartition) (served, told bool, err error) {
	out := grpcframe.Fetched{
		Index: index, TopicID: grpcframe.TopicID(a.Topic), Partition: want.Partition,
		HighWatermark: int64(a.HighWatermark), LogStart: int64(a.LogStart), LeaderEpoch: int32(a.LeaderEpoch),
	}
	switch {
	case a.Code == cluster.CodeOffsetNotAvailable:
		return true, false, nil
	case a.Code != cluster.CodeNone:
		out.Error = f.s.refusal(f.ctx, &cluster.Error{Code: a.Code, Message: a.Message, Leader: a.Leader, LeaderEpoch: int32(a.LeaderEpoch)})
		return false, true, f.stream.SendMsg(&out)
	case a.Diverged:
		out.Divergence = &moldauv1.EpochEnd{LeaderEpoch: int32(a.Divergence.Epoch), EndOffset: int64(a.Divergence.End)}
		return false, true, f.stream.SendMsg(&out)
	case a.Slice == nil || a.Slice.Len() == 0:
		if mark, ok := f.marks[index]; ok && mark == a.HighWatermark {
			return true, false, nil
		}
		f.marks[index] = a.HighWatermark
		return true, true, f.stream.SendMsg(&out)
	}
	held, buf, err := f.read(a.Slice)
	if err != nil || buf == nil {
		return true, false, err
	}
	next, epoch, err := endOf(*buf)
	if err != nil {
		held.Put(buf)
		out.Error = f.s.refusal(f.ctx, cluster.Refuse(cluster.CodeCorrupt, err.Error()))
		return false, true, f.stream.SendMsg(&out)
	}
	f.marks[index] = a.HighWatermark
	want.Offset, want.LastFetchedEpoch = next, epoch
	size := len(*buf)
	out.Batches, out.Home = buf, held
	held.handOver()
	if err := f.stream.SendMsg(&out); err != nil {
		return true, true, err
	}
	f.s.broker.CountFetched(a.Topic, size)
	return true, true, nil
}

// read copies a range out of the log, when there is room for it. A range that was truncated meanwhile comes back as nil: the next round reads anew, or refuses.
func (f *fetchStream) read(slice *broker.Slice) (*hold, *[]byte, error) {
	size := max(slice.Len(), grpcframe.MinCounted)
	held, err := f.unread.take(f.ctx, size)
	if err != nil {
		return nil, nil, err
	}
	buf := f.s.pool.Get(size)
	bytes, err := slice.AppendTo((*buf)[:0])
	if err != nil {
		held.Put(buf)
		return nil, nil, nil
	}
	*buf = bytes
	return held, buf, nil
}

// endOf returns the end of a stretch of batches and the epoch of its last one.
func endOf(b []byte) (next record.Offset, epoch record.LeaderEpoch, err error) {
	err = record.Split(b, func(batch record.Batch) error {
		next, epoch = batch.NextOffset(), batch.LeaderEpoch()
		return nil
	})
	return next, epoch, err
}
