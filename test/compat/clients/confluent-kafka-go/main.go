// Command confluent-kafka-go is the row of confluent-kafka-go, which is librdkafka, in the matrix of test/compat.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/moldau-log/moldau/test/compat/kit"
)

type client struct{ brokers string }

func main() {
	kit.Main(func(brokers []string) (kit.Client, error) { return &client{strings.Join(brokers, ",")}, nil })
}

func (c *client) config(more kafka.ConfigMap) *kafka.ConfigMap {
	out := kafka.ConfigMap{"bootstrap.servers": c.brokers}
	maps.Copy(out, more)
	return &out
}

func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	a, err := kafka.NewAdminClient(c.config(nil))
	if err != nil {
		return err
	}
	defer a.Close()
	if err := first(a.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 3}})); err != nil {
		return err
	}
	return kit.Eventually(ctx, "metadata", func() error { return listed(a, topic, partitions) })
}

// first is the error of the only topic of an answer.
func first(results []kafka.TopicResult, err error) error {
	if err == nil && results[0].Error.Code() != kafka.ErrNoError {
		err = results[0].Error
	}
	return err
}

// listed checks that the topic has n partitions of three replicas.
func listed(a *kafka.AdminClient, topic string, n int) error {
	meta, err := a.GetMetadata(nil, true, 5000)
	if err != nil {
		return err
	}
	partitions := meta.Topics[topic].Partitions
	if len(partitions) != n {
		return fmt.Errorf("%d partitions are listed, want %d", len(partitions), n)
	}
	for _, p := range partitions {
		if len(p.Replicas) != 3 || p.Leader < 0 {
			return fmt.Errorf("partition %+v", p)
		}
	}
	return nil
}

type producer struct {
	*kafka.Producer
	topic string
}

func (c *client) Producer(_ context.Context, topic string, p kit.Producing) (kit.Producer, error) {
	kp, err := kafka.NewProducer(c.config(kafka.ConfigMap{"acks": "all", "compression.type": p.Codec, "enable.idempotence": p.Idempotent, "linger.ms": 5,
		"max.in.flight.requests.per.connection": 1, // without idempotence a retry may change the order
	}))
	if err != nil {
		return nil, err
	}
	go func() {
		for range kp.Events() { // errors of the connection that are not fatal
		}
	}()
	return producer{kp, topic}, nil
}

func (p producer) Send(ctx context.Context, records []kit.Record) error {
	reports := make(chan kafka.Event, len(records))
	for _, r := range records {
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &p.topic, Partition: kafka.PartitionAny}, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		if err := p.Produce(m, reports); err != nil {
			return err
		}
	}
	for range records {
		select {
		case e := <-reports:
			if m, ok := e.(*kafka.Message); !ok || m.TopicPartition.Error != nil {
				return fmt.Errorf("report %v", e)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p producer) Close() error { p.Producer.Close(); return nil }

func record(m *kafka.Message) kit.Record {
	out := kit.Record{Key: m.Key, Value: m.Value, Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset), Time: m.Timestamp}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, kit.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// next is the next record, or nil where none came for a moment. A timeout and an error that librdkafka retries are no end.
func next(c *kafka.Consumer) (*kafka.Message, error) {
	m, err := c.ReadMessage(100 * time.Millisecond)
	var e kafka.Error
	if errors.As(err, &e) && !e.IsFatal() {
		return nil, nil
	}
	return m, err
}

func (c *client) Read(ctx context.Context, r kit.Reading) ([]kit.Record, error) {
	config := kafka.ConfigMap{"group.id": r.Topic + "-reader", "enable.auto.commit": false}
	if r.MaxBytes > 0 {
		config["max.partition.fetch.bytes"] = r.MaxBytes
	}
	consumer, err := kafka.NewConsumer(c.config(config))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var at []kafka.TopicPartition
	for p := range int32(r.Partitions) {
		at = append(at, kafka.TopicPartition{Topic: &r.Topic, Partition: p, Offset: kafka.OffsetBeginning})
		if !r.From.IsZero() {
			at[p].Offset = kafka.Offset(r.From.UnixMilli())
		}
	}
	if !r.From.IsZero() {
		if at, err = consumer.OffsetsForTimes(at, 10_000); err != nil {
			return nil, fmt.Errorf("offsets for times: %w", err)
		}
	}
	if err := consumer.Assign(at); err != nil {
		return nil, err
	}
	var out []kit.Record
	for len(out) < r.N {
		m, err := next(consumer)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(out), err)
		}
		if m != nil {
			out = append(out, record(m))
		}
	}
	return out, nil
}

func (c *client) Member(ctx context.Context, group, topic string, deliver func(kit.Record)) error {
	consumer, err := kafka.NewConsumer(c.config(kafka.ConfigMap{"group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500, "enable.auto.offset.store": false, "session.timeout.ms": 10_000}))
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := consumer.Subscribe(topic, nil); err != nil {
		return err
	}
	for ctx.Err() == nil {
		m, err := next(consumer)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		deliver(record(m))
		// Stored here and not by the library: Close polls, and with what it polls and drops stored, records of a member that leaves would be lost.
		// A partition that was taken away meanwhile cannot be stored; its next owner gets the record again.
		var state kafka.Error
		if _, err := consumer.StoreMessage(m); err != nil && !(errors.As(err, &state) && state.Code() == kafka.ErrState) {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil // closing commits and leaves
}

func (c *client) Admin(ctx context.Context, topic string) error {
	a, err := kafka.NewAdminClient(c.config(nil))
	if err != nil {
		return err
	}
	defer a.Close()
	if err := first(a.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 3, Config: map[string]string{"retention.ms": "86400000"}}})); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	change := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: topic, Config: []kafka.ConfigEntry{{Name: "retention.ms", Value: "3600000", IncrementalOperation: kafka.AlterConfigOpTypeSet}}}
	altered, err := a.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{change})
	if err != nil || altered[0].Error.Code() != kafka.ErrNoError {
		return fmt.Errorf("alter: %v, %w", altered, err)
	}
	if err := first(a.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: 4}})); err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	if err := kit.Eventually(ctx, "describe", func() error { return described(ctx, a, topic) }); err != nil {
		return err
	}
	if err := first(a.DeleteTopics(ctx, []string{topic})); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return kit.Eventually(ctx, "delete", func() error {
		meta, err := a.GetMetadata(nil, true, 5000)
		if err != nil {
			return err
		}
		if _, ok := meta.Topics[topic]; ok {
			return errors.New("the topic is still listed")
		}
		return nil
	})
}

func described(ctx context.Context, a *kafka.AdminClient, topic string) error {
	if err := listed(a, topic, 4); err != nil {
		return err
	}
	configs, err := a.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic}})
	if err != nil {
		return err
	}
	if got := configs[0].Config["retention.ms"].Value; got != "3600000" {
		return fmt.Errorf("retention.ms is %q, want 3600000", got)
	}
	return nil
}
