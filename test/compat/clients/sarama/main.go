// Command sarama is the row of IBM/sarama in the matrix of test/compat.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/moldau-log/moldau/test/compat/kit"
)

type client struct{ brokers []string }

func main() {
	kit.Main(func(brokers []string) (kit.Client, error) { return &client{brokers}, nil })
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_1_0_0
	c.Metadata.Retry.Max = 50
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true
	c.Producer.Retry.Max = 100
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = 500 * time.Millisecond
	c.Consumer.Group.Rebalance.Retry.Max = 50
	c.Consumer.Return.Errors = false
	return c
}

func (c *client) CreateTopic(_ context.Context, topic string, partitions int) error {
	a, err := sarama.NewClusterAdmin(c.brokers, config())
	if err != nil {
		return err
	}
	defer a.Close()
	return a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: -1}, false)
}

type producer struct {
	sarama.SyncProducer
	topic string
}

func (c *client) Producer(_ context.Context, topic string, p kit.Producing) (kit.Producer, error) {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	cfg := config()
	cfg.Producer.Compression = codecs[p.Codec]
	cfg.Net.MaxOpenRequests = 1 // without it a retry may change the order
	cfg.Producer.Idempotent = p.Idempotent
	sp, err := sarama.NewSyncProducer(c.brokers, cfg)
	return producer{sp, topic}, err
}

func (p producer) Send(_ context.Context, records []kit.Record) error {
	var out []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: p.topic}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		out = append(out, m)
	}
	err := p.SendMessages(out)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return fmt.Errorf("%d of %d records: %w", len(failed), len(out), failed[0].Err)
	}
	return err
}

func record(m *sarama.ConsumerMessage) kit.Record {
	out := kit.Record{Key: m.Key, Value: m.Value, Partition: m.Partition, Offset: m.Offset, Time: m.Timestamp}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, kit.Header{Key: string(h.Key), Value: h.Value})
	}
	return out
}

func (c *client) Read(ctx context.Context, r kit.Reading) ([]kit.Record, error) {
	cfg := config()
	if r.MaxBytes > 0 {
		cfg.Consumer.Fetch.Default = int32(r.MaxBytes)
	}
	cl, err := sarama.NewClient(c.brokers, cfg)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	all := make(chan *sarama.ConsumerMessage)
	done := make(chan struct{})
	defer close(done)
	for p := range int32(r.Partitions) {
		from := sarama.OffsetOldest
		if !r.From.IsZero() {
			if from, err = cl.GetOffset(r.Topic, p, r.From.UnixMilli()); err != nil {
				return nil, fmt.Errorf("offset by time: %w", err)
			}
		}
		pc, err := consumer.ConsumePartition(r.Topic, p, from)
		if err != nil {
			return nil, err
		}
		defer pc.AsyncClose()
		go forward(pc.Messages(), all, done)
	}
	var out []kit.Record
	for len(out) < r.N {
		select {
		case m := <-all:
			out = append(out, record(m))
		case <-ctx.Done():
			return nil, fmt.Errorf("after %d records: %w", len(out), ctx.Err())
		}
	}
	return out, nil
}

func forward(from <-chan *sarama.ConsumerMessage, to chan<- *sarama.ConsumerMessage, done <-chan struct{}) {
	for m := range from {
		select {
		case to <- m:
		case <-done:
			return
		}
	}
}

// handler delivers and marks; sarama commits what is marked.
type handler func(kit.Record)

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			h(record(m))
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func (c *client) Member(ctx context.Context, group, topic string, deliver func(kit.Record)) error {
	g, err := sarama.NewConsumerGroup(c.brokers, group, config())
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		// A session also ends with an error when its coordinator is gone for long; joining again is what the library's examples do.
		if err := g.Consume(ctx, []string{topic}, handler(deliver)); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			g.Close()
			return err
		}
	}
	return g.Close()
}

func (c *client) Admin(ctx context.Context, topic string) error {
	a, err := sarama.NewClusterAdmin(c.brokers, config())
	if err != nil {
		return err
	}
	defer a.Close()
	day, hour := "86400000", "3600000"
	if err := a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 3, ConfigEntries: map[string]*string{"retention.ms": &day}}, false); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := a.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &hour}, false); err != nil {
		return fmt.Errorf("alter: %w", err)
	}
	if err := a.CreatePartitions(topic, 4, nil, false); err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	if err := kit.Eventually(ctx, "describe", func() error { return described(a, topic) }); err != nil {
		return err
	}
	if err := a.DeleteTopic(topic); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return kit.Eventually(ctx, "delete", func() error {
		topics, err := a.ListTopics()
		if _, ok := topics[topic]; err == nil && ok {
			err = errors.New("the topic is still listed")
		}
		return err
	})
}

func described(a sarama.ClusterAdmin, topic string) error {
	topics, err := a.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	if len(topics) != 1 || len(topics[0].Partitions) != 4 || len(topics[0].Partitions[3].Replicas) != 3 {
		return fmt.Errorf("described as %+v, want 4 partitions of 3 replicas", topics)
	}
	configs, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	if err != nil {
		return err
	}
	if len(configs) != 1 || configs[0].Value != "3600000" {
		return fmt.Errorf("the configuration is %+v, want retention.ms=3600000", configs)
	}
	return nil
}
