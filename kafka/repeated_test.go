package kafka

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/record"
)

// notedBroker notes what it is asked for.
type notedBroker struct {
	*fullBroker
	listed  []broker.OffsetQuery
	deleted []record.Offset
	bounded bool // what came last may not take for ever
}

func (n *notedBroker) ListOffsets(_ context.Context, queries []broker.OffsetQuery) []broker.OffsetAnswer {
	n.listed = queries
	out := make([]broker.OffsetAnswer, len(queries))
	for i := range out {
		out[i] = broker.OffsetAnswer{Offset: 5 + record.Offset(i), Timestamp: 50, LeaderEpoch: 1}
	}
	return out
}

func (n *notedBroker) DeleteRecords(_ context.Context, _ broker.TopicRef, _ int32, before record.Offset) (record.Offset, error) {
	n.deleted = append(n.deleted, before)
	return before, nil
}

func (n *notedBroker) EpochEnd(ctx context.Context, _ broker.TopicRef, _ int32, _, _ record.LeaderEpoch) (cluster.EpochEnd, error) {
	_, n.bounded = ctx.Deadline()
	return cluster.EpochEnd{}, nil
}

// notedGroups notes which positions it is asked for.
type notedGroups struct {
	fakeGroups
	fetched [][]cluster.TopicPartition
}

func (n *notedGroups) FetchOffsets(ctx context.Context, r consumergroup.FetchOffsetsRequest) ([]consumergroup.FetchedOffset, error) {
	n.fetched = append(n.fetched, r.Partitions)
	return n.fakeGroups.FetchOffsets(ctx, r)
}

func openNoted(t *testing.T) (*notedBroker, *notedGroups, func(kmsg.Request) kmsg.Response) {
	b, g := &notedBroker{fullBroker: newFullBroker()}, new(notedGroups)
	d := openDoorOf(t, Config{}, b.fakeBroker, b, g)
	c := d.dial()
	return b, g, func(req kmsg.Request) kmsg.Response {
		c.send(req)
		_, resp := c.answer(req)
		return resp
	}
}

