package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// TestWatermarkInsideABatch lets all brokers lose power, and a follower come back alone. It is told of a watermark inside a batch. That is right where the
// log start lies there, from which a leader's watermark begins; where nothing was deleted no watermark divides a batch.
func TestWatermarkInsideABatch(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		w := newWorld(Options{Seed: 1, Trace: true, Without: Names()})
		w.setUp()
		w.runUntil(w.now+time.Second, w.check.failed)
		tp, first, end := w.longBatch(t)
		p, _ := w.meta.state.Image().Partition(tp)
		follower := w.brokers[p.Replicas[1]]
		for _, b := range w.brokers {
			b.crash()
		}
		follower.start()
		w.runUntil(w.now+time.Second, func() bool {
			r := follower.replica(tp)
			return w.check.failed() || r != nil && r.at.Role == partition.RoleFollower
		})
		r := follower.replica(tp)
		if w.check.failed() || r == nil || r.at.HighWatermark > first || r.at.LogEnd < end {
			t.Fatalf("no follower that is to learn the watermark: %s", w.check.violation)
		}
		if deleted {
			w.check.ledgers[tp].start = first + 1
		}
		r.post(func() {
			r.Deliver(r.at.LeaderEpoch, session.Data{First: r.at.LogEnd, HighWatermark: first + 1}, func() {})
		})
		w.runUntil(w.now+10*time.Millisecond, func() bool { return w.check.failed() || r.at.HighWatermark == first+1 })
		if deleted && (w.check.failed() || r.seen != int64(first)) {
			t.Errorf("with records deleted up to inside a batch: compared to %d of %d; %s", r.seen, first, w.check.violation)
		}
		if !deleted && !strings.Contains(w.check.violation, "cannot read") {
			t.Errorf("with nothing deleted: %q", w.check.violation)
		}
	}
}

// TestCutBelowTheWatermark cuts a follower's log below its watermark: that takes what is committed, except where everything there is deleted.
func TestCutBelowTheWatermark(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		w, tp, p := calmWorld(t)
		r := w.brokers[p.Replicas[1]].replica(tp)
		before := r.at
		before.HighWatermark, before.LogEnd = r.at.LogEnd+1, r.at.LogEnd+3
		if deleted {
			before.LogStart = before.HighWatermark
		}
		w.check.turned(r, &before)
		if found := strings.Contains(w.check.violation, "below its watermark"); found == deleted {
			t.Errorf("deleted %t: %q", deleted, w.check.violation)
		}
	}
}

// calmWorld plays a second without faults. It returns a partition that has a batch of several records.
func calmWorld(t *testing.T) (*World, cluster.TopicPartition, *cluster.Partition) {
	t.Helper()
	w := newWorld(Options{Seed: 1, Trace: true, Without: Names()})
	w.setUp()
	w.runUntil(w.now+time.Second, w.check.failed)
	tp, _, _ := w.longBatch(t)
	p, _ := w.meta.state.Image().Partition(tp)
	return w, tp, p
}

// longBatch finds a batch of several records that a partition's followers have.
func (w *World) longBatch(t *testing.T) (tp cluster.TopicPartition, first, end record.Offset) {
	t.Helper()
	for _, tp = range w.partitions {
		p, _ := w.meta.state.Image().Partition(tp)
		r := w.brokers[p.Replicas[1]].replica(tp)
		w.check.walk(r, r.at.LogStart, func(b record.Batch) {
			if b.NextOffset() > b.BaseOffset()+1 {
				first, end = b.BaseOffset(), b.NextOffset()
			}
		})
		if end > 0 {
			return tp, first, end
		}
	}
	t.Fatal("no batch has several records")
	return
}
