package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// CreatePartitions (37), versions 0 to 3: grows topics to a total (KIP-195). v2 is flexible; v3 adds a throttling error.
func (c *conn) createPartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest, s *slot) (*kmsg.CreatePartitionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named := tally(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		in := &req.Topics[i]
		times := named[in.Topic]
		if times == 0 { // its duplicate is answered
			continue
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = in.Topic
		if times > 1 {
			named[in.Topic] = 0
			out.ErrorCode, out.ErrorMessage = s.refuse(namedTwice("the topic"))
		} else {
			out.ErrorCode, out.ErrorMessage = s.refuse(placed(c.grow(ctx, in, req.ValidateOnly)))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *conn) grow(ctx context.Context, in *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	ref := broker.TopicRef{Name: in.Topic}
	var assignment [][]cluster.BrokerID
	for _, a := range in.Assignment {
		assignment = append(assignment, brokerIDs(a.Replicas))
	}
	if !validateOnly {
		return c.s.broker.AddPartitions(ctx, ref, in.Count, assignment)
	}
	t, err := c.s.broker.Topic(ctx, ref)
	if err != nil {
		return err
	}
	if in.Count <= t.Partitions || in.Count > broker.MaxPartitionsPerTopic {
		return cluster.Refuse(cluster.CodeInvalidPartitions, fmt.Sprintf("topic %s has %d partitions; give a higher total, at most %d", t.Name, t.Partitions, broker.MaxPartitionsPerTopic))
	}
	if assignment != nil && len(assignment) != int(in.Count-t.Partitions) {
		return cluster.Refuse(cluster.CodeInvalidAssignment, fmt.Sprintf("%d partitions are new, %d are assigned", in.Count-t.Partitions, len(assignment)))
	}
	return nil
}
