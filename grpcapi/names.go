package grpcapi

import (
	"context"
	"fmt"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// topicRef reads a topic's name or id.
func topicRef(name, id string) (broker.TopicRef, error) {
	ref := broker.TopicRef{Name: name}
	if id == "" {
		if name == "" {
			return ref, cluster.Refuse(cluster.CodeInvalidRequest, "neither topic nor topic_id is set")
		}
		return ref, nil
	}
	parsed, err := cluster.ParseUUID(id)
	if err != nil {
		return ref, cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("topic_id %q is not 22 characters of URL-safe base64", id))
	}
	ref.ID = parsed
	return ref, nil
}

// named is a partition by its reference, with what the client called it.
type named struct {
	ref       broker.TopicRef
	topic     *cluster.Topic // nil: unknown
	partition int32
	err       *cluster.Error
}

// resolve finds a partition in the metadata.
func (s *Server) resolve(ctx context.Context, name, id string, partition int32) named {
	n := named{partition: partition}
	var err error
	if n.ref, err = topicRef(name, id); err != nil {
		n.err = broker.AsRefusal(err)
		return n
	}
	if n.topic, err = s.broker.Topic(ctx, n.ref); err != nil {
		n.topic, n.err = nil, broker.AsRefusal(err)
		return n
	}
	if partition < 0 || partition >= n.topic.Partitions {
		n.err = cluster.Refuse(cluster.CodeUnknownTopic, fmt.Sprintf("topic %s has no partition %d; it has %d, numbered from 0", n.topic.Name, partition, n.topic.Partitions))
	}
	return n
}

// names gives back topic name and id: the metadata's where the topic is known, else the client's.
func (n *named) names() (topic, id string) {
	switch {
	case n.topic != nil:
		return n.topic.Name, n.topic.ID.String()
	case n.ref.ID.IsZero():
		return n.ref.Name, ""
	}
	return n.ref.Name, n.ref.ID.String()
}

// key is the partition's key; only for a known topic.
func (n *named) key() cluster.TopicPartition {
	return cluster.TopicPartition{Topic: n.topic.ID, Partition: n.partition}
}

// result is a PartitionResult with an outcome.
func (s *Server) result(ctx context.Context, n *named, e *cluster.Error) *moldauv1.PartitionResult {
	topic, id := n.names()
	out := &moldauv1.PartitionResult{Topic: topic, TopicId: id, Partition: n.partition}
	if e != nil {
		out.Error = s.refusal(ctx, e)
	}
	return out
}

// wirePartition names a partition of the metadata. A deleted topic keeps its id and has no name.
func wirePartition(img *cluster.Image, tp cluster.TopicPartition) *moldauv1.TopicPartition {
	out := &moldauv1.TopicPartition{TopicId: tp.Topic.String(), Partition: tp.Partition}
	if t, ok := img.Topic(tp.Topic); ok {
		out.Topic = t.Name
	}
	return out
}

func wirePartitions(img *cluster.Image, tps []cluster.TopicPartition) []*moldauv1.TopicPartition {
	out := make([]*moldauv1.TopicPartition, 0, len(tps))
	for _, tp := range tps {
		out = append(out, wirePartition(img, tp))
	}
	return out
}

func brokerIDs(ids []cluster.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

func fromBrokerIDs(ids []int32) []cluster.BrokerID {
	out := make([]cluster.BrokerID, len(ids))
	for i, id := range ids {
		out[i] = cluster.BrokerID(id)
	}
	return out
}

func tooMany(what string, n, limit int) error {
	return cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("%d %s in one call; at most %d are allowed", n, what, limit))
}
