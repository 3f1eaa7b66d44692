package sim

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// TestGivenUpIsNotProposed lets appends find no controller until the patience of a broker with a fast clock is over, and the controller come back then. Of
// whom it was said that nothing was proposed, nothing is.
func TestGivenUpIsNotProposed(t *testing.T) {
	w := newWorld(Options{Seed: 1, Without: Names()})
	w.groups.list = nil
	w.setUp()
	w.load.stopping = true
	shard := cluster.ShardOf("readers")
	b := w.brokers[w.meta.state.Image().Shard(shard).Leader]
	b.clock.drift = maxDrift
	for range 40 {
		w.runUntil(w.now+5*time.Second, w.check.failed) // until nothing is under way any more
		w.meta.resign()
		at := w.meta.state.Groups().Shard(shard)
		batch := cluster.GroupBatch{Shard: shard, ShardEpoch: at.Epoch, Sequence: at.NextSequence}
		try := b.groups.append(cluster.GroupAppend{Broker: b.id, Batches: []cluster.GroupBatch{batch}})
		before := w.cov.GroupAppendsUnknown
		w.runUntil(w.now+2*time.Second, func() bool { return w.cov.GroupAppendsUnknown > before })
		w.meta.lead()
		w.runUntil(w.now+200*time.Millisecond, w.check.failed)
		if try.over && w.meta.state.Groups().Shard(shard).NextSequence != at.NextSequence {
			t.Fatalf("at %s an append is committed that was given up before %s as never proposed", w.now, try.deadline)
		}
	}
	if w.check.failed() {
		t.Fatal(w.check.violation)
	}
}
