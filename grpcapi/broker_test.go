package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/moldautest"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// wholeBroker starts the shipped broker and a client of it, for at most 20 s.
func wholeBroker(t *testing.T) (context.Context, *client.Client) {
	t.Helper()
	b := moldautest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	c, err := client.New(client.WithSeeds(b.GRPC))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

// TestWholeBroker is the way of a record through the shipped broker: created on first use, produced, read by a group, committed, described.
func TestWholeBroker(t *testing.T) {
	ctx, c := wholeBroker(t)
	if _, err := c.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	for i := range n {
		c.Produce(ctx, &client.Record{Topic: "t", Key: []byte(fmt.Sprint(i % 30)), Value: []byte(fmt.Sprint(i))}, func(_ *client.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	k, err := c.NewConsumer(client.WithGroup("g"), client.WithTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int{}
	seen := 0
	for r, err := range k.Records(ctx) {
		if err != nil {
			d, _ := c.DescribeGroups(context.WithoutCancel(ctx), &moldauv1.DescribeGroupsRequest{Groups: []string{"g"}})
			t.Fatalf("%v after %d records; positions %v; group %v", err, seen, k.Positions(), d)
		}
		var i int
		if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
			t.Fatal(err)
		}
		if prev, ok := last[string(r.Key)]; ok && i != prev+30 {
			t.Fatalf("key %s: %d after %d", r.Key, i, prev)
		}
		last[string(r.Key)] = i
		if seen++; seen == n {
			break
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := c.DescribeGroups(ctx, &moldauv1.DescribeGroupsRequest{Groups: []string{"g"}})
	if err != nil {
		t.Fatal(err)
	}
	var committed int64
	for _, o := range d.GetGroups()[0].GetOffsets() {
		committed += o.GetCommittedOffset()
	}
	if committed != n {
		t.Errorf("%d of %d committed: %v", committed, n, d.GetGroups()[0])
	}
	if h, err := c.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{}); err != nil || !h.GetHealthy() {
		t.Errorf("%v, %v", h, err)
	}
	start, err := c.DeleteRecords(ctx, &moldauv1.DeleteRecordsRequest{Topic: "t", Partition: 0, BeforeOffset: -1})
	if err != nil || start.GetLogStartOffset() == 0 {
		t.Errorf("%v, %v", start, err)
	}
	if err := c.ProduceSync(ctx, &client.Record{Topic: "made-on-first-use", Value: []byte("v")}); err != nil {
		t.Errorf("auto-create: %v", err)
	}
}

// TestCompressionTypeOfTheTopic: batches are stored under the codec that their topic asks for, whatever the producer chose; nothing of a record is lost by it.
func TestCompressionTypeOfTheTopic(t *testing.T) {
	ctx, c := wholeBroker(t)
	create := &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 1, Configs: []*moldauv1.ConfigEntry{{Key: "compression.type", Value: "zstd"}}}
	created, err := c.CreateTopic(ctx, create)
	if err != nil {
		t.Fatal(err)
	}
	if len(created.GetNotes()) > 0 {
		t.Errorf("notes: %q", created.GetNotes())
	}
	want := record.Record{Key: []byte("k"), Value: bytes.Repeat([]byte("value "), 500), Headers: []record.Header{{Key: "h", Value: []byte("v")}}}
	if err := c.ProduceSync(ctx, &client.Record{Topic: "t", Key: want.Key, Value: want.Value, Headers: want.Headers}); err != nil {
		t.Fatal(err)
	}
	k, err := c.NewConsumer(client.WithPartitions(map[client.TopicPartition]client.Start{{Topic: "t", Partition: 0}: client.FromStart()}))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	got, err := k.PollBatches(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	batch, err := record.Parse(got.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if batch.Codec() != record.CodecZstd {
		t.Errorf("stored as %s, want zstd", batch.Codec())
	}
	for r, err := range batch.All(1 << 20) {
		if err != nil || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) || len(r.Headers) != 1 {
			t.Errorf("%v %v", r, err)
		}
	}
}

// TestCommitOfWhatIsNotOwned: a commit that answers success is there. A member that has joined and does not own its partitions yet, or names one that it never gets,
// is told so.
func TestCommitOfWhatIsNotOwned(t *testing.T) {
	ctx, c := wholeBroker(t)
	for _, topic := range []string{"owned", "other"} {
		if _, err := c.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	k, err := c.NewConsumer(client.WithGroup("g"), client.WithTopics("owned"), client.WithAutoCommit(0))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	refused := 0
	for {
		err := k.CommitOffsets(ctx, map[client.TopicPartition]int64{{Topic: "owned"}: 7})
		if err == nil {
			break
		}
		if !errors.Is(err, client.ErrNotAssigned) {
			t.Fatal(err)
		}
		refused++
	}
	if refused == 0 {
		t.Log("the assignment was faster than the first commit")
	}
	got, err := c.FetchOffsets(ctx, &moldauv1.FetchOffsetsRequest{Group: "g"})
	if err != nil || len(got.GetOffsets()) != 1 || got.GetOffsets()[0].GetCommittedOffset() != 7 {
		t.Errorf("%v %v, want the 7 that was answered", got, err)
	}
	if err := k.CommitOffsets(ctx, map[client.TopicPartition]int64{{Topic: "other"}: 1}); !errors.Is(err, client.ErrNotAssigned) {
		t.Errorf("a partition that is never owned: %v", err)
	}
}

// TestCase89_ALateCommitIsRefused: a commit that its member gave up, and that comes behind a later one, changes nothing.
func TestCase89_ALateCommitIsRefused(t *testing.T) {
	ctx, c := wholeBroker(t)
	if _, err := c.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	k, err := c.NewConsumer(client.WithGroup("g"), client.WithTopics("t"), client.WithAutoCommit(0))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for {
		if err := k.CommitOffsets(ctx, map[client.TopicPartition]int64{{Topic: "t"}: 0}); err == nil {
			break
		} else if !errors.Is(err, client.ErrNotAssigned) {
			t.Fatal(err)
		}
	}
	member, epoch := k.Membership()
	commit := func(sequence int64, offsets ...*moldauv1.OffsetCommit) ([]*moldauv1.PartitionResult, error) {
		resp, err := c.CommitOffsets(ctx, &moldauv1.CommitOffsetsRequest{Group: "g", MemberId: member, MemberEpoch: epoch, Sequence: sequence, Offsets: offsets})
		return resp.GetResults(), err
	}
	if results, err := commit(1002, &moldauv1.OffsetCommit{Topic: "t", CommittedOffset: 9}); err != nil || results[0].GetError() != nil {
		t.Fatal(results, err)
	}
	results, err := commit(1001, &moldauv1.OffsetCommit{Topic: "t", CommittedOffset: 7}, &moldauv1.OffsetCommit{Topic: "t", Partition: 1, CommittedOffset: 2})
	if err != nil || results[0].GetError().GetCode() != moldauv1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE || results[1].GetError() != nil {
		t.Errorf("the late one: %v %v; what the later one has not stored is taken, the rest is not", results, err)
	}
	got, err := c.FetchOffsets(ctx, &moldauv1.FetchOffsetsRequest{Group: "g"})
	if err != nil || len(got.GetOffsets()) != 2 || got.GetOffsets()[0].GetCommittedOffset() != 9 || got.GetOffsets()[1].GetCommittedOffset() != 2 {
		t.Errorf("%v %v, want 9 and 2", got, err)
	}
	for _, wrong := range []*moldauv1.CommitOffsetsRequest{{Group: "g", MemberId: member, MemberEpoch: epoch, Sequence: -1}, {Group: "h", Sequence: 1}} {
		if _, err := c.CommitOffsets(ctx, wrong); client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_INVALID_REQUEST {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
