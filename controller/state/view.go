package state

import (
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/moldau-log/moldau/cluster"
)

// GroupView is the state of all consumer groups after one entry of the metadata log. It never changes and may be read by anybody.
type GroupView struct {
	index  uint64
	img    *cluster.Image
	groups groups
}

// Index is the index of the entry.
func (v *GroupView) Index() uint64 { return v.index }

// Group returns the state of a group. A group that only has offsets is there with type GroupNone.
func (v *GroupView) Group(name string) (*cluster.GroupState, bool) {
	if len(name) > cluster.MaxGroupIDLen {
		return nil, false
	}
	return v.groups.states.Get(groupKey(name))
}

// Groups visits all groups by shard; within a shard by length of name, then name.
func (v *GroupView) Groups() iter.Seq[*cluster.GroupState] { return prefixed(v.groups.states, nil) }

// GroupsIn visits the groups of one shard.
func (v *GroupView) GroupsIn(shard cluster.ShardID) iter.Seq[*cluster.GroupState] {
	return prefixed(v.groups.states, []byte{byte(shard)})
}

// GroupCount is the number of groups.
func (v *GroupView) GroupCount() int { return v.groups.states.Len() }

// Offset returns a committed offset.
func (v *GroupView) Offset(group string, tp cluster.TopicPartition) (cluster.CommittedOffset, bool) {
	if len(group) > cluster.MaxGroupIDLen {
		return cluster.CommittedOffset{}, false
	}
	o, ok := v.groups.offsets.Get(offsetsKey(group, tp.Topic))
	if !ok {
		return cluster.CommittedOffset{}, false
	}
	i, ok := findPartition(o.committed, tp.Partition)
	if !ok {
		return cluster.CommittedOffset{}, false
	}
	return o.committed[i].Committed, true
}

// Offsets visits the committed offsets of a group by topic id and partition.
func (v *GroupView) Offsets(group string) iter.Seq2[cluster.TopicPartition, cluster.CommittedOffset] {
	return func(yield func(cluster.TopicPartition, cluster.CommittedOffset) bool) {
		if len(group) > cluster.MaxGroupIDLen {
			return
		}
		it := v.groups.offsets.Root().Iterator()
		it.SeekPrefix(groupKey(group))
		for k, o, ok := it.Next(); ok; k, o, ok = it.Next() {
			_, topic := splitOffsetsKey(k)
			for _, e := range o.committed {
				if !yield(cluster.TopicPartition{Topic: topic, Partition: e.Partition}, e.Committed) {
					return
				}
			}
		}
	}
}

// Shard returns who coordinates a shard, in which epoch, and the sequence of the next batch that it accepts.
func (v *GroupView) Shard(id cluster.ShardID) cluster.Shard {
	s := v.img.Shard(id)
	if id >= 0 && id < cluster.ShardCount {
		s.NextSequence = v.groups.next[id]
	}
	return s
}

// Records visits a shard's state as the records that would build it: what a coordinator loads when it takes over.
func (v *GroupView) Records(shard cluster.ShardID) iter.Seq[cluster.GroupRecord] {
	return func(yield func(cluster.GroupRecord) bool) {
		for g := range v.GroupsIn(shard) {
			if !yield(*g) {
				return
			}
			for tp, o := range v.Offsets(g.Group) {
				if !yield(cluster.OffsetCommitted{Group: g.Group, Partition: tp, Committed: o}) {
					return
				}
			}
		}
	}
}

func prefixed[T any](tree *iradix.Tree[T], prefix []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		it := tree.Root().Iterator()
		it.SeekPrefix(prefix)
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if !yield(v) {
				return
			}
		}
	}
}
