package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// MaxFetchWait bounds how long a fetch may wait for bytes.
const MaxFetchWait = time.Minute

// Fetch reads committed records of several partitions. It answers at once when there are MinBytes or an error to tell, and otherwise waits for
// new records, at most MaxWait.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) []FetchedPartition {
	out := make([]FetchedPartition, len(req.Partitions))
	runners := make([]*partition.Runner, len(req.Partitions))
	for i := range req.Partitions {
		runners[i] = b.openFetch(ctx, &req, i, &out[i])
	}
	if b.read(req, runners, out) {
		return out
	}
	b.await(ctx, req, runners, out)
	return out
}

// openFetch finds the local leader of one partition, or a follower where that will do, or fills in the refusal or the better replica.
func (b *Broker) openFetch(ctx context.Context, req *FetchRequest, i int, out *FetchedPartition) *partition.Runner {
	p := &req.Partitions[i]
	t, err := b.dataTopic(ctx, p.Topic)
	if err != nil {
		refuseFetch(out, AsRefusal(err))
		return nil
	}
	out.Topic = t.ID
	r, refusal := b.leader(t, p.Partition)
	if refusal != nil && req.Patient {
		r, refusal = b.leaderSoon(ctx, t, p.Partition)
		req.Patient = !b.awaited(refusal) // one wait in vain is enough for a request
	}
	tp := cluster.TopicPartition{Topic: t.ID, Partition: p.Partition}
	if refusal != nil && refusal.Code == cluster.CodeNotLeader && req.Followers {
		if f, ok := b.partitions.Get(tp); ok && f.Role() == partition.RoleFollower {
			return f
		}
	}
	if refusal != nil {
		refuseFetch(out, refusal)
		return nil
	}
	if req.Rack != "" {
		out.Preferred, out.Elsewhere = b.preferred(tp, req.Rack)
	}
	return r
}

// preferred names an in-sync follower in a rack, for a reader there, when this leader is in another. In-sync replicas hold everything below the watermark, so
// that none of them is behind a reader of the leader.
func (b *Broker) preferred(tp cluster.TopicPartition, rack string) (cluster.BrokerID, bool) {
	img := b.Image()
	own, ok := img.Broker(b.id)
	p, found := img.Partition(tp)
	if !ok || !found || own.Rack == rack || p.Leader != b.id {
		return cluster.NoBroker, false
	}
	for _, id := range p.ISR {
		if f, ok := img.Broker(id); ok && id != b.id && f.Rack == rack && f.Eligible() {
			return id, true
		}
	}
	return cluster.NoBroker, false
}

func refuseFetch(out *FetchedPartition, e *cluster.Error) {
	out.Code, out.Message = e.Code, e.Message
	out.Leader, out.LeaderEpoch = e.Leader, record.LeaderEpoch(e.LeaderEpoch)
	out.HighWatermark, out.LogStart = -1, -1
}

// read fills out from every runner and reports whether the request is answered: enough bytes, or an error. Slices of an answer that is not
// enough are released.
func (b *Broker) read(req FetchRequest, runners []*partition.Runner, out []FetchedPartition) bool {
	total, failed := 0, false
	for i, r := range runners {
		if r == nil {
			failed = true
			continue
		}
		p := &req.Partitions[i]
		budget := req.MaxBytes - total
		res := r.Read(partition.ReadRequest{
			Offset:      p.Offset,
			MaxBytes:    max(min(p.MaxBytes, budget), 0),
			Strict:      total > 0,
			LeaderEpoch: p.LeaderEpoch,
			LastEpoch:   p.LastFetchedEpoch,
			Follower:    req.Followers,
		})
		if out[i].Elsewhere && res.Code == cluster.CodeNone && !res.Diverged {
			res.Slice.Release()
			res.Slice = partition.Slice{}
			failed = true // the reader is to go there now
		}
		fillFetched(&out[i], res, p)
		failed = failed || res.Code != cluster.CodeNone || res.Diverged
		if out[i].Slice != nil {
			total += out[i].Slice.Len()
		}
	}
	if failed || total >= req.MinBytes || req.MaxWait <= 0 {
		return true
	}
	for i := range out {
		if out[i].Slice != nil {
			out[i].Slice.Release()
			out[i].Slice = nil
		}
	}
	return false
}

func fillFetched(out *FetchedPartition, res partition.ReadResult, p *FetchPartition) {
	out.Code, out.Message = res.Code, ""
	out.HighWatermark, out.LogStart = res.HighWatermark, res.LogStart
	out.Leader, out.LeaderEpoch = res.Leader, res.LeaderEpoch
	out.Diverged, out.Divergence = res.Diverged, res.Divergence
	if res.Code == cluster.CodeOffsetOutOfRange {
		out.Message = fmt.Sprintf("offset %d is outside %d to %d; start over from one of them", p.Offset, res.LogStart, res.HighWatermark)
	}
	if res.Err != nil {
		out.Message = fmt.Sprintf("offset %d cannot be read: %v", p.Offset, res.Err)
	}
	if res.Code == cluster.CodeNone && res.Slice.Len() > 0 {
		s := res.Slice
		out.Slice = &s
	}
}

// await parks the request until a partition has news or the time is over, then reads again.
func (b *Broker) await(ctx context.Context, req FetchRequest, runners []*partition.Runner, out []FetchedPartition) {
	wake := make(chan struct{}, 1)
	waiters := make([]partition.Waiter, len(runners))
	cancel := func() {
		for i := range waiters {
			waiters[i].Cancel()
		}
	}
	defer cancel()
	timer := time.NewTimer(min(req.MaxWait, MaxFetchWait))
	defer timer.Stop()
	for {
		for i, r := range runners {
			if !r.Wait(&waiters[i], max(req.Partitions[i].Offset, out[i].HighWatermark), wake) {
				req.MaxWait = 0 // too many waiters: answer with what there is
			}
		}
		if req.MaxWait > 0 {
			select {
			case <-wake:
			case <-timer.C:
				req.MaxWait = 0
			case <-ctx.Done():
				req.MaxWait = 0
			case <-b.ctx.Done():
				req.MaxWait = 0
			}
		}
		cancel()
		if b.read(req, runners, out) {
			return
		}
	}
}

// CountFetched counts bytes of a topic's batches that a front door has written to a reader: what was planned is less than that when the reader goes away.
func (b *Broker) CountFetched(topic cluster.TopicID, bytes int) {
	if t, ok := b.Image().Topic(topic); ok {
		b.meters.fetched.With(t.Name, "consumer").Add(int64(bytes))
	}
}
