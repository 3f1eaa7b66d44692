// Command franz-go is the row of franz-go (kgo and kadm) in the matrix of test/compat.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/moldau-log/moldau/test/compat/kit"
)

type client struct{ brokers []string }

func main() {
	kit.Main(func(brokers []string) (kit.Client, error) { return &client{brokers}, nil })
}

func (c *client) open(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(c.brokers...), kgo.MetadataMinAge(100*time.Millisecond))...)
}

func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	cl, err := c.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), -1, nil, topic)
	return err
}

type producer struct{ *kgo.Client }

func (c *client) Producer(_ context.Context, topic string, p kit.Producing) (kit.Producer, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[p.Codec])}
	if !p.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	cl, err := c.open(opts...)
	return producer{cl}, err
}

func (p producer) Send(ctx context.Context, records []kit.Record) error {
	var out []*kgo.Record
	for _, r := range records {
		rec := &kgo.Record{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		out = append(out, rec)
	}
	return p.ProduceSync(ctx, out...).FirstErr()
}

func (p producer) Close() error { p.Client.Close(); return nil }

func record(r *kgo.Record) kit.Record {
	out := kit.Record{Key: r.Key, Value: r.Value, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kit.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

func (c *client) Read(ctx context.Context, r kit.Reading) ([]kit.Record, error) {
	from := kgo.NewOffset().AtStart()
	if !r.From.IsZero() {
		from = kgo.NewOffset().AfterMilli(r.From.UnixMilli())
	}
	opts := []kgo.Opt{kgo.ConsumeTopics(r.Topic), kgo.ConsumeResetOffset(from)}
	if r.MaxBytes > 0 {
		opts = append(opts, kgo.FetchMaxBytes(int32(r.MaxBytes)), kgo.FetchMaxPartitionBytes(int32(r.MaxBytes)))
	}
	cl, err := c.open(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []kit.Record
	for len(out) < r.N {
		f := cl.PollRecords(ctx, r.N-len(out))
		if err := f.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(out), err)
		}
		f.EachRecord(func(r *kgo.Record) { out = append(out, record(r)) })
	}
	return out, nil
}

func (c *client) Member(ctx context.Context, group, topic string, deliver func(kit.Record)) error {
	cl, err := c.open(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(500*time.Millisecond),
		kgo.SessionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		f := cl.PollFetches(ctx)
		for _, e := range f.Errors() {
			if ctx.Err() == nil {
				return fmt.Errorf("fetch %s-%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		f.EachRecord(func(r *kgo.Record) { deliver(record(r)) })
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return cl.CommitUncommittedOffsets(last)
}

func (c *client) Admin(ctx context.Context, topic string) error {
	cl, err := c.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	a := kadm.NewClient(cl)
	if _, err := a.CreateTopic(ctx, 2, 3, map[string]*string{"retention.ms": kadm.StringPtr("86400000")}, topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("3600000")}}, topic); err != nil {
		return fmt.Errorf("alter: %w", err)
	}
	if _, err := a.UpdatePartitions(ctx, 4, topic); err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	// Another broker may answer, a moment behind.
	if err := kit.Eventually(ctx, "describe", func() error { return described(ctx, a, topic) }); err != nil {
		return err
	}
	deleted, err := a.DeleteTopics(ctx, topic)
	if err := errors.Join(err, deleted.Error()); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return kit.Eventually(ctx, "delete", func() error {
		topics, err := a.ListTopics(ctx)
		if err == nil && topics.Has(topic) {
			err = errors.New("the topic is still listed")
		}
		return err
	})
}

func described(ctx context.Context, a *kadm.Client, topic string) error {
	topics, err := a.ListTopics(ctx)
	if err != nil {
		return err
	}
	if n := len(topics[topic].Partitions); n != 4 {
		return fmt.Errorf("%d partitions are listed, want 4", n)
	}
	for _, p := range topics[topic].Partitions {
		if len(p.Replicas) != 3 {
			return fmt.Errorf("partition %d has replicas %v", p.Partition, p.Replicas)
		}
	}
	configs, err := a.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	for _, e := range configs[0].Configs {
		if e.Key == "retention.ms" && e.MaybeValue() == "3600000" {
			return nil
		}
	}
	return errors.New("retention.ms is not as altered")
}
