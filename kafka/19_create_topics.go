package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// CreateTopics (19), versions 0 to 7.
//
// v1 validate only, messages; v4 -1 for the broker's defaults (KIP-464); v5 flexible, the answer has the configuration (KIP-525); v7 topic ids (KIP-516).
//
// The answer's list of configurations is never null: Java's kafka-topics trips over that.
func (c *conn) createTopics(ctx context.Context, req *kmsg.CreateTopicsRequest, s *slot) (*kmsg.CreateTopicsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named := tally(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		in := &req.Topics[i]
		if named[in.Topic] == 0 { // its duplicate is answered
			continue
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = in.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		var created broker.CreatedTopic
		var err error
		if named[in.Topic] > 1 {
			err = namedTwice("the topic")
			named[in.Topic] = 0
		} else if spec, specErr := topicSpec(in, req.ValidateOnly); specErr != nil {
			err = specErr
		} else {
			created, err = c.s.broker.CreateTopic(ctx, spec)
		}
		out.ErrorCode, out.ErrorMessage = s.refuse(placed(err))
		if err == nil {
			c.describeCreated(&created.Topic, &out)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func topicSpec(in *kmsg.CreateTopicsRequestTopic, validateOnly bool) (broker.TopicSpec, error) {
	if in.Topic == metadataTopic { // DescribeQuorum shows the metadata log under this name
		return broker.TopicSpec{}, cluster.Refuse(cluster.CodeInvalidRequest, "the name belongs to the metadata log")
	}
	spec := broker.TopicSpec{Name: in.Topic, Partitions: in.NumPartitions, ReplicationFactor: in.ReplicationFactor, ValidateOnly: validateOnly}
	for _, e := range in.Configs {
		if e.Value == nil {
			return spec, cluster.Refuse(cluster.CodeInvalidConfig, "null is no value for "+e.Name)
		}
		spec.Configs = append(spec.Configs, cluster.ConfigEntry{Key: e.Name, Value: *e.Value})
	}
	if len(in.ReplicaAssignment) == 0 {
		return spec, nil
	}
	if in.NumPartitions != -1 || in.ReplicationFactor != -1 {
		return spec, cluster.Refuse(cluster.CodeInvalidRequest, "an assignment comes with -1 for the numbers of partitions and replicas")
	}
	spec.Assignment = make([][]cluster.BrokerID, len(in.ReplicaAssignment))
	for _, a := range in.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(spec.Assignment) || spec.Assignment[a.Partition] != nil {
			return spec, cluster.Refuse(cluster.CodeInvalidAssignment, fmt.Sprintf("partition %d; an assignment names each of 0 to %d once", a.Partition, len(spec.Assignment)-1))
		}
		spec.Assignment[a.Partition] = brokerIDs(a.Replicas)
	}
	return spec, nil
}

func (c *conn) describeCreated(t *cluster.Topic, out *kmsg.CreateTopicsResponseTopic) {
	out.TopicID, out.NumPartitions, out.ReplicationFactor = [16]byte(t.ID), t.Partitions, t.ReplicationFactor
	for _, e := range c.s.broker.Image().DescribeTopicConfig(t) {
		o := kmsg.NewCreateTopicsResponseTopicConfig()
		o.Name, o.Value, o.Source = e.Key.Name, kmsg.StringPtr(e.Value), int8(e.Source)
		out.Configs = append(out.Configs, o)
	}
}
