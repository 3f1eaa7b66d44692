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
			c.Counts.Note(dataLoss, err)
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

// dataLoss is how a consumer's news is counted that records which it had read are gone.
const dataLoss = "data loss reported to a consumer"

// Bounds of a consumer that starts again and again.
const (
	lifeMin = 10 * time.Second
	lifeMax = 40 * time.Second
	// lookBack is how many records before the end of a partition such a life begins.
	lookBack = 300
)

// life is a context for one life of a consumer. The positions of the one before are void.
func (c *Client) life(ctx context.Context, topics []string) (context.Context, context.CancelFunc) {
	e := history.Event{Client: c.Name, Op: c.ops.Add(1), Type: history.OK, Kind: history.Seek, Time: history.Now()}
	for _, t := range topics {
		for p := range c.topics.Partitions(t) {
			e.Records = append(e.Records, history.Record{Topic: t, Partition: p, Offset: history.Unknown, Epoch: history.Unknown})
		}
	}
	c.rec.Write(e)
	return context.WithTimeout(ctx, lifeMin+time.Duration(c.Random.Int64N(int64(lifeMax-lifeMin))))
}

// KafkaVisitor gives a consumer that starts again and again, each time shortly before the end, with a client of its own.
func (l *Load) KafkaVisitor(topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		for ctx.Err() == nil {
			life, cancel := c.life(ctx, topics)
			cl, err := kgo.NewClient(kgo.SeedBrokers(l.At.Kafka...), kgo.ClientID(c.Name), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd().Relative(-lookBack)),
				kgo.MetadataMinAge(250*time.Millisecond), kgo.DialTimeout(2*time.Second))
			if err != nil {
				c.Counts.Note("new Kafka client", err)
				cancel()
				return
			}
			for life.Err() == nil {
				c.kafkaPoll(life, cl, history.Event{Kind: history.Poll})
			}
			cl.Close()
			cancel()
		}
	}
}

// NativeVisitor is KafkaVisitor over the gRPC door.
func (l *Load) NativeVisitor(topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(c.Name), client.WithDialTimeout(2*time.Second))
		if err != nil {
			c.Counts.Note("new native client", err)
			return
		}
		defer cl.Close()
		for ctx.Err() == nil {
			life, cancel := c.life(ctx, topics)
			k, err := cl.NewConsumer(client.WithTopics(topics...), client.WithStart(client.FromEndMinus(lookBack)), client.WithMaxPollRecords(pollRecords))
			if err != nil {
				c.Counts.Note("new native consumer", err)
				cancel()
				return
			}
			for life.Err() == nil {
				if _, err := c.nativePoll(life, k, history.Event{Kind: history.Poll}); err != nil {
					wait(life, 100*time.Millisecond)
				}
			}
			_ = k.Close() // its life is over
			cancel()
		}
	}
}

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
			c.Counts.Note(dataLoss, err)
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
