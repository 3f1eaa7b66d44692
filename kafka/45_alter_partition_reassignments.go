package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// AlterPartitionReassignments (45), versions 0 and 1: moves partitions to other replicas (KIP-455); null replicas cancel a move. v1 can forbid that the number of
// replicas changes (KIP-860).
func (c *conn) alterPartitionReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest, s *slot) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for i := range req.Topics {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for k := range req.Topics[i].Partitions {
			in := &req.Topics[i].Partitions[k]
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition = in.Partition
			p.ErrorCode, p.ErrorMessage = s.refuse(placed(c.reassign(ctx, t.Topic, in, req.Version < 1 || req.AllowReplicationFactorChange)))
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func (c *conn) reassign(ctx context.Context, topic string, in *kmsg.AlterPartitionAssignmentsRequestTopicPartition, mayResize bool) error {
	t, err := c.s.broker.Topic(ctx, broker.TopicRef{Name: topic})
	if err != nil {
		return err
	}
	if in.Replicas == nil {
		return c.s.broker.Reassign(ctx, broker.TopicRef{ID: t.ID}, in.Partition, nil)
	}
	if len(in.Replicas) == 0 { // would be taken for a cancellation
		return cluster.Refuse(cluster.CodeInvalidAssignment, "a partition needs at least one replica; null cancels a move")
	}
	p, ok := c.s.broker.Image().Partition(cluster.TopicPartition{Topic: t.ID, Partition: in.Partition})
	if ok && !mayResize && len(in.Replicas) != len(p.Replicas)-len(p.Adding) {
		return cluster.Refuse(cluster.CodeInvalidReplication, fmt.Sprintf("%s-%d has %d replicas, and the request forbids to change that", topic, in.Partition, len(p.Replicas)-len(p.Adding)))
	}
	return c.s.broker.Reassign(ctx, broker.TopicRef{ID: t.ID}, in.Partition, brokerIDs(in.Replicas))
}
