package group

import (
	"maps"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// offsets holds what is committed, by topic first: deleted topics are looked for without a walk over all partitions.
type offsets map[cluster.TopicID]map[int32]cluster.CommittedOffset

func (o offsets) get(tp cluster.TopicPartition) (cluster.CommittedOffset, bool) {
	c, ok := o[tp.Topic][tp.Partition]
	return c, ok
}

func (o offsets) set(tp cluster.TopicPartition, c cluster.CommittedOffset) {
	of := o[tp.Topic]
	if of == nil {
		of = map[int32]cluster.CommittedOffset{}
		o[tp.Topic] = of
	}
	of[tp.Partition] = c
}

func (o offsets) remove(tp cluster.TopicPartition) {
	delete(o[tp.Topic], tp.Partition)
	if len(o[tp.Topic]) == 0 {
		delete(o, tp.Topic)
	}
}

// keys returns what is committed, in order.
func (o offsets) keys() []cluster.TopicPartition {
	topics := slices.SortedFunc(maps.Keys(o), func(a, b cluster.TopicID) int { return slices.Compare(a[:], b[:]) })
	var out []cluster.TopicPartition
	for _, id := range topics {
		for _, partition := range slices.Sorted(maps.Keys(o[id])) {
			out = append(out, cluster.TopicPartition{Topic: id, Partition: partition})
		}
	}
	return out
}
