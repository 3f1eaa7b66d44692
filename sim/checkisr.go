package sim

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// strongISR checks that whoever the metadata says is in sync, or is eligible to lead, has everything that is committed, flushed unless the topic is relaxed:
// any of them may be elected at any moment. A replica that is down is looked at when it leads (complete).
func (c *checker) strongISR(tp cluster.TopicPartition, image *cluster.Image, p *cluster.Partition) {
	topic, ok := image.Topic(tp.Topic)
	if !ok || c.ledgers[tp].undecided() {
		return
	}
	relaxed := image.TopicConfig(topic).FlushPolicy != cluster.FlushAlways
	committed := record.Offset(len(c.ledgers[tp].slots))
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		b := c.w.brokers[id]
		r := b.replica(tp)
		if !b.up || r == nil || r.at.Role == partition.RoleOffline || c.w.isSpoilt(b) {
			continue
		}
		has := r.at.Flushed
		if relaxed {
			has = r.at.LogEnd
		}
		if has < committed {
			c.fail("StrongISR: broker %d has %s to %d of %d committed, and is in the ISR %v or the ELR %v of partition epoch %d",
				id, c.w.named(tp), has, committed, p.ISR, p.ELR, p.PartitionEpoch)
		}
	}
}
