package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/config"
)

// Answers as Apache Kafka gives them; test/differential has found where they were not.

// wantCode compares an error code.
func (b *broker) wantCode(what string, got int16, want error) {
	b.t.Helper()
	if err := kerr.ErrorForCode(got); err != want {
		b.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestProduce_DoesNotCreateATopic(t *testing.T) {
	b := start(t, func(c *config.Config) { c.Topic.AutoCreate = true })
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	topic, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, p.Records = "gone", sent{id: -1, values: []string{"v"}}.bytes(t)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	b.wantCode("produce by name", ask[*kmsg.ProduceResponse](b, capped{req, 12}).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	names, err := b.admin.ListTopics(b.ctx)
	if err != nil || names.Has("gone") {
		t.Errorf("error %v; the topic is there: %v", err, names.Has("gone"))
	}
}

// capped is a request that a client may send in a version up to a bound.
type capped struct {
	kmsg.Request
	max int16
}

func (c capped) MaxVersion() int16 { return c.max }
