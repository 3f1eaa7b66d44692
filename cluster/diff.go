package cluster

import (
	"bytes"
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// Delta is what lies between two Images. A watcher that was slow compares the last Image it worked on with the newest: deltas merge by themselves.
type Delta struct{ Old, New *Image }

// Diff compares two Images. Only what is asked for is walked, and not at all where both share the whole tree; otherwise a walk costs about 13 ns for
// each key.
func Diff(old, new *Image) *Delta { return &Delta{Old: old, New: new} }

// Change is one key whose value differs. The zero V (nil for pointers) stands for absent.
type Change[K, V any] struct {
	Key      K
	Old, New V
}

// Empty reports whether nothing differs but perhaps the index.
func (d *Delta) Empty() bool {
	o, n := d.Old, d.New
	if o == n {
		return true
	}
	if o.cluster != n.cluster || o.featureLevel != n.featureLevel || o.nextProducer != n.nextProducer {
		return false
	}
	return none(d.Topics()) && none(d.Partitions()) && none(d.Brokers()) && none(d.Shards()) && none(d.Configs()) && none(d.Tombstones())
}

// Topics visits topics that came, went or changed their partition count or configs, in the order of ids.
func (d *Delta) Topics() iter.Seq[Change[TopicID, *Topic]] {
	return diffTrees(d.Old.topics, d.New.topics, func(k []byte) TopicID { return TopicID(k) })
}

// Partitions visits partitions that came, went or changed, in key order.
func (d *Delta) Partitions() iter.Seq[Change[TopicPartition, *Partition]] {
	return diffTrees(d.Old.partitions, d.New.partitions, parsePartitionKey)
}

// Brokers visits brokers that came, went or changed (registration, fencing, draining), in the order of ids.
func (d *Delta) Brokers() iter.Seq[Change[BrokerID, *Broker]] {
	return diffTrees(d.Old.brokers, d.New.brokers, parseBrokerKey)
}

// Tombstones visits marks that came or went, ordered by directory and partition.
func (d *Delta) Tombstones() iter.Seq[Change[Tombstone, Tombstone]] {
	return diffTrees(d.Old.tombstones, d.New.tombstones, parseTombstoneKey)
}

// Shards visits shards whose leader or epoch changed, in the order of ids.
func (d *Delta) Shards() iter.Seq[Change[ShardID, Shard]] {
	return func(yield func(Change[ShardID, Shard]) bool) {
		if d.Old.shards == d.New.shards {
			return
		}
		for i := range ShardID(ShardCount) {
			o, n := d.Old.shards[i], d.New.shards[i]
			if o != n && !yield(Change[ShardID, Shard]{Key: i, Old: o, New: n}) {
				return
			}
		}
	}
}

// Configs visits the configs of brokers and the cluster default that changed, in the order of kind and name. A topic's configs are part of Topics.
func (d *Delta) Configs() iter.Seq[Change[ConfigResource, Configs]] {
	// Configs are slices, so the trees are compared by identity of entries: a written entry counts as changed.
	return func(yield func(Change[ConfigResource, Configs]) bool) {
		walkTrees(d.Old.configs, d.New.configs, sameConfigs, func(k []byte, o, n Configs) bool {
			return yield(Change[ConfigResource, Configs]{Key: parseConfigKey(k), Old: o, New: n})
		})
	}
}

func sameConfigs(a, b Configs) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func none[T any](seq iter.Seq[T]) bool {
	for range seq {
		return false
	}
	return true
}

func diffTrees[K any, V comparable](old, new *iradix.Tree[V], parse func([]byte) K) iter.Seq[Change[K, V]] {
	same := func(a, b V) bool { return a == b }
	return func(yield func(Change[K, V]) bool) {
		walkTrees(old, new, same, func(k []byte, o, n V) bool {
			return yield(Change[K, V]{Key: parse(k), Old: o, New: n})
		})
	}
}

// walkTrees merges two trees in key order and visits each key whose values are not the same. Values are compared by identity where they are
// pointers: whoever writes a tree must not write what is equal.
func walkTrees[V any](old, new *iradix.Tree[V], same func(a, b V) bool, visit func(k []byte, o, n V) bool) {
	if old == new {
		return
	}
	var zero V
	a, b := old.Root().Iterator(), new.Root().Iterator()
	ak, av, aok := a.Next()
	bk, bv, bok := b.Next()
	for aok || bok {
		order := 0
		switch {
		case !aok:
			order = 1
		case !bok:
			order = -1
		default:
			order = bytes.Compare(ak, bk)
		}
		switch {
		case order < 0:
			if !visit(ak, av, zero) {
				return
			}
		case order > 0:
			if !visit(bk, zero, bv) {
				return
			}
		case !same(av, bv) && !visit(ak, av, bv):
			return
		}
		if order <= 0 {
			ak, av, aok = a.Next()
		}
		if order >= 0 {
			bk, bv, bok = b.Next()
		}
	}
}
