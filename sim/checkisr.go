package sim

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// strongISR checks, whenever the metadata of a partition or a leader's watermark has changed, that whoever the metadata says is in sync, or is eligible to
// lead, has everything that is committed, flushed unless the topic is relaxed: any of them may be elected at any moment, and whether the elections would pass it over is not asked here.
// DESIGN.md lists what is forgiven. What a replica that is down has is what it had flushed when it went down.
func (c *checker) strongISR(tp cluster.TopicPartition, image *cluster.Image, p *cluster.Partition) {
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		if has, committed := c.holds(tp, image, id); has < committed {
			c.fail("StrongISR: broker %d has %s to %d of %d committed, and is in the ISR %v or the ELR %v of partition epoch %d",
				id, c.w.named(tp), has, committed, p.ISR, p.ELR, p.PartitionEpoch)
		}
	}
}

// holds is up to where a broker has a partition by the measure of its topic, and up to where that is committed. Of a broker of which nothing can be said now,
// or of which nothing is promised, it says that it has everything.
func (c *checker) holds(tp cluster.TopicPartition, image *cluster.Image, id cluster.BrokerID) (has, committed record.Offset) {
	committed = record.Offset(len(c.ledgers[tp].slots))
	b := c.w.brokers[id]
	topic, ok := image.Topic(tp.Topic)
	if !ok || c.ledgers[tp].undecided() || c.w.isTaken(b, tp) || c.w.isSpoilt(b) && !c.w.spoilt.toldBy(image) {
		return committed, committed
	}
	relaxed := image.TopicConfig(topic).FlushPolicy != cluster.FlushAlways
	if !b.up {
		if was, ok := c.left[place{id, tp}]; ok && !relaxed && !c.w.isSpoilt(b) {
			return was, committed
		}
		return committed, committed
	}
	r := b.replica(tp)
	switch {
	case r == nil || r.at.Role == partition.RoleOffline:
		return committed, committed
	case relaxed:
		return r.at.LogEnd, committed
	}
	return r.at.Flushed, committed
}

// leaves remembers what a broker that goes down has flushed, until it opens its logs again.
func (c *checker) leaves(b *broker) {
	for _, r := range b.parts {
		if r.at.Role != partition.RoleOffline {
			c.left[place{b.id, r.tp}] = r.at.Flushed
		}
	}
}

// returns forgets what leaves has noted.
func (c *checker) returns(b *broker) {
	for key := range c.left {
		if key.id == b.id {
			delete(c.left, key)
		}
	}
}

// broughtAll checks the end of a reassignment: who asked for it may now take away what the former replicas have, so that those that it has brought hold
// everything that is committed (case 53).
func (c *checker) broughtAll(tp cluster.TopicPartition, image *cluster.Image, old, now *cluster.Partition) {
	for _, id := range old.Adding {
		if has, committed := c.holds(tp, image, id); now.HasReplica(id) && has < committed {
			c.fail("I1: the reassignment of %s to %v has ended, and broker %d has %d of %d committed (case 53)", c.w.named(tp), now.Replicas, id, has, committed)
		}
	}
}
