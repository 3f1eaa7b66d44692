package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/controller/state"
)

const (
	benchBrokers    = 30
	benchTopics     = 100
	benchPartitions = 100 // of each topic: 10,000 in all, so that each broker leads 333
)

// bigCluster is a state of 10,000 partitions on 30 brokers.
func bigCluster(b *testing.B) *state.State {
	b.Helper()
	s := state.New()
	apply := func(cmd cluster.Command) {
		if res := s.Apply(s.Image().Index()+1, cmd); res.Code != cluster.CodeNone {
			b.Fatalf("%T: %s %s", cmd, res.Code, res.Message)
		}
	}
	apply(cluster.InitCluster{Cluster: cluster.UUID{1}, FeatureLevel: 1})
	for id := range cluster.BrokerID(benchBrokers) {
		apply(cluster.RegisterBroker{PreviousEpoch: -1, Broker: cluster.Broker{ID: id, Directory: cluster.UUID{1, byte(id)}, Incarnation: cluster.UUID{2, byte(id)}, MinLevel: 1, MaxLevel: 1}})
		br, _ := s.Image().Broker(id)
		apply(cluster.UnfenceBroker{Broker: id, Epoch: br.Epoch})
	}
	var shards cluster.AssignShards
	for id := range cluster.ShardID(cluster.ShardCount) {
		shards.Moves = append(shards.Moves, cluster.ShardMove{Shard: id, Leader: cluster.BrokerID(int(id) % benchBrokers)})
	}
	apply(shards)
	for n := range benchTopics {
		a, err := placement.Assign(placement.Request{Brokers: placement.Brokers(s.Image()), Partitions: benchPartitions, ReplicationFactor: 3, Seed: uint64(n)})
		if err != nil {
			b.Fatal(err)
		}
		apply(cluster.CreateTopic{ID: cluster.UUID{byte(n * 37), byte(n), 3}, Name: fmt.Sprint("topic", n), Assignment: a})
	}
	return s
}

// BenchmarkAlterPartition is one ISR change among 10,000 partitions.
func BenchmarkAlterPartition(b *testing.B) {
	s := bigCluster(b)
	tp := cluster.TopicPartition{Topic: cluster.UUID{37, 1, 3}, Partition: 42}
	for n := 0; b.Loop(); n++ {
		p, _ := s.Image().Partition(tp)
		c := cluster.ISRChange{Partition: tp, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
		for i, m := range p.Replicas {
			if n%2 == 0 && i == 2 {
				continue
			}
			br, _ := s.Image().Broker(m)
			c.ISR = append(c.ISR, cluster.ISRMember{Broker: m, Epoch: br.Epoch})
		}
		leader, _ := s.Image().Broker(p.Leader)
		res := s.Apply(s.Image().Index()+1, cluster.AlterPartition{Leader: p.Leader, LeaderBroker: leader.Epoch, Changes: []cluster.ISRChange{c}})
		if res.Code != cluster.CodeNone || res.Items[0].Code != cluster.CodeNone {
			b.Fatal(res)
		}
	}
}

// BenchmarkFenceBroker fences a broker with 1,000 replicas, 333 of which lead.
func BenchmarkFenceBroker(b *testing.B) {
	s := bigCluster(b)
	snap := s.Snapshot()
	br, _ := s.Image().Broker(7)
	for b.Loop() {
		s := state.FromSnapshot(snap)
		if res := s.Apply(s.Image().Index()+1, cluster.FenceBroker{Broker: 7, Epoch: br.Epoch}); res.Code != cluster.CodeNone {
			b.Fatal(res)
		}
	}
}

// BenchmarkDiffOnePartition compares two images of 10,000 partitions that differ in one.
func BenchmarkDiffOnePartition(b *testing.B) {
	s := bigCluster(b)
	old := s.Image()
	tp := cluster.TopicPartition{Topic: cluster.UUID{37, 1, 3}, Partition: 42}
	p, _ := old.Partition(tp)
	s.Apply(old.Index()+1, cluster.SetLogStart{Partition: tp, LeaderEpoch: p.LeaderEpoch, LogStart: 5})
	for b.Loop() {
		n := 0
		for range cluster.Diff(old, s.Image()).Partitions() {
			n++
		}
		if n != 1 {
			b.Fatal(n)
		}
	}
}

// BenchmarkGroupAppend commits offsets: one batch of 100 commits of one group in one topic among 1,000 groups.
func BenchmarkGroupAppend(b *testing.B) {
	s := bigCluster(b)
	topic := cluster.UUID{37, 1, 3}
	batch := func(group string) cluster.GroupAppend {
		id := cluster.ShardOf(group)
		shard := s.Groups().Shard(id)
		gb := cluster.GroupBatch{Shard: id, ShardEpoch: shard.Epoch, Sequence: shard.NextSequence}
		for n := range int32(benchPartitions) {
			gb.Records = append(gb.Records, cluster.OffsetCommitted{Group: group, Partition: cluster.TopicPartition{Topic: topic, Partition: n}, Committed: cluster.CommittedOffset{Offset: 5}})
		}
		return cluster.GroupAppend{Broker: shard.Leader, Batches: []cluster.GroupBatch{gb}}
	}
	for n := range 1000 {
		s.Apply(s.Image().Index()+1, batch(fmt.Sprint("group", n)))
	}
	for n := 0; b.Loop(); n++ {
		if res := s.Apply(s.Image().Index()+1, batch(fmt.Sprint("group", n%1000))); res.Items[0].Code != cluster.CodeNone {
			b.Fatal(res)
		}
	}
}

func BenchmarkPartitionRead(b *testing.B) {
	img := bigCluster(b).Image()
	tp := cluster.TopicPartition{Topic: cluster.UUID{37, 1, 3}, Partition: 42}
	for b.Loop() {
		if _, ok := img.Partition(tp); !ok {
			b.Fatal("gone")
		}
	}
}

// BenchmarkSnapshotMillionOffsets writes and restores 10,000 partitions with 1,000,000 committed offsets (case 126).
func BenchmarkSnapshotMillionOffsets(b *testing.B) {
	s := bigCluster(b)
	for n := range 100 * benchTopics {
		group := fmt.Sprint("group", n/benchTopics)
		id := cluster.ShardOf(group)
		shard := s.Groups().Shard(id)
		gb := cluster.GroupBatch{Shard: id, ShardEpoch: shard.Epoch, Sequence: shard.NextSequence}
		topic := cluster.UUID{byte(n % benchTopics * 37), byte(n % benchTopics), 3}
		for p := range int32(benchPartitions) {
			gb.Records = append(gb.Records, cluster.OffsetCommitted{Group: group, Partition: cluster.TopicPartition{Topic: topic, Partition: p},
				Committed: cluster.CommittedOffset{Offset: 1 << 40, LeaderEpoch: 7, CommittedMs: 1700000000000}})
		}
		s.Apply(s.Image().Index()+1, cluster.GroupAppend{Broker: shard.Leader, Batches: []cluster.GroupBatch{gb}})
	}
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := codec.WriteSnapshot(&out, s.Snapshot().Records()); err != nil {
			b.Fatal(err)
		}
		if _, err := state.Restore(codec.ReadSnapshot(bytes.NewReader(out.Bytes()))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(out.Len())/1e6, "MB")
}
