package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// settle bounds the wait for what is under way when a run ends.
const settle = 30 * time.Second

// measure does one run.
func measure(ctx context.Context, name string, p parts, s *settings, talk io.Writer) (*result, error) {
	clients, err := connect(s, p)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	partitions, brokerVersion, err := prepareTopic(ctx, clients[0], s, p)
	if err != nil {
		return nil, err
	}
	r := &result{
		Command: name, Version: version, BrokerVersion: brokerVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), StartedMs: time.Now().UnixMilli(), Settings: s, TopicPartitions: partitions,
	}
	w := newWatch(s)
	stopProgress := w.progress(talk)
	defer stopProgress()
	var drain drainEnd
	if p.consume {
		if drain, err = findEnd(ctx, clients[0], s, p, partitions); err != nil {
			return nil, err
		}
	}
	if err := w.run(ctx, clients, s, p, partitions, drain); err != nil {
		return nil, err
	}
	stopProgress()
	w.fill(r, p)
	return r, nil
}

func closeAll(clients []*client.Client) {
	for _, c := range clients {
		_ = c.Close() // the figures are taken
	}
}

func connect(s *settings, p parts) ([]*client.Client, error) {
	codec, err := record.ParseCodec(s.Compression)
	if err != nil {
		return nil, err
	}
	acks, err := s.acks()
	if err != nil {
		return nil, err
	}
	opts := []client.Option{
		client.WithSeeds(s.Servers...), client.WithClientID("moldau-bench"), client.WithAcks(acks), client.WithCompression(codec), client.WithMaxInFlight(s.InFlight),
		client.WithMaxBuffered(512 << 20), client.WithBatchMaxBytes(client.MaxBatchBytes), client.WithBatchMaxRecords(s.Batch), client.WithPartitioner(client.ManualPartitioner()),
	}
	if !s.idempotent(p) {
		opts = append(opts, client.WithoutIdempotence())
	}
	var clients []*client.Client
	for range s.Connections {
		c, err := client.New(opts...)
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// idempotent says whether batches carry a producer id: those that the client builds, as long as the window allows.
func (s *settings) idempotent(p parts) bool {
	const window = 5
	return p.produce && s.API == "records" && s.InFlight <= window && s.Acks != "none"
}

// prepareTopic creates the topic if it is not there and waits until every partition has a leader.
func prepareTopic(ctx context.Context, c *client.Client, s *settings, p parts) (partitions int32, brokerVersion string, err error) {
	if p.produce {
		req := &moldauv1.CreateTopicRequest{Topic: s.Topic, Partitions: s.Partitions, ReplicationFactor: s.ReplicationFactor}
		for _, pair := range s.TopicConfigs {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return 0, "", fmt.Errorf("config %q is not key=value", pair)
			}
			req.Configs = append(req.Configs, &moldauv1.ConfigEntry{Key: key, Value: value})
		}
		if _, err := c.CreateTopic(ctx, req); err != nil && client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
			return 0, "", fmt.Errorf("create topic %s: %w", s.Topic, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		resp, err := c.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: s.Topic}}})
		if err != nil {
			return 0, "", fmt.Errorf("describe topic %s: %w", s.Topic, err)
		}
		topic := resp.GetTopics()[0]
		if err := client.FromWire(topic.GetError()); err != nil {
			return 0, "", fmt.Errorf("describe topic %s: %w", s.Topic, err)
		}
		if led(topic) {
			return int32(len(topic.GetPartitions())), resp.GetBrokers()[0].GetVersion(), nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, "", errors.New("not every partition has a leader")
		}
	}
}

func led(t *moldauv1.TopicDescription) bool {
	for _, p := range t.GetPartitions() {
		if p.GetLeader() < 0 {
			return false
		}
	}
	return true
}

// drainEnd is how far each partition has to be read; empty: until the time is over.
type drainEnd map[int32]int64

// findEnd asks where the backlog ends.
func findEnd(ctx context.Context, c *client.Client, s *settings, p parts, partitions int32) (drainEnd, error) {
	if p.produce || s.Tail {
		return nil, nil
	}
	req := &moldauv1.ListOffsetsRequest{}
	for i := range partitions {
		req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: s.Topic, Partition: i, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST})
	}
	offsets, err := listOffsets(ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", s.Topic, err)
	}
	end, total := drainEnd{}, int64(0)
	for _, o := range offsets {
		end[o.GetPartition()] = o.GetOffset()
		total += o.GetOffset()
	}
	if total == 0 {
		return nil, fmt.Errorf("topic %s is empty: produce to it first", s.Topic)
	}
	return end, nil
}

// retryPause is the time between two questions while a partition has no leader that answers.
const retryPause = 50 * time.Millisecond

// listOffsets asks again while a partition is refused for a reason that passes.
func listOffsets(ctx context.Context, c *client.Client, req *moldauv1.ListOffsetsRequest) ([]*moldauv1.ListedOffset, error) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		resp, err := c.ListOffsets(ctx, req)
		if err != nil {
			return nil, err
		}
		var refused *client.Error
		for _, o := range resp.GetOffsets() {
			if errors.As(client.FromWire(o.GetError()), &refused) {
				break
			}
		}
		if refused == nil {
			return resp.GetOffsets(), nil
		}
		if !refused.Retriable || !pause(ctx, retryPause) {
			return nil, refused
		}
	}
}
