package load

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
)

// Ends are the ends to which partitions are read, exclusive.
type Ends = map[client.TopicPartition]int64

// DrainNative reads partitions, which broker leads, from their log start to these ends over the gRPC door.
func (l *Load) DrainNative(ctx context.Context, name string, broker int32, ends Ends) error {
	c := l.client(name)
	cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(name))
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer cl.Close()
	starts := map[client.TopicPartition]client.Start{}
	for tp := range ends {
		starts[tp] = client.FromStart()
	}
	k, err := cl.NewConsumer(client.WithPartitions(starts), client.WithMaxPollRecords(pollRecords))
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer k.Close()
	position := func() map[client.TopicPartition]int64 {
		out := map[client.TopicPartition]int64{}
		for tp, p := range k.Positions() {
			out[tp] = p.Offset
		}
		return out
	}
	return c.drain(ctx, broker, ends, position, func(ctx context.Context, e history.Event) {
		_, _ = c.nativePoll(ctx, k, e) // errors are counted; what is not read in time is missing from the history
	})
}

// DrainKafka is DrainNative over the Kafka door.
func (l *Load) DrainKafka(ctx context.Context, name string, broker int32, ends Ends) error {
	c := l.client(name)
	starts := map[string]map[int32]kgo.Offset{}
	for tp := range ends {
		if starts[tp.Topic] == nil {
			starts[tp.Topic] = map[int32]kgo.Offset{}
		}
		starts[tp.Topic][tp.Partition] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.At.Kafka...), kgo.ClientID(name), kgo.ConsumePartitions(starts))
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer cl.Close()
	at := map[client.TopicPartition]int64{}
	return c.drain(ctx, broker, ends, func() map[client.TopicPartition]int64 { return at }, func(ctx context.Context, e history.Event) {
		for _, r := range c.kafkaPoll(ctx, cl, e) {
			at[client.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
		}
	})
}

// drain polls until every partition has been read to its end.
func (c *Client) drain(ctx context.Context, broker int32, ends Ends, position func() map[client.TopicPartition]int64, poll func(context.Context, history.Event)) error {
	done := c.Begin(history.Event{Kind: history.Admin, Action: history.Drained, Broker: broker})
	for {
		at := position()
		behind := ""
		for tp, end := range ends {
			if at[tp] < end {
				behind = fmt.Sprintf("%s-%d is read to %d of %d", tp.Topic, tp.Partition, at[tp], end)
			}
		}
		if behind == "" {
			break
		}
		if ctx.Err() != nil {
			err := fmt.Errorf("load: %s: not drained: %s", c.Name, behind)
			c.End(done, err)
			return err
		}
		once, cancel := context.WithTimeout(ctx, time.Second)
		poll(once, history.Event{Kind: history.Poll, Action: history.Drain, Broker: broker})
		cancel()
	}
	for tp, end := range ends {
		done.Records = append(done.Records, history.Record{Topic: tp.Topic, Partition: tp.Partition, Offset: end, Epoch: history.Unknown})
	}
	c.End(done, nil)
	return nil
}
