package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// Bounds of what an administrator does.
const (
	adminPause    = 2 * time.Second // on the average between two operations
	adminTimeout  = 10 * time.Second
	maxPartitions = 12 // to which a topic is grown
	shortLived    = 3  // topics that come and go, at a time
	firstRecords  = 5  // that are sent to each of their partitions
)

// Admin gives an administrator: topics come and go, topics get partitions, and logs are trimmed. Grow and trim name topics.
func (l *Load) Admin(grow, trim string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(c.Name), client.WithDialTimeout(2*time.Second), client.WithRequestTimeout(adminTimeout),
			client.WithPartitioner(client.ManualPartitioner()), client.WithDeliveryTimeout(adminTimeout))
		if err != nil {
			c.Counts.Note("new native client", err)
			return
		}
		defer cl.Close()
		a := admin{Client: c, native: cl, grow: grow, trim: trim}
		for wait(ctx, time.Duration(c.Random.Int64N(int64(2*adminPause)))) {
			a.next(ctx)
		}
	}
}

type admin struct {
	*Client
	native     *client.Client
	grow, trim string
	made       int
	sent       int64
	live       []string // short-lived topics, the oldest first
}

func (a *admin) next(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	switch a.Random.IntN(9) {
	case 0:
		a.growTopic(ctx)
	case 8:
		a.setMinISR(ctx)
	case 1, 2:
		a.trimTopic(ctx)
	default:
		if len(a.live) >= shortLived {
			a.deleteTopic(ctx)
			return
		}
		a.createTopic(ctx)
	}
}

func (a *admin) createTopic(ctx context.Context) {
	a.made++
	name := fmt.Sprintf("%s-%d", a.Name, a.made) // never the same again: an answer that was lost leaves nothing in doubt
	partitions := 1 + a.Random.Int32N(3)
	e := a.Begin(history.Event{Kind: history.Admin, Action: history.CreateTopic, Topic: name})
	_, err := a.native.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: name, Partitions: partitions, ReplicationFactor: 3})
	a.End(e, err)
	if err != nil {
		return
	}
	a.topics.SetQuiet(name, partitions)
	a.live = append(a.live, name)
	for p := range partitions {
		for range firstRecords {
			a.send(ctx, name, p)
		}
	}
}

// send stores one record and waits for it: a topic that was created takes records at once.
func (a *admin) send(ctx context.Context, topic string, p int32) {
	a.sent++
	v := history.Value{Client: a.Name, Seq: a.sent}
	r := history.Record{Topic: topic, Partition: p, Offset: history.Unknown, Epoch: history.Unknown, Value: v.String()}
	e := a.Begin(history.Event{Kind: history.Send, Acks: history.AcksISR, Records: []history.Record{r}})
	sent := &client.Record{Topic: topic, Partition: p, Value: v.Padded(smallValue)}
	err := a.native.ProduceSync(ctx, sent)
	if err == nil {
		r.Offset = sent.Offset
		e.Records = []history.Record{r}
	}
	a.End(e, err)
}

func (a *admin) deleteTopic(ctx context.Context) {
	name := a.live[0]
	a.live = a.live[1:]
	a.topics.Remove(name)
	e := a.Begin(history.Event{Kind: history.Admin, Action: history.DeleteTopic, Topic: name})
	_, err := a.native.DeleteTopic(ctx, &moldauv1.DeleteTopicRequest{Topic: name})
	a.End(e, err)
}

// growTopic adds a partition. Producers use it when the answer has come; consumers find it by themselves.
func (a *admin) growTopic(ctx context.Context) {
	n := a.topics.Partitions(a.grow) + 1
	if n > maxPartitions {
		return
	}
	_, err := a.native.AddPartitions(ctx, &moldauv1.AddPartitionsRequest{Topic: a.grow, Partitions: n})
	if err != nil {
		a.Counts.Note("add partitions", err)
		n = a.partitions(ctx, a.grow) // it may have been done
	}
	if n > 0 {
		a.topics.Set(a.grow, n)
	}
}

// setMinISR changes how many replicas an acknowledgement of the grown topic needs: 1, 2, 3, or the default.
func (a *admin) setMinISR(ctx context.Context) {
	op := &moldauv1.ConfigOp{Key: "min.insync.replicas"}
	if n := a.Random.IntN(4); n > 0 {
		value := strconv.Itoa(n)
		op.Value = &value
	}
	_, err := a.native.AlterConfigs(ctx, &moldauv1.AlterConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_TOPIC, Name: a.grow, Ops: []*moldauv1.ConfigOp{op}})
	if err != nil {
		a.Counts.Note("alter configs", err)
	}
}

// partitions asks how many a topic has; 0: no answer.
func (a *admin) partitions(ctx context.Context, topic string) int32 {
	resp, err := a.native.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: topic}}})
	if err != nil || len(resp.GetTopics()) == 0 {
		return 0
	}
	return int32(len(resp.GetTopics()[0].GetPartitions()))
}

// trimTopic deletes the older part of a partition.
func (a *admin) trimTopic(ctx context.Context) {
	p := a.Random.Int32N(a.topics.Partitions(a.trim))
	resp, err := a.native.ListOffsets(ctx, &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{
		{Topic: a.trim, Partition: p, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST}, {Topic: a.trim, Partition: p, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST}}})
	if err != nil {
		a.Counts.Note("offsets to trim at", err)
		return
	}
	first, end := resp.GetOffsets()[0], resp.GetOffsets()[1]
	if first.GetError() != nil || end.GetError() != nil || end.GetOffset() <= first.GetOffset() {
		return
	}
	before := first.GetOffset() + a.Random.Int64N(end.GetOffset()-first.GetOffset()+1)/2
	e := a.Begin(history.Event{Kind: history.Admin, Action: history.DeleteRecords, Records: []history.Record{{Topic: a.trim, Partition: p, Offset: before, Epoch: history.Unknown}}})
	_, err = a.native.DeleteRecords(ctx, &moldauv1.DeleteRecordsRequest{Topic: a.trim, Partition: p, BeforeOffset: before})
	a.End(e, err)
}
