package load

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// askEvery is how long an asker waits between two questions.
const askEvery = 200 * time.Millisecond

// Asker gives a client that asks in turn for the ends of topics, for the committed offsets of groups, and for who owns what in them.
func (l *Load) Asker(topics []string, groups ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(c.Name), client.WithDialTimeout(2*time.Second), client.WithRequestTimeout(3*time.Second))
		if err != nil {
			c.Counts.Note("new native client", err)
			return
		}
		defer cl.Close()
		for n := 0; wait(ctx, askEvery); n++ {
			c.askEnds(ctx, cl, topics[n%len(topics)])
			if len(groups) == 0 {
				continue
			}
			group := groups[n%len(groups)]
			c.askCommitted(ctx, cl, group, topics)
			c.askOwners(ctx, cl, group)
		}
	}
}

// askEnds asks for the ends of all partitions of a topic.
func (c *Client) askEnds(ctx context.Context, cl *client.Client, topic string) {
	req := new(moldauv1.ListOffsetsRequest)
	for p := range c.topics.Partitions(topic) {
		req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: topic, Partition: p, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST})
	}
	e := c.Begin(history.Event{Kind: history.Latest})
	resp, err := cl.ListOffsets(ctx, req)
	for _, o := range resp.GetOffsets() {
		if o.GetError() == nil {
			e.Records = append(e.Records, history.Record{Topic: topic, Partition: o.GetPartition(), Offset: o.GetOffset(), Epoch: history.Unknown})
		}
	}
	c.End(e, err)
}

// askCommitted asks for what a group has committed in all partitions of some topics.
func (c *Client) askCommitted(ctx context.Context, cl *client.Client, group string, topics []string) {
	e := c.Begin(history.Event{Kind: history.Committed, Group: group})
	resp, err := cl.FetchOffsets(ctx, &moldauv1.FetchOffsetsRequest{Group: group})
	found := map[client.TopicPartition]int64{}
	for _, o := range resp.GetOffsets() {
		if failed := client.FromWire(o.GetError()); failed != nil {
			err = fmt.Errorf("%s-%d: %w", o.GetTopic(), o.GetPartition(), failed)
			continue
		}
		found[client.TopicPartition{Topic: o.GetTopic(), Partition: o.GetPartition()}] = o.GetCommittedOffset()
	}
	for _, topic := range topics {
		for p := range c.topics.Partitions(topic) {
			offset, ok := found[client.TopicPartition{Topic: topic, Partition: p}]
			if !ok {
				offset = history.Unknown
			}
			e.Records = append(e.Records, history.Record{Topic: topic, Partition: p, Offset: offset, Epoch: history.Unknown})
		}
	}
	c.End(e, err)
}

// askOwners asks who owns what in a group, what is still to be given up included. One answer is one moment: it stands in the history as a generation of its own, of a
// group of its own, in which each member has said so itself.
func (c *Client) askOwners(ctx context.Context, cl *client.Client, group string) {
	resp, err := cl.DescribeGroups(ctx, &moldauv1.DescribeGroupsRequest{Groups: []string{group}})
	if err != nil || len(resp.GetGroups()) != 1 || resp.GetGroups()[0].GetError() != nil {
		return
	}
	moment := int32(c.ops.Add(1))
	for _, m := range resp.GetGroups()[0].GetMembers() {
		e := history.Event{Client: c.Name + "-of-" + m.GetMemberId(), Op: int64(moment), Type: history.OK, Time: history.Now(),
			Kind: history.Assign, Group: c.Name + " of " + group, Member: m.GetMemberId(), Generation: moment}
		for _, tp := range append(m.GetAssigned(), m.GetRevoking()...) {
			e.Records = append(e.Records, history.Record{Topic: tp.GetTopic(), Partition: tp.GetPartition(), Offset: history.Unknown, Epoch: history.Unknown})
		}
		c.rec.Write(e)
	}
}
