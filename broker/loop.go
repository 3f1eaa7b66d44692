package broker

import (
	"context"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
)

// follow hands every change of the metadata to the partitions and the group coordinator, from the entry that registered this incarnation on.
func (b *Broker) follow(ctx context.Context) {
	w := b.controller.Watch()
	defer w.Stop()
	seen := cluster.EmptyImage()
	retry := time.NewTicker(partition.RetryPause)
	defer retry.Stop()
	for {
		select {
		case <-w.Changed():
		case <-b.again:
		case <-retry.C:
			b.partitions.Retry()
			continue
		case <-ctx.Done():
			return
		}
		seen = b.react(seen, b.Image())
	}
}

// react applies what changed since seen and returns what is seen now. It does nothing before the image has our own registration: the broker acts on no
// partition before that. Where many replicas are to be created it does a part, and asks to be called again: newer metadata comes between.
func (b *Broker) react(seen, img *cluster.Image) *cluster.Image {
	epoch := b.Epoch()
	me, ok := img.Broker(b.id)
	if epoch == cluster.NoBrokerEpoch || !ok || me.Epoch != epoch || seen == img && !b.unfinished {
		return seen
	}
	if delta := cluster.Diff(seen, img); !delta.Empty() || b.unfinished {
		b.countElections(delta)
		b.unfinished = b.partitions.Reconcile(delta, epoch)
		b.groups.Configure(b.groupSettings(img))
		b.groups.ShardsChanged(b.shardsLed(img))
		b.groups.TopicsChanged()
		b.awaitResignations(delta)
	}
	if b.unfinished {
		b.wakeLoop()
		return img
	}
	b.acted.Store(img)
	if s := b.session.Load(); s != nil {
		s.Acted()
	}
	return img
}

// wakeLoop has the loop look at the newest image, also when it is the one that it has seen.
func (b *Broker) wakeLoop() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// awaitResignations returns when every local replica that has lost its leadership knows: what the broker tells the controller to have handled, it has.
func (b *Broker) awaitResignations(delta *cluster.Delta) {
	for c := range delta.Partitions() {
		if c.Old == nil || c.Old.Leader != b.id || c.New != nil && c.New.Leader == b.id {
			continue
		}
		if r, ok := b.partitions.Get(c.Key); ok {
			r.Status() // its answer comes after what Reconcile has put into the inbox
		}
	}
}

// handled is the index up to which the broker acts on the metadata.
func (b *Broker) handled() uint64 {
	applied := b.controller.Applied() // first: an image that is read later is at least as new
	acted := b.acted.Load()
	switch {
	case acted == nil:
		return 0
	case acted == b.Image():
		return applied
	}
	return acted.Index()
}
