package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// native is the door of Moldau's own API.
type native struct {
	client *client.Client
	s      *settings
}

func openNative(s *settings, p parts) (door, error) {
	codec, err := record.ParseCodec(s.Compression)
	if err != nil {
		return nil, err
	}
	acks, err := s.acks()
	if err != nil {
		return nil, err
	}
	opts := []client.Option{
		client.WithSeeds(s.Servers...), client.WithClientID(clientID), client.WithAcks(acks), client.WithCompression(codec), client.WithMaxInFlight(s.InFlight),
		client.WithMaxBuffered(maxBuffered), client.WithBatchMaxBytes(client.MaxBatchBytes), client.WithBatchMaxRecords(s.Batch), client.WithPartitioner(client.ManualPartitioner()),
	}
	if !s.idempotent(p) {
		opts = append(opts, client.WithoutIdempotence())
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, err
	}
	return &native{c, s}, nil
}

func (n *native) close() { _ = n.client.Close() } // the figures are taken

func (n *native) writtenBatches() (batches, records int64) { return 0, 0 }

func (n *native) prepare(ctx context.Context, p parts) (facts topicFacts, err error) {
	s := n.s
	if p.produce {
		req := &moldauv1.CreateTopicRequest{Topic: s.Topic, Partitions: s.Partitions, ReplicationFactor: s.ReplicationFactor}
		for _, c := range s.TopicConfigs {
			key, value, err := splitConfig(c)
			if err != nil {
				return facts, err
			}
			req.Configs = append(req.Configs, &moldauv1.ConfigEntry{Key: key, Value: value})
		}
		if _, err := n.client.CreateTopic(ctx, req); err != nil && client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
			return facts, fmt.Errorf("create topic %s: %w", s.Topic, err)
		}
	}
	err = awaitLeaders(ctx, func(ctx context.Context) (bool, error) {
		resp, err := n.client.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: s.Topic}}})
		if err != nil {
			return false, fmt.Errorf("describe topic %s: %w", s.Topic, err)
		}
		topic := resp.GetTopics()[0]
		if err := client.FromWire(topic.GetError()); err != nil {
			return false, fmt.Errorf("describe topic %s: %w", s.Topic, err)
		}
		facts = topicFacts{int32(len(topic.GetPartitions())), resp.GetBrokers()[0].GetVersion()}
		for _, p := range topic.GetPartitions() {
			if p.GetLeader() < 0 {
				return false, nil
			}
		}
		return true, nil
	})
	return facts, err
}

// ends asks again while a partition is refused for a reason that passes.
func (n *native) ends(ctx context.Context, partitions int32) (drainEnd, error) {
	req := &moldauv1.ListOffsetsRequest{}
	for i := range partitions {
		req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: n.s.Topic, Partition: i, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST})
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		resp, err := n.client.ListOffsets(ctx, req)
		if err != nil {
			return nil, err
		}
		end := drainEnd{}
		var refused *client.Error
		for _, o := range resp.GetOffsets() {
			if errors.As(client.FromWire(o.GetError()), &refused) {
				break
			}
			end[o.GetPartition()] = o.GetOffset()
		}
		if refused == nil {
			return end, nil
		}
		if !refused.Retriable || !pause(ctx, retryPause) {
			return nil, refused
		}
	}
}

func (n *native) produceBatch(partition int32, batch []byte, done func(error)) error {
	n.client.ProduceBatch(context.Background(), n.s.Topic, partition, batch, func(_ int64, err error) { done(err) })
	return nil
}

// produceRecords relies on the last promise to stand for all, since promises of a partition come in order.
func (n *native) produceRecords(partition int32, count int, values *payload, failed func(error), done func(bytes int, err error)) {
	records := make([]client.Record, count)
	bytes, now := 0, time.Now()
	for i := range records {
		r := &records[i]
		r.Topic, r.Partition, r.Timestamp = n.s.Topic, partition, now
		r.Key, r.Value = values.next()
		bytes += len(r.Key) + len(r.Value)
		promise := func(_ *client.Record, err error) {
			if err != nil {
				failed(err)
			}
		}
		if i == count-1 {
			promise = func(_ *client.Record, err error) { done(bytes, err) }
		}
		n.client.Produce(context.Background(), r, promise)
	}
}

func (n *native) read(ctx context.Context, w *watch, partitions []int32, drain drainEnd, fromStart bool) error {
	share := map[client.TopicPartition]client.Start{}
	for _, p := range partitions {
		start := client.FromEnd()
		if fromStart {
			start = client.FromStart()
		}
		share[client.TopicPartition{Topic: n.s.Topic, Partition: p}] = start
	}
	consumer, err := n.client.NewConsumer(client.WithPartitions(share))
	if err != nil {
		return err
	}
	defer consumer.Close()
	left := drain.share(partitions)
	for w.wants(drain, left) {
		if n.s.API == apiRecords {
			err = w.pollRecords(ctx, consumer, left)
		} else {
			err = w.pollBatches(ctx, consumer, left)
		}
		switch {
		case ctx.Err() != nil && (drain == nil || errors.Is(err, ctx.Err())):
			return nil
		case err != nil:
			return fmt.Errorf("consume %s: %w", n.s.Topic, err)
		}
	}
	return nil
}

func (w *watch) pollBatches(ctx context.Context, consumer *client.Consumer, left backlog) error {
	got, err := consumer.PollBatches(ctx)
	if err != nil {
		return err
	}
	defer got.Release()
	next, err := w.countBatches(got.Bytes, 0)
	if err == nil {
		left.reached(got.Partition, next)
	}
	return err
}

// pollRecords takes decoded records, as programs do. One Poll may bring several partitions.
func (w *watch) pollRecords(ctx context.Context, consumer *client.Consumer, left backlog) error {
	records, err := consumer.Poll(ctx)
	if err != nil {
		return err
	}
	bytes, now := 0, time.Now()
	for i := range records {
		r := &records[i]
		bytes += len(r.Key) + len(r.Value)
		if i+1 == len(records) || records[i+1].Partition != r.Partition {
			left.reached(r.Partition, r.Offset+1)
			w.delivered(now, r.Timestamp.UnixMilli())
		}
	}
	w.consumed.records.Add(int64(len(records)))
	w.consumed.bytes.Add(int64(bytes))
	return nil
}
