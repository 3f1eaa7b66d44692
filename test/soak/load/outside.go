package load

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/moldau-log/moldau/internal/history"
)

// outsideTimeout bounds a request of a client outside its group.
const outsideTimeout = 5 * time.Second

// Outside gives a client of the Kafka door that commits offsets of a group without members, higher and higher ones, asks for them, and asks for the ends of partitions.
func (l *Load) Outside(group string, topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(l.At.Kafka...), kgo.ClientID(c.Name), kgo.MetadataMinAge(250*time.Millisecond), kgo.DialTimeout(2*time.Second))
		if err != nil {
			c.Counts.Note("new Kafka client", err)
			return
		}
		defer cl.Close()
		admin := kadm.NewClient(cl)
		for at := int64(1); wait(ctx, askEvery); at++ {
			topic := topics[c.Random.IntN(len(topics))]
			c.outsideCommit(ctx, admin, group, topic, at)
			c.outsideFetch(ctx, admin, group)
			c.outsideEnds(ctx, admin, topic)
		}
	}
}

func (c *Client) outsideCommit(ctx context.Context, admin *kadm.Client, group, topic string, at int64) {
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	p := c.Random.Int32N(c.topics.Partitions(topic))
	e := c.Begin(history.Event{Kind: history.Commit, Group: group, Records: []history.Record{{Topic: topic, Partition: p, Offset: at, Epoch: history.Unknown}}})
	var offsets kadm.Offsets
	offsets.AddOffset(topic, p, at, -1)
	resp, err := admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = resp.Error()
	}
	c.End(e, err)
}

func (c *Client) outsideFetch(ctx context.Context, admin *kadm.Client, group string) {
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	e := c.Begin(history.Event{Kind: history.Committed, Group: group})
	resp, err := admin.FetchOffsets(ctx, group)
	if err == nil {
		err = resp.Error()
	}
	resp.Each(func(o kadm.OffsetResponse) {
		e.Records = append(e.Records, history.Record{Topic: o.Topic, Partition: o.Partition, Offset: o.At, Epoch: history.Unknown})
	})
	c.End(e, err)
}

func (c *Client) outsideEnds(ctx context.Context, admin *kadm.Client, topic string) {
	ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
	defer cancel()
	e := c.Begin(history.Event{Kind: history.Latest})
	resp, err := admin.ListEndOffsets(ctx, topic)
	resp.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			e.Records = append(e.Records, history.Record{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Epoch: history.Unknown})
		}
	})
	c.End(e, err)
}
