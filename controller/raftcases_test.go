package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// snapshot has a broker write its state down and cut its log.
func (b *testBroker) snapshot() {
	b.t.Helper()
	if err := b.c.node.Load().raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		b.t.Fatal(err)
	}
}

// Producer ids are given out through failovers of the controller, restores of snapshots and a restart of everything: none comes twice.
func TestCase72_ProducerIDsAcrossFailoverAndSnapshot(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	for _, b := range brokers {
		b.cfg.TrailingLogs = 1 // so that a restart begins with a snapshot
	}
	startAll(brokers)
	id := formed(t, brokers...)
	const count = 100
	given := map[record.ProducerID]bool{}
	allocate := func(when string, by *testBroker) {
		t.Helper()
		broker := by.propose(by.registration())
		first := by.propose(cluster.AllocateProducerIDs{Broker: by.cfg.Broker, Epoch: broker.BrokerEpoch, Count: count}).FirstProducerID
		for n := range record.ProducerID(count) {
			if given[first+n] {
				t.Fatalf("%s: id %d is given a second time", when, first+n)
			}
			given[first+n] = true
		}
	}
	allocate("at first", brokers[0])
	allocate("again", brokers[1])
	leader := leaderOf(t, brokers...)
	leader.stop()
	rest := others(brokers, leader)
	allocate("after a failover", rest[0])
	for _, b := range rest {
		b.snapshot()
	}
	leader.cfg.Cluster = id
	leader.start() // its log ends before that of the others begins, or nearly so
	allocate("after a failover, by the old controller", leader)
	for _, b := range brokers {
		b.snapshot()
	}
	stopAll(brokers)
	for _, b := range brokers {
		b.cfg.Cluster = id
	}
	startAll(brokers)
	allocate("after a restart of all from snapshots", brokers[2])
	if len(given) != 5*count {
		t.Errorf("%d ids were given", len(given))
	}
}

// groupOf is the state that a group's coordinator works on.
type groupOf struct {
	*testing.T
	name string
	tp   cluster.TopicPartition
}

// batch commits one offset, as the coordinator of the shard that b sees.
func (g groupOf) batch(b *testBroker, sequence int64, offset record.Offset) cluster.GroupAppend {
	shard := cluster.ShardOf(g.name)
	at := b.c.Groups().Shard(shard)
	return cluster.GroupAppend{Broker: at.Leader, NowMs: 1, Batches: []cluster.GroupBatch{{
		Shard: shard, ShardEpoch: at.Epoch, Sequence: sequence,
		Records: []cluster.GroupRecord{cluster.OffsetCommitted{Group: g.name, Partition: g.tp, Committed: cluster.CommittedOffset{Offset: offset, CommittedMs: 1}}},
	}}}
}

// commit proposes a batch until it has a verdict.
func (g groupOf) commit(b *testBroker, sequence int64, offset record.Offset) cluster.Code {
	g.Helper()
	ctx := withPatience(g.T)
	for {
		result, err := b.c.ProposeGroups(ctx, g.batch(b, sequence, offset))
		if err == nil {
			return result.Items[0].Code
		}
		if ctx.Err() != nil {
			g.Fatalf("commit %d: %v", offset, err)
		}
	}
}

// stored checks the verdict on a batch that is next, or that an attempt without an answer has stored.
func (g groupOf) stored(code cluster.Code) {
	g.Helper()
	if code != cluster.CodeNone && code != cluster.CodeDuplicateSequence {
		g.Fatalf("the batch is not stored: %s", code)
	}
}

// is checks the committed offset everywhere, in what each broker has applied up to now at the leader.
func (g groupOf) is(brokers []*testBroker, want record.Offset) {
	g.Helper()
	index := brokers[0].setConfig("segment.ms", fmt.Sprint(want)).Index
	for _, b := range brokers {
		if err := b.c.WaitApplied(withPatience(g.T), index); err != nil {
			g.Fatal(err)
		}
		if got, ok := b.c.Groups().Offset(g.name, g.tp); !ok || got.Offset != want {
			g.Errorf("broker %d has the committed offset %d (%v), want %d", b.cfg.Broker, got.Offset, ok, want)
		}
	}
}

