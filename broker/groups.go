package broker

import (
	"context"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// Groups is this broker's coordinator. It refuses groups that another broker coordinates with CodeNotCoordinator; Coordinator says whom to ask.
func (b *Broker) Groups() *consumergroup.Coordinator { return b.groups }

// Coordinator names the broker that coordinates a group.
func (b *Broker) Coordinator(group string) (cluster.BrokerID, error) {
	if err := cluster.ParseGroupID(group); err != nil {
		return cluster.NoBroker, err
	}
	leader := b.Image().Shard(cluster.ShardOf(group)).Leader
	if leader == cluster.NoBroker {
		return leader, cluster.Refuse(cluster.CodeNoCoordinator, fmt.Sprintf("group %s has no coordinator right now; retry", group))
	}
	return leader, nil
}

// HighWatermarks implements consumergroup.LagSource: one batched question to each leader.
func (b *Broker) HighWatermarks(ctx context.Context, partitions []cluster.TopicPartition) (map[cluster.TopicPartition]int64, error) {
	out := make(map[cluster.TopicPartition]int64, len(partitions))
	for i, st := range b.PartitionStatus(ctx, partitions) {
		if st.Leading {
			out[partitions[i]] = int64(st.HighWatermark)
		}
	}
	return out, ctx.Err()
}

// shardsLed lists the coordinator shards that this broker leads in an image.
func (b *Broker) shardsLed(img *cluster.Image) []consumergroup.ShardLead {
	var led []consumergroup.ShardLead
	for s := range cluster.ShardID(cluster.ShardCount) {
		if shard := img.Shard(s); shard.Leader == b.id {
			led = append(led, consumergroup.ShardLead{Shard: s, Epoch: shard.Epoch})
		}
	}
	return led
}
