package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// groups is the state of all consumer groups and their offsets: immutable trees, and per shard the sequence of the next batch. A copy of the
// struct is a snapshot. It is not part of the Image, whose watchers must not wake for every committed offset.
type groups struct {
	states  *iradix.Tree[*cluster.GroupState] // by groupKey
	offsets *iradix.Tree[*topicOffsets]       // by groupKey, topic id
	byTopic *iradix.Tree[struct{}]            // by topic id, groupKey: who has offsets in a topic
	next    [cluster.ShardCount]int64
}

// topicOffsets are a group's committed offsets in one topic, sorted by partition. The struct leaves room for offsets that are pending
// in a transaction, by producer id.
type topicOffsets struct {
	committed []cluster.PartitionOffset
}

func newGroups() *groups {
	return &groups{
		states:  iradix.New[*cluster.GroupState](),
		offsets: iradix.New[*topicOffsets](),
		byTopic: iradix.New[struct{}](),
	}
}

const topicIDLen = len(cluster.TopicID{})

// groupKey is the shard, the length of the name and the name: groups of a shard are together, and no group's key is the beginning of another's.
func groupKey(group string) []byte {
	k := make([]byte, 0, 3+len(group)+topicIDLen)
	k = append(k, byte(cluster.ShardOf(group)))
	k = binary.BigEndian.AppendUint16(k, uint16(len(group)))
	return append(k, group...)
}

// offsetsKey is the groupKey followed by the topic id.
func offsetsKey(group string, topic cluster.TopicID) []byte {
	return append(groupKey(group), topic[:]...)
}

func topicKey(topic cluster.TopicID, groupKey []byte) []byte {
	return append(slices.Clone(topic[:]), groupKey...)
}

// splitOffsetsKey is the inverse of offsetsKey.
func splitOffsetsKey(k []byte) (group string, topic cluster.TopicID) {
	n := len(k) - topicIDLen
	copy(topic[:], k[n:])
	return string(k[3:n]), topic
}

// deleteTopic removes all offsets committed for a topic.
func (g *groups) deleteTopic(topic cluster.TopicID) {
	e := g.edit()
	it := g.byTopic.Root().Iterator()
	it.SeekPrefix(topic[:])
	for k, _, ok := it.Next(); ok; k, _, ok = it.Next() {
		group := bytes.Clone(k[topicIDLen:])
		e.offsets.Delete(append(bytes.Clone(group), topic[:]...))
		e.byTopic.Delete(bytes.Clone(k))
		e.forgetIfEmpty(group)
	}
	e.commit()
}

// groupsEdit changes groups. Offsets of the (group, topic) touched last are kept as a private copy until another is touched, so that a
// batch over many partitions copies them once.
type groupsEdit struct {
	to      *groups
	states  *iradix.Txn[*cluster.GroupState]
	offsets *iradix.Txn[*topicOffsets]
	byTopic *iradix.Txn[struct{}]
	openKey []byte
	open    *topicOffsets
}

func (g *groups) edit() *groupsEdit {
	return &groupsEdit{to: g, states: g.states.Txn(), offsets: g.offsets.Txn(), byTopic: g.byTopic.Txn()}
}

func (e *groupsEdit) commit() {
	e.close()
	e.to.states, e.to.offsets, e.to.byTopic = e.states.Commit(), e.offsets.Commit(), e.byTopic.Commit()
}

// close writes the private copy.
func (e *groupsEdit) close() {
	if e.open != nil && len(e.open.committed) > 0 {
		e.offsets.Insert(e.openKey, e.open)
	}
	e.open, e.openKey = nil, nil
}

// openOffsets makes the private copy of one (group, topic).
func (e *groupsEdit) openOffsets(group string, topic cluster.TopicID) *topicOffsets {
	key := offsetsKey(group, topic)
	if e.open != nil && bytes.Equal(key, e.openKey) {
		return e.open
	}
	e.close()
	e.open, e.openKey = &topicOffsets{}, key
	if have, ok := e.offsets.Get(key); ok {
		e.open.committed = slices.Clone(have.committed)
	}
	return e.open
}

// apply carries out one record of a group.
func (e *groupsEdit) apply(rec cluster.GroupRecord) {
	switch r := rec.(type) {
	case cluster.GroupState:
		e.states.Insert(groupKey(r.Group), &r)
	case cluster.GroupDeleted:
		e.deleteGroup(r.Group)
	case cluster.OffsetCommitted:
		e.commitOffset(r)
	case cluster.OffsetDeleted:
		e.deleteOffset(r)
	}
}