// A search by time reads a batch. A partition that a request names again and again, or for a time that means nothing, is refused before anything is looked for, and the others
// are answered (case 108).
func TestCase108_WhatListOffsetsRefusesIsNotLookedFor(t *testing.T) {
	b, _, ask := openNoted(t)
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 7
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "t"
	for _, in := range []struct {
		partition int32
		timestamp int64
	}{{0, 1}, {1, 2}, {0, 3}, {2, -4}, {0, 1}, {3, 4}} {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = in.partition, in.timestamp
		topic.Partitions = append(topic.Partitions, p)
	}
	again := topic
	topic.Partitions, again.Partitions = topic.Partitions[:2], topic.Partitions[2:]
	req.Topics = append(req.Topics, topic, again)
	resp := ask(req).(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(b.listed) != 2 || b.listed[0].Partition != 1 || b.listed[1].Partition != 3 {
		t.Fatalf("looked for %+v", b.listed)
	}
	type answer struct {
		partition int32
		code      int16
		offset    int64
	}
	var got []answer
	for _, p := range resp.Topics[0].Partitions {
		got = append(got, answer{p.Partition, p.ErrorCode, p.Offset})
	}
	if want := []answer{{0, errInvalidRequest, -1}, {1, errNone, 5}, {2, errUnsupportedVersion, -1}, {3, errNone, 6}}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

// Metadata of a committed position comes back for each four bytes that ask for it: each partition is answered once, in every version (case 108).
func TestCase108_APositionIsToldOnce(t *testing.T) {
	_, g, ask := openNoted(t)
	old := kmsg.NewPtrOffsetFetchRequest()
	old.Version, old.Group = 7, "g"
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = "t", []int32{1, 0, 1, 1}
	old.Topics = append(old.Topics, topic, topic)
	resp := ask(old).(*kmsg.OffsetFetchResponse)
	if len(g.fetched) != 1 || len(g.fetched[0]) != 2 || len(resp.Topics[0].Partitions) != 2 || resp.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("asked for %v, answered %+v", g.fetched, resp.Topics)
	}
	many := kmsg.NewPtrOffsetFetchRequest()
	many.Version = 8
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	part := kmsg.NewOffsetFetchRequestGroupTopic()
	part.Topic, part.Partitions = "t", []int32{0, 0}
	group.Topics = append(group.Topics, part)
	many.Groups = append(many.Groups, group)
	g.fetched = nil
	if got := ask(many).(*kmsg.OffsetFetchResponse).Groups; len(g.fetched) != 1 || len(g.fetched[0]) != 1 || len(got[0].Topics[0].Partitions) != 1 {
		t.Errorf("asked for %v, answered %+v", g.fetched, got)
	}
}

// Each deletion is committed in the metadata: of those of one partition the last counts, as with Apache Kafka (case 108).
func TestCase108_DeleteRecordsOncePerPartition(t *testing.T) {
	b, _, ask := openNoted(t)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 2
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "t"
	for _, offset := range []int64{1, 2, 3} {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Offset = offset
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	got := ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions
	if !slices.Equal(b.deleted, []record.Offset{3}) || len(got) != 1 || got[0].LowWatermark != 3 {
		t.Errorf("deleted before %v, answered %+v", b.deleted, got)
	}
}

// A topic that is asked for by its id is the same whatever name comes with it, and is described once (case 108).
func TestCase108_ATopicHasOneDescription(t *testing.T) {
	_, _, ask := openNoted(t)
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	for _, name := range []string{"t", "u", "v"} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID, topic.Topic = [16]byte{9}, &name
		req.Topics = append(req.Topics, topic)
	}
	if got := ask(req).(*kmsg.MetadataResponse).Topics; len(got) != 1 {
		t.Errorf("described %d times", len(got))
	}
}

// However many partitions an OffsetForLeaderEpoch names, it waits for those that this broker is about to lead together (case 108).
func TestCase108_EpochsAreAskedForInBoundedTime(t *testing.T) {
	b, _, ask := openNoted(t)
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version = 4
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic, topic.Partitions = "t", []kmsg.OffsetForLeaderEpochRequestTopicPartition{kmsg.NewOffsetForLeaderEpochRequestTopicPartition()}
	req.Topics = append(req.Topics, topic)
	if ask(req); !b.bounded {
		t.Error("the broker may take for ever")
	}
}

// What lists name is found in one pass, also where a topic comes again: neither the answer nor its cost is that of the names times the partitions (case 108).
func TestCase108_ListsOfPartitionsAreSets(t *testing.T) {
	_, _, ask := openNoted(t)
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 1
	topic := kmsg.NewDescribeLogDirsRequestTopic()
	topic.Topic = "t"
	for _, want := range []struct {
		partitions []int32
		logs       int
	}{{[]int32{0, 0, 1, 0}, 1}, {[]int32{1}, 0}} {
		topic.Partitions = want.partitions
		dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{topic}
		logs := 0
		for _, in := range ask(dirs).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics {
			logs += len(in.Partitions)
		}
		if logs != want.logs {
			t.Errorf("partitions %v: %d logs", want.partitions, logs)
		}
	}
	if in := among(nil); !in(7) {
		t.Error("nil does not have all")
	}
	if in := among([]int32{3, 3}); !in(3) || in(4) {
		t.Error("a list is not what it has")
	}
}

// A topic that is moving is in the answer once, with what any of its entries names (case 108).
func TestCase108_AMovingTopicIsListedOnce(t *testing.T) {
	b, _, ask := openNoted(t)
	tx := b.Image().Txn()
	tx.PutPartition(cluster.TopicPartition{Topic: cluster.TopicID{9}}, &cluster.Partition{Replicas: []cluster.BrokerID{1, 0}, ISR: []cluster.BrokerID{1}, Leader: 1, Adding: []cluster.BrokerID{0}})
	b.image.Store(tx.Commit(2))
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	for _, partitions := range [][]int32{{5}, {0}, {0, 0}} {
		topic := kmsg.NewListPartitionReassignmentsRequestTopic()
		topic.Topic, topic.Partitions = "t", partitions
		req.Topics = append(req.Topics, topic)
	}
	if got := ask(req).(*kmsg.ListPartitionReassignmentsResponse).Topics; len(got) != 1 || len(got[0].Partitions) != 1 {
		t.Errorf("listed %+v", got)
	}
	req.Topics = req.Topics[:1]
	req.Topics[0].Partitions = nil
	if got := ask(req).(*kmsg.ListPartitionReassignmentsResponse).Topics; len(got) != 0 {
		t.Errorf("a topic of which no partition is asked for: %+v", got)
	}
}
