package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// OffsetDelete (47), version 0: removes the offsets of single partitions (KIP-496).
func (c *conn) offsetDelete(ctx context.Context, req *kmsg.OffsetDeleteRequest, s *slot) (*kmsg.OffsetDeleteResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if req.Group == "" {
		resp.ErrorCode = s.note(errInvalidGroupID)
		return resp, nil
	}
	drop := consumergroup.DeleteOffsetsRequest{Group: req.Group}
	var at []*int16
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.Partitions = in.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(in.Partitions))
		t, refused := c.topicOf(ctx, [16]byte{}, in.Topic)
		for k := range in.Partitions {
			o := &out.Partitions[k]
			o.Partition, o.ErrorCode = in.Partitions[k].Partition, refused
			switch {
			case t == nil:
			case o.Partition < 0 || o.Partition >= t.Partitions:
				o.ErrorCode = errUnknownTopicOrPartition
			default:
				drop.Partitions = append(drop.Partitions, cluster.TopicPartition{Topic: t.ID, Partition: o.Partition})
				at = append(at, &o.ErrorCode)
			}
		}
	}
	codes, err := c.s.groups.DeleteOffsets(ctx, drop)
	if resp.ErrorCode, _ = s.coordinatorError(err); err != nil {
		resp.Topics = nil // the answer is for the whole group
	}
	for i := range codes {
		*at[i] = s.note(wireGroup(codes[i]))
	}
	return resp, nil
}
