package kafka

import (
	"context"

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
	wanted := map[string][]int32{}
	for i := range req.Topics {
		wanted[req.Topics[i].Topic] = append(wanted[req.Topics[i].Topic], req.Topics[i].Partitions...)
	}
	asked := distinct(req.Topics, func(t *kmsg.ListPartitionReassignmentsRequestTopic) string { return t.Topic })
	for i := range asked {
		if t, ok := img.TopicByName(asked[i].Topic); ok {
			movesOf(img, t, append([]int32{}, wanted[t.Name]...), resp)
		}
	}
	return resp, nil
}

func movesOf(img *cluster.Image, t *cluster.Topic, wanted []int32, resp *kmsg.ListPartitionReassignmentsResponse) {
	o := kmsg.NewListPartitionReassignmentsResponseTopic()
	o.Topic = t.Name
	asked := among(wanted)
	for n, p := range img.PartitionsOf(t.ID) {
		if len(p.Adding)+len(p.Removing) == 0 || !asked(n) {
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
