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
	type name struct{ name, id string }
	nameOf := func(t *kmsg.DeleteTopicsRequestTopic) name { return name{text(t.Topic), string(t.TopicID[:])} }
	named := tally(topics, nameOf)
	for i := range topics {
		times := named[nameOf(&topics[i])]
		if times == 0 { // its duplicate is answered
			continue
		}
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = topics[i].Topic, topics[i].TopicID
		ref := broker.TopicRef{ID: cluster.TopicID(out.TopicID)}
		if ref.ID.IsZero() && out.Topic != nil {
			ref.Name = *out.Topic
		}
		if wrong := deletable(&topics[i], ref, times); wrong != nil {
			named[nameOf(&topics[i])] = 0
			out.ErrorCode, out.ErrorMessage = s.refuse(wrong)
			resp.Topics = append(resp.Topics, out)
			continue
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

// deletable refuses what does not name one topic, once.
func deletable(in *kmsg.DeleteTopicsRequestTopic, ref broker.TopicRef, times int) error {
	switch {
	case times > 1:
		return namedTwice("the topic")
	case in.Topic == nil && ref.ID.IsZero():
		return cluster.Refuse(cluster.CodeInvalidRequest, "neither a name nor an id")
	case in.Topic != nil && !ref.ID.IsZero():
		return cluster.Refuse(cluster.CodeInvalidRequest, "a topic is named by its name or by its id, not by both")
	}
	return nil
}
