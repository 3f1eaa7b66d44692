package broker

import (
	"context"

	"github.com/moldau-log/moldau/cluster"
)

// follow hands every change of the metadata to the partitions and the group coordinator, from the entry that registered this incarnation on.
func (b *Broker) follow(ctx context.Context) {
	w := b.controller.Watch()
	defer w.Stop()
	seen := cluster.EmptyImage()
	for {
		select {
		case <-w.Changed():
		case <-b.registered:
		case <-ctx.Done():
			return
		}
		seen = b.react(seen, b.Image())
	}
}

// react applies what changed since seen and returns what is seen now. It does nothing before the image has our own registration: the broker acts on no
// partition before that.
func (b *Broker) react(seen, img *cluster.Image) *cluster.Image {
	epoch := b.Epoch()
	me, ok := img.Broker(b.id)
	if epoch == cluster.NoBrokerEpoch || !ok || me.Epoch != epoch || seen == img {
		return seen
	}
	delta := cluster.Diff(seen, img)
	if delta.Empty() {
		return img
	}
	b.countElections(delta)
	b.partitions.Reconcile(delta, epoch)
	b.groups.ShardsChanged(b.shardsLed(img))
	b.groups.TopicsChanged()
	return img
}
