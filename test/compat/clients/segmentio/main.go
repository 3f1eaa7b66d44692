// Command segmentio is the row of segmentio/kafka-go in the matrix of test/compat.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/moldau-log/moldau/test/compat/kit"
)

type client struct {
	brokers []string
	api     *kafka.Client
}

func main() {
	kit.Main(func(brokers []string) (kit.Client, error) {
		return &client{brokers, &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 10 * time.Second}}, nil
	})
}

func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	if err := c.create(ctx, kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 3}); err != nil {
		return err
	}
	return kit.Eventually(ctx, "metadata", func() error { return c.partitions(ctx, topic, partitions) })
}

func (c *client) create(ctx context.Context, config kafka.TopicConfig) error {
	out, err := c.api.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return out.Errors[config.Topic]
}

// partitions checks that the topic has n partitions of three replicas, each with a leader.
func (c *client) partitions(ctx context.Context, topic string, n int) error {
	meta, err := c.api.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	if len(meta.Topics) != 1 || meta.Topics[0].Error != nil || len(meta.Topics[0].Partitions) != n {
		return fmt.Errorf("metadata %+v, want %d partitions", meta.Topics, n)
	}
	for _, p := range meta.Topics[0].Partitions {
		if p.Error != nil || len(p.Replicas) != 3 {
			return fmt.Errorf("partition %+v", p)
		}
	}
	return nil
}

type producer struct{ *kafka.Writer }

func (c *client) Producer(_ context.Context, topic string, p kit.Producing) (kit.Producer, error) {
	if p.Idempotent {
		return nil, kit.Unsupported("kafka-go has no idempotent producer")
	}
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	return producer{&kafka.Writer{
		Addr: kafka.TCP(c.brokers...), Topic: topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll, Compression: codecs[p.Codec], BatchTimeout: 5 * time.Millisecond, MaxAttempts: 100,
	}}, nil
}

func (p producer) Send(ctx context.Context, records []kit.Record) error {
	var out []kafka.Message
	for _, r := range records {
		m := kafka.Message{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		out = append(out, m)
	}
	return p.WriteMessages(ctx, out...)
}

func record(m kafka.Message) kit.Record {
	out := kit.Record{Key: m.Key, Value: m.Value, Partition: int32(m.Partition), Offset: m.Offset, Time: m.Time}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, kit.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// Read reads the partitions one after the other up to their present ends: a reader of this library has one partition.
func (c *client) Read(ctx context.Context, r kit.Reading) ([]kit.Record, error) {
	var out []kit.Record
	for p := 0; p < r.Partitions && len(out) < r.N; p++ {
		ends, err := c.api.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{r.Topic: {kafka.LastOffsetOf(p)}}})
		if err != nil {
			return nil, err
		}
		end := ends.Topics[r.Topic][0]
		if end.Error != nil {
			return nil, end.Error
		}
		config := kafka.ReaderConfig{Brokers: c.brokers, Topic: r.Topic, Partition: p, MaxWait: 200 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20}
		if r.MaxBytes > 0 {
			config.MaxBytes = r.MaxBytes
		}
		got, err := c.readPartition(ctx, config, r, end.LastOffset, r.N-len(out))
		if err != nil {
			return nil, fmt.Errorf("partition %d, after %d records: %w", p, len(out)+len(got), err)
		}
		out = append(out, got...)
	}
	return out, nil
}

func (c *client) readPartition(ctx context.Context, config kafka.ReaderConfig, r kit.Reading, end int64, n int) (out []kit.Record, err error) {
	reader := kafka.NewReader(config)
	defer reader.Close()
	if r.From.IsZero() {
		err = reader.SetOffset(kafka.FirstOffset)
	} else {
		err = reader.SetOffsetAt(ctx, r.From)
	}
	if err != nil || end == 0 {
		return nil, err
	}
	for len(out) < n {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, record(m))
		if m.Offset+1 >= end {
			break
		}
	}
	return out, nil
}

func (c *client) Member(ctx context.Context, group, topic string, deliver func(kit.Record)) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.brokers, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20,
		SessionTimeout: 10 * time.Second, HeartbeatInterval: time.Second, JoinGroupBackoff: 500 * time.Millisecond, MaxAttempts: 100,
		CommitInterval: 500 * time.Millisecond, // in the background, where a coordinator that dies is tried again
	})
	defer reader.Close()
	for ctx.Err() == nil {
		m, err := reader.FetchMessage(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("fetch: %w", err)
		}
		deliver(record(m))
		if err := reader.CommitMessages(context.WithoutCancel(ctx), m); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return nil
}

func (c *client) Admin(ctx context.Context, topic string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: 2, ReplicationFactor: 3, ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "86400000"}}}
	if err := c.create(ctx, config); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	altered, err := c.api.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "3600000", ConfigOperation: kafka.ConfigOperationSet}},
	}}})
	if err != nil || altered.Resources[0].Error != nil {
		return fmt.Errorf("alter: %+v, %w", altered, err)
	}
	more, err := c.api.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}}})
	if err != nil || more.Errors[topic] != nil {
		return fmt.Errorf("partitions: %+v, %w", more, err)
	}
	if err := kit.Eventually(ctx, "describe", func() error { return c.described(ctx, topic) }); err != nil {
		return err
	}
	deleted, err := c.api.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil || deleted.Errors[topic] != nil {
		return fmt.Errorf("delete: %+v, %w", deleted, err)
	}
	return kit.Eventually(ctx, "delete", func() error {
		meta, err := c.api.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return err
		}
		for _, t := range meta.Topics {
			if t.Name == topic {
				return errors.New("the topic is still listed")
			}
		}
		return nil
	})
}

func (c *client) described(ctx context.Context, topic string) error {
	if err := c.partitions(ctx, topic, 4); err != nil {
		return err
	}
	configs, err := c.api.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
	}}})
	if err != nil {
		return err
	}
	if len(configs.Resources) != 1 || len(configs.Resources[0].ConfigEntries) != 1 || configs.Resources[0].ConfigEntries[0].ConfigValue != "3600000" {
		return fmt.Errorf("the configuration is %+v, want retention.ms=3600000", configs.Resources)
	}
	return nil
}
