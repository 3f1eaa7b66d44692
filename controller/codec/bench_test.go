package codec

import (
	"fmt"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// commits is an entry of 1,000 committed offsets.
func commits() cluster.GroupAppend {
	c := cluster.GroupAppend{Broker: 1, Batches: []cluster.GroupBatch{{Shard: 1, ShardEpoch: 2, Sequence: 3}}}
	for n := range int32(1000) {
		c.Batches[0].Records = append(c.Batches[0].Records, cluster.OffsetCommitted{Group: fmt.Sprint("group", n/10),
			Partition: cluster.TopicPartition{Topic: uid(1), Partition: n % 10}, Committed: cluster.CommittedOffset{Offset: 1 << 30, LeaderEpoch: 5, CommittedMs: 1700000000000}})
	}
	return c
}

func BenchmarkEncodeGroupAppend(b *testing.B) {
	cmd := commits()
	for b.Loop() {
		if _, err := EncodeCommand(cmd); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeGroupAppend(b *testing.B) {
	encoded, err := EncodeCommand(commits())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(encoded))/1000, "B/record")
	for b.Loop() {
		if _, err := DecodeCommand(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
