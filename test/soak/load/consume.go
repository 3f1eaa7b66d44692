package load

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
)

// pollRecords bounds the records of one poll.
const pollRecords = 500

// KafkaConsumer gives a consumer without a group that reads topics from their start. With a rack it reads from followers in it (KIP-392).
func (l *Load) KafkaConsumer(rack string, topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(l.At.Kafka...), kgo.ClientID(c.Name), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Rack(rack),
			kgo.RecheckPreferredReplicaInterval(2*time.Second), kgo.MetadataMinAge(250*time.Millisecond), kgo.MetadataMaxAge(5*time.Second), kgo.DialTimeout(2*time.Second))
		if err != nil {
			c.Counts.Note("new Kafka client", err)
			return
		}
		defer cl.Close()
		for ctx.Err() == nil {
			c.kafkaPoll(ctx, cl, history.Event{Kind: history.Poll})
		}
	}
}

// kafkaPoll is one poll; e says what kind. It gives the records.
func (c *Client) kafkaPoll(ctx context.Context, cl *kgo.Client, e history.Event) []*kgo.Record {
	e = c.Begin(e)
	fetches := cl.PollRecords(ctx, pollRecords)
	fetches.EachError(func(topic string, p int32, err error) {
		var loss *kgo.ErrDataLoss
		if errors.As(err, &loss) {
			c.Counts.Note(DataLoss, err)
		} else if ctx.Err() == nil {
			c.Counts.Note("kafka fetch", err)
		}
	})
	records := fetches.Records()
	e.Records = make([]history.Record, 0, len(records))
	for _, r := range records {
		e.Records = append(e.Records, history.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch, Value: history.Describe(r.Value)})
	}
	c.End(e, nil)
	return records
}

// DataLoss is how a consumer's news is counted that records which it had read are gone.
const DataLoss = "DATA LOSS reported to a consumer"

// NativeConsumer gives a consumer without a group that reads topics from their start.
func (l *Load) NativeConsumer(topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(c.Name), client.WithDialTimeout(2*time.Second), client.WithMetadataMaxAge(5*time.Second))
		if err != nil {
			c.Counts.Note("new native client", err)
			return
		}
		defer cl.Close()
		k, err := cl.NewConsumer(client.WithTopics(topics...), client.WithStart(client.FromStart()), client.WithMaxPollRecords(pollRecords))
		if err != nil {
			c.Counts.Note("new native consumer", err)
			return
		}
		defer k.Close()
		for ctx.Err() == nil {
			if _, err := c.nativePoll(ctx, k, history.Event{Kind: history.Poll}); err != nil && !wait(ctx, 100*time.Millisecond) {
				return
			}
		}
	}
}

// nativePoll is one poll; e says what kind. It gives the records.
func (c *Client) nativePoll(ctx context.Context, k *client.Consumer, e history.Event) ([]client.Record, error) {
	e = c.Begin(e)
	records, err := k.Poll(ctx)
	if err != nil && ctx.Err() == nil {
		if errors.Is(err, client.ErrDataLoss) {
			c.Counts.Note(DataLoss, err)
		} else {
			c.Counts.Note("native poll", err)
		}
	}
	e.Records = make([]history.Record, 0, len(records))
	for _, r := range records {
		e.Records = append(e.Records, history.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch, Value: history.Describe(r.Value)})
	}
	c.End(e, nil)
	return records, err
}
