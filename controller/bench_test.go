package controller

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/record"
)

// largeFSM holds 10,000 partitions and the committed offsets of groups.
func largeFSM(tb testing.TB, offsets int) *fsm {
	tb.Helper()
	f := newFSM(newBoard(), func(err error) { tb.Fatal(err) }, func(*cluster.Image) {})
	index := uint64(0)
	apply := func(cmd cluster.Command) {
		encoded, err := encodeCommand(cmd)
		if err != nil {
			tb.Fatal(err)
		}
		index++
		result, ok := f.Apply(&raft.Log{Index: index, Data: frameEntry(encoded)}).(cluster.Result)
		if !ok || result.Code != cluster.CodeNone {
			tb.Fatalf("%T: %+v", cmd, result)
		}
		for _, item := range result.Items {
			if item.Code != cluster.CodeNone {
				tb.Fatalf("%T: %+v", cmd, item)
			}
		}
	}
	apply(cluster.InitCluster{Cluster: cluster.ClusterID{1}, FeatureLevel: 1})
	for id := range cluster.BrokerID(3) {
		apply(cluster.RegisterBroker{Broker: cluster.Broker{ID: id, Directory: cluster.DirectoryID{byte(id + 1)}, Incarnation: cluster.IncarnationID{1}, PeerAddress: "b:1", MinLevel: 1, MaxLevel: 1}})
		apply(cluster.UnfenceBroker{Broker: id, Epoch: cluster.BrokerEpoch(index)})
	}
	const topics, partitions = 100, 100
	for n := range topics {
		c := cluster.CreateTopic{ID: cluster.TopicID{1, byte(n)}, Name: fmt.Sprintf("topic-%d", n)}
		for range partitions {
			c.Assignment = append(c.Assignment, []cluster.BrokerID{0, 1, 2})
		}
		apply(c)
	}
	for n := 0; n < offsets; n += topics * partitions {
		group := fmt.Sprintf("group-%d", n)
		shard := cluster.ShardOf(group)
		at := f.groups.Load().Shard(shard)
		batch := cluster.GroupBatch{Shard: shard, ShardEpoch: at.Epoch, Sequence: at.NextSequence}
		for i := range topics * partitions {
			batch.Records = append(batch.Records, cluster.OffsetCommitted{
				Group: group, Partition: cluster.TopicPartition{Topic: cluster.TopicID{1, byte(i / partitions)}, Partition: int32(i % partitions)},
				Committed: cluster.CommittedOffset{Offset: record.Offset(i), CommittedMs: 1},
			})
		}
		apply(cluster.GroupAppend{Broker: f.state.Image().Shard(shard).Leader, Batches: []cluster.GroupBatch{batch}})
	}
	return f
}

// BenchmarkCase126_Restore is the part of a restart that grows with the metadata: 10,000 partitions and a million committed offsets.
func BenchmarkCase126_Restore(b *testing.B) {
	f := largeFSM(b, 1_000_000)
	var file bytes.Buffer
	if err := codec.WriteSnapshot(&file, f.state.Snapshot().Records()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		g := newFSM(newBoard(), func(err error) { b.Fatal(err) }, func(*cluster.Image) {})
		if err := g.Restore(io.NopCloser(bytes.NewReader(file.Bytes()))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(file.Len())/(1<<20), "MiB")
}

// BenchmarkCase126_Snapshot writes the same state down.
func BenchmarkCase126_Snapshot(b *testing.B) {
	f := largeFSM(b, 1_000_000)
	for b.Loop() {
		if err := codec.WriteSnapshot(io.Discard, f.state.Snapshot().Records()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply is what one small command costs on Raft's goroutine at 10,000 partitions.
func BenchmarkApply(b *testing.B) {
	f := largeFSM(b, 0)
	index := f.state.Image().Index()
	broker, _ := f.state.Image().Broker(0)
	encoded, err := encodeCommand(cluster.AllocateProducerIDs{Broker: 0, Epoch: broker.Epoch, Count: 1000})
	if err != nil {
		b.Fatal(err)
	}
	entry := frameEntry(encoded)
	for b.Loop() {
		index++
		f.Apply(&raft.Log{Index: index, Data: entry})
	}
}
