package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// DeleteTopics (20), versions 0 to 6.
//
// v4 flexible; v5 messages; v6 topics by id (KIP-516).
func (c *conn) deleteTopics(ctx context.Context, req *kmsg.DeleteTopicsRequest, s *slot) (*kmsg.DeleteTopicsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	topics := req.Topics
	for _, name := range req.TopicNames {
		topics = append(topics, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	for i := range topics {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = topics[i].Topic, topics[i].TopicID
		ref := broker.TopicRef{ID: cluster.TopicID(out.TopicID)}
		if ref.ID.IsZero() && out.Topic != nil {
			ref.Name = *out.Topic
		}
		t, err := c.s.broker.Topic(ctx, ref)
		if err == nil {
			out.Topic, out.TopicID = kmsg.StringPtr(t.Name), [16]byte(t.ID)
			err = c.s.broker.DeleteTopic(ctx, broker.TopicRef{ID: t.ID})
		}
		out.ErrorCode, out.ErrorMessage = s.refuse(err)
		if err != nil {
			out.ErrorCode = c.wireTopic(ref, broker.AsRefusal(err).Code)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