func (e *groupsEdit) commitOffset(r cluster.OffsetCommitted) {
	gk := groupKey(r.Group)
	if _, ok := e.states.Get(gk); !ok {
		e.states.Insert(gk, &cluster.GroupState{Group: r.Group, Type: cluster.GroupNone})
	}
	o := e.openOffsets(r.Group, r.Partition.Topic)
	if len(o.committed) == 0 {
		e.byTopic.Insert(topicKey(r.Partition.Topic, gk), struct{}{})
	}
	entry := cluster.PartitionOffset{Partition: r.Partition.Partition, Committed: r.Committed}
	i, ok := findPartition(o.committed, entry.Partition)
	if ok {
		o.committed[i] = entry
		return
	}
	o.committed = slices.Insert(o.committed, i, entry)
}

func (e *groupsEdit) deleteOffset(r cluster.OffsetDeleted) {
	o := e.openOffsets(r.Group, r.Partition.Topic)
	i, ok := findPartition(o.committed, r.Partition.Partition)
	if !ok {
		return
	}
	o.committed = slices.Delete(o.committed, i, i+1)
	if len(o.committed) > 0 {
		return
	}
	gk := groupKey(r.Group)
	e.offsets.Delete(e.openKey)
	e.byTopic.Delete(topicKey(r.Partition.Topic, gk))
	e.close()
	e.forgetIfEmpty(gk)
}

// forgetIfEmpty removes a group that existed only because of offsets, once it has none.
func (e *groupsEdit) forgetIfEmpty(gk []byte) {
	s, ok := e.states.Get(gk)
	if !ok || s.Type != cluster.GroupNone {
		return
	}
	it := e.offsets.Root().Iterator()
	it.SeekPrefix(gk)
	if _, _, any := it.Next(); !any {
		e.states.Delete(gk)
	}
}

func (e *groupsEdit) deleteGroup(group string) {
	e.close()
	gk := groupKey(group)
	var keys [][]byte
	it := e.offsets.Root().Iterator()
	it.SeekPrefix(gk)
	for k, _, ok := it.Next(); ok; k, _, ok = it.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		_, topic := splitOffsetsKey(k)
		e.offsets.Delete(k)
		e.byTopic.Delete(topicKey(topic, gk))
	}
	e.states.Delete(gk)
}

func findPartition(list []cluster.PartitionOffset, n int32) (int, bool) {
	return slices.BinarySearchFunc(list, n, func(o cluster.PartitionOffset, n int32) int { return cmp.Compare(o.Partition, n) })
}

// groupAppend applies the batches of the shards that one broker leads, each accepted or refused alone.
func (a *apply) groupAppend(c cluster.GroupAppend) cluster.Result {
	res := cluster.Result{Items: make([]cluster.ItemResult, len(c.Batches))}
	e := a.groups.edit()
	for i := range c.Batches {
		res.Items[i] = a.appendBatch(e, c.Broker, &c.Batches[i])
	}
	e.commit()
	return res
}

// appendBatch accepts exactly the next batch of the present shard epoch (case 147). CodeDuplicateSequence says that the batch is in the log
// already, CodeOutOfOrderSequence that one before it is not; NextSequence tells which is expected.
func (a *apply) appendBatch(e *groupsEdit, from cluster.BrokerID, b *cluster.GroupBatch) cluster.ItemResult {
	if b.Shard < 0 || b.Shard >= cluster.ShardCount || !inShard(b) {
		return item(cluster.CodeInvalidRequest)
	}
	shard := a.txn.Shard(b.Shard)
	next := a.groups.next[b.Shard]
	switch {
	case (shard.Leader != from || shard.Epoch != b.ShardEpoch) && !planted.On(planted.OldCoordinatorWrites):
		return item(cluster.CodeStaleShardEpoch)
	case b.Sequence < next && !planted.On(planted.BatchAppliedTwice):
		return cluster.ItemResult{Code: cluster.CodeDuplicateSequence, NextSequence: next}
	case b.Sequence > next:
		return cluster.ItemResult{Code: cluster.CodeOutOfOrderSequence, NextSequence: next}
	}
	for _, rec := range b.Records {
		if r, ok := rec.(cluster.OffsetCommitted); ok && !a.hasPartition(r.Partition) {
			continue // the topic was deleted on the way, and its offsets with it
		}
		e.apply(rec)
	}
	a.groups.next[b.Shard] = next + 1
	return cluster.ItemResult{NextSequence: next + 1}
}

func (a *apply) hasPartition(tp cluster.TopicPartition) bool {
	t, ok := a.old.Topic(tp.Topic)
	return ok && tp.Partition >= 0 && tp.Partition < t.Partitions
}

// inShard reports whether all records are of groups that belong to the batch's shard.
func inShard(b *cluster.GroupBatch) bool {
	for _, rec := range b.Records {
		group := rec.GroupID()
		if len(group) > cluster.MaxGroupIDLen || cluster.ShardOf(group) != b.Shard {
			return false
		}
	}
	return true
}
