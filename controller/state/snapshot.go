package state

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// Snapshot is the state after one entry. It is immutable, costs nothing to take, and may be written out by anybody while Apply goes on.
type Snapshot struct {
	img    *cluster.Image
	groups groups
}

// Snapshot takes the present state.
func (s *State) Snapshot() *Snapshot { return &Snapshot{img: s.img, groups: *s.groups} }

// FromSnapshot makes a state of a snapshot in memory. It goes its own way from there.
func FromSnapshot(s *Snapshot) *State {
	g := s.groups
	return &State{img: s.img, groups: &g}
}

// Index is the index of the last entry in the snapshot.
func (s *Snapshot) Index() uint64 { return s.img.Index() }

// Records lists the whole state: header, brokers, topics each with its partitions, configs, tombstones, groups each with its offsets, end. Kinds and keys are in a
// fixed order, so that equal states give equal lists.
func (s *Snapshot) Records() iter.Seq[cluster.SnapshotRecord] {
	return func(yield func(cluster.SnapshotRecord) bool) {
		count := uint64(0)
		put := func(r cluster.SnapshotRecord) bool {
			count++
			return yield(r)
		}
		if put(s.header()) && s.metadata(put) && s.groupRecords(put) {
			yield(cluster.SnapshotEnd{Records: count})
		}
	}
}

func (s *Snapshot) header() cluster.SnapshotHeader {
	h := cluster.SnapshotHeader{Index: s.img.Index(), Cluster: s.img.ClusterID(), CreatedMs: s.img.CreatedMs(),
		FeatureLevel: s.img.FeatureLevel(), NextProducerID: s.img.NextProducerID()}
	for i := range h.Shards {
		h.Shards[i] = s.img.Shard(cluster.ShardID(i))
		h.Shards[i].NextSequence = s.groups.next[i]
	}
	return h
}

func (s *Snapshot) metadata(put func(cluster.SnapshotRecord) bool) bool {
	for b := range s.img.Brokers() {
		if !put(cluster.SnapshotBroker{Broker: b}) {
			return false
		}
	}
	for t := range s.img.Topics() {
		if !put(cluster.SnapshotTopic{Topic: t}) {
			return false
		}
		for n, p := range s.img.PartitionsOf(t.ID) {
			if !put(cluster.SnapshotPartition{Key: cluster.TopicPartition{Topic: t.ID, Partition: n}, Partition: p}) {
				return false
			}
		}
	}
	for r, c := range s.img.ConfigResources() {
		if !put(cluster.SnapshotConfigs{Resource: r, Configs: c}) {
			return false
		}
	}
	for t := range s.img.Tombstones() {
		if !put(cluster.SnapshotTombstone{Tombstone: t}) {
			return false
		}
	}
	return true
}

func (s *Snapshot) groupRecords(put func(cluster.SnapshotRecord) bool) bool {
	for g := range prefixed(s.groups.states, nil) {
		if !put(cluster.SnapshotGroup{Group: g}) {
			return false
		}
		it := s.groups.offsets.Root().Iterator()
		it.SeekPrefix(groupKey(g.Group))
		for k, o, ok := it.Next(); ok; k, o, ok = it.Next() {
			_, topic := splitOffsetsKey(k)
			if !put(cluster.SnapshotOffsets{Group: g.Group, Topic: topic, Offsets: o.committed}) {
				return false
			}
		}
	}
	return true
}

// ErrSnapshot reports a snapshot that does not hold together.
var ErrSnapshot = errors.New("controller/state: bad snapshot")

// Restore builds a state from a snapshot's records. An error of the reader is passed on; a list that does not hold together gives ErrSnapshot. No part
// of a bad snapshot is kept.
func Restore(records iter.Seq2[cluster.SnapshotRecord, error]) (*State, error) {
	r := restore{txn: cluster.EmptyImage().Txn(), groups: newGroups()}
	r.edit = r.groups.edit()
	for rec, err := range records {
		if err != nil {
			return nil, fmt.Errorf("controller/state: read snapshot: %w", err)
		}
		if err := r.add(rec); err != nil {
			return nil, err
		}
	}
	if !r.ended {
		return nil, fmt.Errorf("%w: it ends after %d records without an end mark", ErrSnapshot, r.count)
	}
	r.edit.commit()
	return &State{img: r.txn.Commit(r.index), groups: r.groups}, nil
}

type restore struct {
	txn    *cluster.Txn
	groups *groups
	edit   *groupsEdit
	index  uint64
	count  uint64
	ended  bool
}

func (r *restore) add(rec cluster.SnapshotRecord) error {
	_, header := rec.(cluster.SnapshotHeader)
	if r.ended || header != (r.count == 0) {
		return fmt.Errorf("%w: %T as record %d", ErrSnapshot, rec, r.count)
	}
	switch rec := rec.(type) {
	case cluster.SnapshotHeader:
		r.header(rec)
	case cluster.SnapshotBroker:
		r.txn.PutBroker(rec.Broker)
	case cluster.SnapshotTopic:
		r.txn.PutTopic(rec.Topic)
	case cluster.SnapshotPartition:
		r.txn.PutPartition(rec.Key, rec.Partition)
	case cluster.SnapshotConfigs:
		r.txn.PutConfigs(rec.Resource, rec.Configs)
	case cluster.SnapshotTombstone:
		r.txn.PutTombstone(rec.Tombstone)
	case cluster.SnapshotGroup:
		r.edit.apply(*rec.Group)
	case cluster.SnapshotOffsets:
		r.offsets(rec)
	case cluster.SnapshotEnd:
		if rec.Records != r.count {
			return fmt.Errorf("%w: %d records, %d were written", ErrSnapshot, r.count, rec.Records)
		}
		r.ended = true
	}
	r.count++
	return nil
}

func (r *restore) header(h cluster.SnapshotHeader) {
	r.index = h.Index
	r.txn.SetCluster(h.Cluster, h.CreatedMs)
	r.txn.SetFeatureLevel(h.FeatureLevel)
	r.txn.SetNextProducerID(h.NextProducerID)
	for i, s := range h.Shards {
		r.groups.next[i] = s.NextSequence
		s.NextSequence = 0
		r.txn.PutShard(cluster.ShardID(i), s)
	}
}

func (r *restore) offsets(rec cluster.SnapshotOffsets) {
	gk := groupKey(rec.Group)
	r.edit.offsets.Insert(offsetsKey(rec.Group, rec.Topic), &topicOffsets{committed: slices.Clone(rec.Offsets)})
	r.edit.byTopic.Insert(topicKey(rec.Topic, gk), struct{}{})
}
