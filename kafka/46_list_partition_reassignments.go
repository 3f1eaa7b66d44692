package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// ListPartitionReassignments (46), version 0: the moves in progress (KIP-455). Null asks for all topics.
func (c *conn) listPartitionReassignments(_ context.Context, req *kmsg.ListPartitionReassignmentsRequest, _ *slot) (*kmsg.ListPartitionReassignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	img := c.s.broker.Image()
	if req.Topics == nil {
		for t := range img.Topics() {
			movesOf(img, t, nil, resp)
		}
	}
	for i := range req.Topics {
		if t, ok := img.TopicByName(req.Topics[i].Topic); ok {
			movesOf(img, t, req.Topics[i].Partitions, resp)
		}
	}
	return resp, nil
}

func movesOf(img *cluster.Image, t *cluster.Topic, wanted []int32, resp *kmsg.ListPartitionReassignmentsResponse) {
	o := kmsg.NewListPartitionReassignmentsResponseTopic()
	o.Topic = t.Name
	for n, p := range img.PartitionsOf(t.ID) {
		if len(p.Adding)+len(p.Removing) == 0 || (wanted != nil && !slices.Contains(wanted, n)) {
			continue
		}
		m := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		m.Partition, m.Replicas, m.AddingReplicas, m.RemovingReplicas = n, ids(p.Replicas), ids(p.Adding), ids(p.Removing)
		o.Partitions = append(o.Partitions, m)
	}
	if len(o.Partitions) > 0 {
		resp.Topics = append(resp.Topics, o)
	}
}