// coordinated is a cluster with a topic and a group, whose coordinator is a broker that does not lead. Sessions do not end: nobody moves the shard.
func coordinated(t *testing.T) ([]*testBroker, groupOf) {
	t.Helper()
	_, brokers := testCluster(t, 3)
	for _, b := range brokers {
		b.cfg.TrailingLogs, b.cfg.SessionTimeout = 1, time.Hour
	}
	startAll(brokers)
	id := formed(t, brokers...)
	b := others(brokers, leaderOf(t, brokers...))[0]
	for _, each := range brokers {
		each.cfg.Cluster = id
	}
	registered := b.propose(b.registration())
	b.propose(cluster.UnfenceBroker{Broker: b.cfg.Broker, Epoch: registered.BrokerEpoch})
	topic := cluster.TopicID{7}
	b.propose(cluster.CreateTopic{ID: topic, Name: "t", Assignment: [][]cluster.BrokerID{{b.cfg.Broker}}})
	return brokers, groupOf{T: t, name: "g", tp: cluster.TopicPartition{Topic: topic}}
}

// A committed offset that was answered is there after the Raft leader is gone, after all are gone, and after a start from snapshots.
func TestCase84_CommittedOffsetsOutliveTheLeaderAndAll(t *testing.T) {
	t.Parallel()
	brokers, g := coordinated(t)
	g.stored(g.commit(brokers[0], 0, 5))
	leader := leaderOf(t, brokers...)
	leader.stop()
	rest := others(brokers, leader)
	g.is(rest, 5)
	stopAll(rest)
	startAll(brokers)
	g.is(brokers, 5)
	for _, b := range brokers {
		b.snapshot()
	}
	stopAll(brokers)
	startAll(brokers)
	g.is(brokers, 5)
}

// A batch whose answer was lost reaches the log a second time, behind its successor, under another leader: it counts once, in its place.
func TestCase147_ALateBatchCountsOnceUnderTheRealRaft(t *testing.T) {
	t.Parallel()
	brokers, g := coordinated(t)
	g.stored(g.commit(brokers[0], 0, 10))
	lost := g.batch(brokers[0], 1, 11)
	if code := g.commit(brokers[0], 2, 12); code != cluster.CodeOutOfOrderSequence { // its answer is lost, and it is not there yet
		t.Errorf("a batch before its predecessor: %s", code)
	}
	ctx, cancel := context.WithCancel(withPatience(t))
	cancel() // nobody waits for the answer
	if _, err := brokers[0].c.ProposeGroups(ctx, lost); err == nil {
		t.Error("an answer was not lost")
	}
	leader := leaderOf(t, brokers...)
	leader.stop()
	rest := others(brokers, leader)
	via := rest[0]
	g.stored(g.commit(via, 1, 11)) // again, because it may not have been done
	g.stored(g.commit(via, 2, 12))
	leader.start()
	for _, again := range []struct {
		sequence int64
		offset   record.Offset
	}{{1, 11}, {0, 10}} {
		if code := g.commit(via, again.sequence, again.offset); code != cluster.CodeDuplicateSequence {
			t.Errorf("batch %d once more: %s", again.sequence, code)
		}
	}
	g.is(brokers, 12)
}

// A broker that misses the deletion of a topic learns of it from a snapshot: the topic is gone, and a tombstone names its copy.
func TestCase149_ADeletionIsLearntFromASnapshot(t *testing.T) {
	t.Parallel()
	brokers, g := coordinated(t)
	leader := leaderOf(t, brokers...)
	broker, _ := leader.c.Image().Partition(g.tp)
	away := brokers[broker.Leader]
	away.until("the topic", func(image *cluster.Image) bool { _, ok := image.Topic(g.tp.Topic); return ok })
	away.stop()
	leader = leaderOf(t, others(brokers, away)...)
	deleted := leader.propose(cluster.DeleteTopic{ID: g.tp.Topic}).Index
	for i := range 10 {
		leader.setConfig("retention.ms", fmt.Sprint(i))
	}
	leader = leaderOf(t, others(brokers, away)...)
	leader.snapshot()
	if first, err := leader.c.store.FirstIndex(); err != nil || first <= deleted {
		t.Fatalf("the leader's log begins at %d (%v), before the deletion at %d", first, err, deleted)
	}
	away.start()
	away.until("the deletion", func(image *cluster.Image) bool {
		_, ok := image.Topic(g.tp.Topic)
		return !ok && image.Index() >= deleted
	})
	if newest, err := away.c.snaps.newest(); err != nil || newest == nil || newest.Index < deleted {
		t.Errorf("it was not told by a snapshot: %+v, %v", newest, err)
	}
	marks := 0
	for mark := range away.c.Image().TombstonesIn(away.cfg.Directory) {
		if mark.Partition == g.tp {
			marks++
		}
	}
	if marks != 1 {
		t.Errorf("%d tombstones name its copy", marks)
	}
}
