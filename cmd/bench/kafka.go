package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/record"
)

// kafkaDoor is Kafka's protocol through franz-go, as a program uses it.
type kafkaDoor struct {
	client           *kgo.Client
	s                *settings
	batches, records atomic.Int64 // as franz-go has put them together
}

func openKafka(s *settings, p parts) (door, error) { return newKafkaDoor(s, p) }

func newKafkaDoor(s *settings, p parts) (*kafkaDoor, error) {
	k := &kafkaDoor{s: s}
	acks := map[string]kgo.Acks{"isr": kgo.AllISRAcks(), "leader": kgo.LeaderAck(), "none": kgo.NoAck()}[s.Acks]
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[s.Compression]
	opts := append(k.options(), kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(s.Linger), kgo.ProducerBatchMaxBytes(int32(batchBytes(s))), kgo.MaxBufferedRecords(maxBuffered/max(s.Size, 1)), kgo.WithHooks(k))
	if !s.idempotent(p) {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(s.InFlight))
	}
	var err error
	k.client, err = kgo.NewClient(opts...)
	return k, err
}

func (k *kafkaDoor) options() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(k.s.Servers...), kgo.ClientID(clientID)}
}

// Bounds of franz-go's largest batch in bytes: it refuses to be set below one and above the other.
const (
	leastBatchBytes = 1 << 10
	mostBatchBytes  = 64 << 20
)

// batchBytes is the size of a full batch, so that franz-go, which knows no number of records, makes batches of about as many as were asked for.
func batchBytes(s *settings) int {
	values := newPayload(s.Seed, s.Size, s.KeySize)
	b := &values.builder
	b.Reset(record.BuilderOptions{})
	for range s.Batch {
		key, value := values.next()
		b.Append(0, key, value, nil)
	}
	slack := s.Batch // a timestamp within a batch may take a byte more
	return min(max(b.Size()+slack, leastBatchBytes), mostBatchBytes)
}

// OnProduceBatchWritten is called by franz-go for every batch of records that it has sent.
func (k *kafkaDoor) OnProduceBatchWritten(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.ProduceBatchMetrics) {
	k.batches.Add(1)
	k.records.Add(int64(m.NumRecords))
}

func (k *kafkaDoor) writtenBatches() (batches, records int64) {
	return k.batches.Load(), k.records.Load()
}

func (k *kafkaDoor) close() { k.client.Close() }

func (k *kafkaDoor) prepare(ctx context.Context, p parts) (facts topicFacts, err error) {
	if p.produce {
		if err := k.createTopic(ctx); err != nil {
			return facts, fmt.Errorf("create topic %s: %w", k.s.Topic, err)
		}
	}
	err = awaitLeaders(ctx, func(ctx context.Context) (bool, error) {
		leaders, err := k.leaders(ctx)
		passing := errors.Is(err, kerr.UnknownTopicOrPartition) && p.produce // just created, and not known everywhere yet
		if err != nil && !passing {
			return false, fmt.Errorf("describe topic %s: %w", k.s.Topic, err)
		}
		facts.partitions = int32(len(leaders))
		for _, leader := range leaders {
			if leader == "" {
				return false, nil
			}
		}
		if len(leaders) == 0 {
			return false, nil
		}
		_, err = k.ends(ctx, facts.partitions) // a leader that is named may not have taken its office yet
		if kerr.IsRetriable(err) {
			return false, nil
		}
		return err == nil, err
	})
	return facts, err
}

func (k *kafkaDoor) createTopic(ctx context.Context) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = k.s.Topic, k.s.Partitions, -1
	if k.s.ReplicationFactor > 0 {
		topic.ReplicationFactor = int16(k.s.ReplicationFactor)
	}
	for _, c := range k.s.TopicConfigs {
		key, value, err := splitConfig(c)
		if err != nil {
			return err
		}
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = key, &value
		topic.Configs = append(topic.Configs, entry)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = int32(settle.Milliseconds()), append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			if t.ErrorMessage != nil {
				return fmt.Errorf("%w: %s", err, *t.ErrorMessage)
			}
			return err
		}
	}
	return nil
}

// leaders returns the address of the leader of each partition; empty where there is none.
func (k *kafkaDoor) leaders(ctx context.Context) (map[int32]string, error) {
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &k.s.Topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return nil, err
	}
	addresses, leaders := map[int32]string{}, map[int32]string{}
	for _, b := range resp.Brokers {
		addresses[b.NodeID] = hostPort(b.Host, b.Port)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, err
		}
		for _, p := range t.Partitions {
			leaders[p.Partition] = addresses[p.Leader]
		}
	}
	return leaders, nil
}

// The offsets that ListOffsets is asked for.
const (
	atEnd   = -1
	atStart = -2
)

func (k *kafkaDoor) ends(ctx context.Context, partitions int32) (drainEnd, error) {
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	return k.offsets(ctx, all, atEnd)
}

// offsets relies on franz-go to ask every leader, and again while one is moving.
func (k *kafkaDoor) offsets(ctx context.Context, partitions []int32, at int64) (map[int32]int64, error) {
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = k.s.Topic
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p, at
		topic.Partitions = append(topic.Partitions, part)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			offsets[p.Partition] = p.Offset
		}
	}
	return offsets, nil
}

var errWholeBatches = errors.New("franz-go makes its own batches: --api records")

func (k *kafkaDoor) produceBatch(int32, []byte, func(error)) error { return errWholeBatches }

// produceRecords relies on the last promise to stand for all: franz-go finishes the records of a partition in order.
func (k *kafkaDoor) produceRecords(partition int32, count int, values *payload, failed func(error), done func(bytes int, err error)) {
	records := make([]kgo.Record, count)
	bytes, now := 0, time.Now()
	for i := range records {
		r := &records[i]
		r.Topic, r.Partition, r.Timestamp = k.s.Topic, partition, now
		r.Key, r.Value = values.next()
		bytes += len(r.Key) + len(r.Value)
		promise := func(_ *kgo.Record, err error) {
			if err != nil {
				failed(err)
			}
		}
		if i == count-1 {
			promise = func(_ *kgo.Record, err error) { done(bytes, err) }
		}
		k.client.Produce(context.Background(), r, promise)
	}
}

// read polls as programs do, with franz-go's own sizes of a fetch.
func (k *kafkaDoor) read(ctx context.Context, w *watch, partitions []int32, drain drainEnd, fromStart bool) error {
	start := kgo.NewOffset().AtEnd()
	if fromStart {
		start = kgo.NewOffset().AtStart()
	}
	share := map[int32]kgo.Offset{}
	for _, p := range partitions {
		share[p] = start
	}
	consumer, err := kgo.NewClient(append(k.options(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.s.Topic: share}))...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	left := drain.share(partitions)
	for w.wants(drain, left) {
		fetches := consumer.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("consume %s, partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		now := time.Now()
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { w.countFetched(now, p, left) })
	}
	return nil
}

func (w *watch) countFetched(now time.Time, p kgo.FetchTopicPartition, left backlog) {
	if len(p.Records) == 0 {
		return
	}
	bytes := 0
	for _, r := range p.Records {
		bytes += len(r.Key) + len(r.Value)
	}
	last := p.Records[len(p.Records)-1]
	w.consumed.records.Add(int64(len(p.Records)))
	w.consumed.bytes.Add(int64(bytes))
	w.delivered(now, last.Timestamp.UnixMilli())
	left.reached(p.Partition, last.Offset+1)
}
