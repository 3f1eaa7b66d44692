package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNewTopic_TakesRequestsAtOnce asks for records of a topic, and gives it some, as soon as its creation is answered. Clients that send a request once and hand
// its error to the program must not be told that the leader is somebody else while the leader is still opening its log.
func TestNewTopic_TakesRequestsAtOnce(t *testing.T) {
	const topics, partitions = 12, 6
	b := start(t)
	for i := range topics {
		name := fmt.Sprintf("new-%d", i)
		made, err := b.admin.CreateTopic(b.ctx, partitions, 1, nil, name)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			b.wantProducedToAll(name, made.ID, partitions)
		} else {
			b.wantFetchedFromAll(name, made.ID, partitions)
		}
	}
}

func (b *broker) wantProducedToAll(name string, id [16]byte, partitions int32) {
	b.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = name, id
	for n := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = n
		p.Records = sent{values: []string{"v"}}.bytes(b.t)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for _, p := range ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			b.t.Errorf("produce to %s-%d: %v", name, p.Partition, err)
		}
	}
}

func (b *broker) wantFetchedFromAll(name string, id [16]byte, partitions int32) {
	b.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = name, id
	for n := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = n, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for _, p := range ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			b.t.Errorf("fetch from %s-%d: %v", name, p.Partition, err)
		}
	}
}
