package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// within is a context that ends a stuck test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t testing.TB, c *fakeCluster, opts ...client.Option) *client.Client {
	t.Helper()
	k, err := client.New(append([]client.Option{client.WithSeeds(c.endpoints()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// produceN produces numbered records to partition 0 and reports the offsets.
func produceN(t testing.TB, k *client.Client, topic string, n int) {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	next := 0
	for i := range n {
		k.Produce(within(t), &client.Record{Topic: topic, Value: []byte(fmt.Sprint(i))}, func(r *client.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			}
			if string(r.Value) != fmt.Sprint(next) {
				errs = append(errs, fmt.Errorf("promise %d came for record %s", next, r.Value))
			}
			next++
		})
	}
	if err := k.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if err := errors.Join(errs...); err != nil || next != n {
		t.Fatalf("%d promises of %d: %v", next, n, err)
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func TestProduceAndConsume(t *testing.T) {
	c := newFakeCluster(t, 3)
	c.createTopic("orders", 6)
	k := newClient(t, c)
	want := map[string]bool{}
	var records []*client.Record
	for i := range 500 {
		v := fmt.Sprintf("value %d", i)
		want[v] = true
		records = append(records, &client.Record{
			Topic: "orders", Key: []byte(fmt.Sprint(i % 50)), Value: []byte(v), Headers: []client.Header{{Key: "h", Value: []byte{1}}, {Key: "null"}},
		})
	}
	if err := k.ProduceSync(within(t), records...); err != nil {
		t.Fatal(err)
	}
	consumer, err := k.NewConsumer(client.WithTopics("orders"), client.WithStart(client.FromStart()))
	if err != nil {
		t.Fatal(err)
	}
	partitionOf := map[string]int32{}
	for r, err := range consumer.Records(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := partitionOf[string(r.Key)]; ok && p != r.Partition {
			t.Fatalf("key %s in partitions %d and %d", r.Key, p, r.Partition)
		}
		partitionOf[string(r.Key)] = r.Partition
		if len(r.Headers) != 2 || r.Headers[1].Value != nil || time.Since(r.Timestamp) > time.Minute {
			t.Fatalf("record %+v", r)
		}
		delete(want, string(r.Value))
		if len(want) == 0 {
			break
		}
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCase66_RetryAfterALostAnswerStoresOnce(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	lost := 0
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault {
		if lost++; lost%3 == 1 {
			return fault{code: cluster.CodeTimedOut, after: true}
		}
		return fault{}
	}
	produceN(t, newClient(t, c, client.WithLinger(0)), "t", 100)
	if got := c.values(cluster.TopicPartition{Topic: id}); !slices.Equal(got, numbers(100)) {
		t.Fatalf("log has %v", got)
	}
}

func TestCase68_FailureOfTheFirstOfFiveKeepsOrder(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	n := 0
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault {
		if n++; n%7 == 3 {
			return fault{code: cluster.CodeNotEnoughReplicas}
		}
		return fault{}
	}
	produceN(t, newClient(t, c, client.WithLinger(0), client.WithBatchMaxRecords(3)), "t", 300)
	if got := c.values(cluster.TopicPartition{Topic: id}); !slices.Equal(got, numbers(300)) {
		t.Fatalf("log has %d records: %v", len(got), got)
	}
}

func TestCase62_LeaderMovesUnderIdempotentLoad(t *testing.T) {
	c := newFakeCluster(t, 3)
	id := c.createTopic("t", 1)
	tp := cluster.TopicPartition{Topic: id}
	n := 0
	c.produceFault = func(b *fakeBroker, _ *broker.ProduceRequest) fault {
		if n++; n%5 != 0 {
			return fault{}
		}
		next := cluster.BrokerID((int(b.id) + 1) % 3)
		c.changeLocked(func(txn *cluster.Txn) {
			old, _ := txn.Partition(tp)
			p := old.Clone()
			p.Leader = next
			p.LeaderEpoch++
			txn.PutPartition(tp, p)
		})
		return fault{}
	}
	k := newClient(t, c, client.WithLinger(0), client.WithBatchMaxRecords(4))
	consumer, err := k.NewConsumer(client.WithTopics("t"), client.WithStart(client.FromStart()))
	if err != nil {
		t.Fatal(err)
	}
	produceN(t, k, "t", 400)
	if got := c.values(tp); !slices.Equal(got, numbers(400)) {
		t.Fatalf("log has %d records: %v", len(got), got)
	}
	var got []string
	for r, err := range consumer.Records(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, string(r.Value)); len(got) == 400 {
			break
		}
	}
	if !slices.Equal(got, numbers(400)) {
		t.Fatalf("read %v", got)
	}
}

func TestCase70_ForgottenProducerGoesOnUnderANewID(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	tp := cluster.TopicPartition{Topic: id}
	k := newClient(t, c)
	for i := range 3 {
		if err := k.ProduceSync(within(t), &client.Record{Topic: "t", Value: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.logs[tp].producers = map[record.ProducerID]*fakeProducer{}
		c.mu.Unlock()
	}
	if got := c.values(tp); !slices.Equal(got, numbers(3)) {
		t.Fatalf("log has %v", got)
	}
}

func TestRefusedRecordsDoNotStopTheOthers(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	n := 0
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault {
		if n++; n == 2 {
			return fault{code: cluster.CodeInvalidRecord}
		}
		return fault{}
	}
	k := newClient(t, c, client.WithLinger(0), client.WithBatchMaxRecords(1))
	var mu sync.Mutex
	refused := 0
	for i := range 20 {
		k.Produce(within(t), &client.Record{Topic: "t", Value: []byte(fmt.Sprint(i))}, func(_ *client.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_INVALID_RECORD {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	if err := k.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(numbers(20), func(s string) bool { return s == "1" })
	if got := c.values(cluster.TopicPartition{Topic: id}); !slices.Equal(got, want) || refused != 1 {
		t.Fatalf("%d refused, log has %v", refused, got)
	}
}

func TestDeliveryTimeout(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	drop := true
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault { return fault{drop: drop} }
	k := newClient(t, c, client.WithDeliveryTimeout(300*time.Millisecond))
	err := k.ProduceSync(within(t), &client.Record{Topic: "t", Value: []byte("lost answer")})
	if !errors.Is(err, client.ErrDeliveryTimeout) {
		t.Fatalf("error %v", err)
	}
	c.mu.Lock()
	drop = false
	c.mu.Unlock()
	if err := k.ProduceSync(within(t), &client.Record{Topic: "t", Value: []byte("next")}); err != nil {
		t.Fatal(err)
	}
	got := c.values(cluster.TopicPartition{Topic: id})
	if got[len(got)-1] != "next" {
		t.Fatalf("log has %v", got)
	}
}

func TestCase87_OffsetReset(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	k := newClient(t, c)
	produceN(t, k, "t", 10)
	if _, err := k.DeleteRecords(within(t), &moldauv1.DeleteRecordsRequest{Topic: "t", BeforeOffset: 4}); err != nil {
		t.Fatal(err)
	}
	first := func(opts ...client.ConsumerOption) (client.Record, error) {
		t.Helper()
		consumer, err := k.NewConsumer(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer consumer.Close()
		for r, err := range consumer.Records(within(t)) {
			return r, err
		}
		return client.Record{}, errTest
	}
	at := func(s client.Start) client.ConsumerOption {
		return client.WithPartitions(map[client.TopicPartition]client.Start{{Topic: "t"}: s})
	}
	for name, test := range map[string]struct {
		start  client.Start
		reset  client.Reset
		offset int64
	}{
		"start":                  {client.FromStart(), client.ResetNone, 4},
		"start+2":                {client.FromStartPlus(2), client.ResetNone, 6},
		"end-3":                  {client.FromEndMinus(3), client.ResetNone, 7},
		"end-100 is the start":   {client.FromEndMinus(100), client.ResetLatest, 4},
		"offset":                 {client.FromOffset(8), client.ResetNone, 8},
		"time":                   {client.FromTime(time.UnixMilli(1)), client.ResetNone, 4},
		"out of range, earliest": {client.FromOffset(1), client.ResetEarliest, 4},
	} {
		r, err := first(at(test.start), client.WithOffsetReset(test.reset))
		if err != nil || r.Offset != test.offset || string(r.Value) != fmt.Sprint(test.offset) {
			t.Errorf("%s: offset %d, %v", name, r.Offset, err)
		}
	}
	if _, err := first(at(client.FromOffset(1)), client.WithOffsetReset(client.ResetNone)); !errors.Is(err, client.ErrNoOffset) {
		t.Errorf("none: %v", err)
	}
	// The end of now is where a consumer goes that wants only what is new: what was there before is not read, and nothing that comes is missed.
	end := int64(10)
	for name, opts := range map[string][]client.ConsumerOption{
		"out of range, latest": {at(client.FromOffset(1)), client.WithOffsetReset(client.ResetLatest)},
		"no offset, latest":    {client.WithTopics("t"), client.WithStart(client.FromEnd())},
	} {
		consumer, err := k.NewConsumer(opts...)
		if err != nil {
			t.Fatal(err)
		}
		awaitPosition(t, consumer)
		produceN(t, k, "t", 1)
		if records, err := consumer.Poll(within(t)); err != nil || len(records) != 1 || records[0].Offset != end {
			t.Errorf("%s: %v, %v; the log ended at %d", name, records, err, end)
		}
		end++
		consumer.Close()
	}
}

// awaitPosition polls, for nothing, until the consumer knows the end of partition 0.
func awaitPosition(t *testing.T, consumer *client.Consumer) {
	t.Helper()
	for {
		if at, ok := consumer.Positions()[client.TopicPartition{Topic: "t"}]; ok && at.HighWatermark >= 0 {
			return
		}
		short, cancel := context.WithTimeout(within(t), 5*time.Millisecond)
		if records, err := consumer.Poll(short); len(records) > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(records, err)
		}
		cancel()
	}
}

func TestGroup_TwoMembersShareAndHandOver(t *testing.T) {
	c := newFakeCluster(t, 3)
	c.createTopic("t", 6)
	k := newClient(t, c)
	type owned struct {
		sync.Mutex
		by map[client.TopicPartition]string
	}
	state := owned{by: map[client.TopicPartition]string{}}
	change := make(chan struct{}, 100)
	join := func(name string) *client.Consumer {
		t.Helper()
		consumer, err := k.NewConsumer(client.WithGroup("g"), client.WithTopics("t"),
			client.WithOnAssigned(func(_ context.Context, tps []client.TopicPartition) {
				state.Lock()
				defer state.Unlock()
				for _, tp := range tps {
					if other, ok := state.by[tp]; ok {
						t.Errorf("%v given to %s while %s has it", tp, name, other)
					}
					state.by[tp] = name
				}
				change <- struct{}{}
			}),
			client.WithOnRevoked(func(_ context.Context, tps []client.TopicPartition) {
				state.Lock()
				defer state.Unlock()
				for _, tp := range tps {
					if state.by[tp] != name {
						t.Errorf("%v taken from %s, but %s has it", tp, name, state.by[tp])
					}
					delete(state.by, tp)
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		return consumer
	}
	await := func(want map[string]int) {
		t.Helper()
		ctx := within(t)
		for {
			state.Lock()
			count := map[string]int{}
			for _, name := range state.by {
				count[name]++
			}
			state.Unlock()
			ok := len(count) == len(want)
			for name, n := range want {
				ok = ok && count[name] == n
			}
			if ok {
				return
			}
			select {
			case <-change:
			case <-ctx.Done():
				t.Fatalf("ownership is %v, want %v", count, want)
			}
		}
	}
	a := join("a")
	await(map[string]int{"a": 6})
	b := join("b")
	await(map[string]int{"a": 3, "b": 3})
	aID, aEpoch := a.Membership()
	bID, bEpoch := b.Membership()
	if aID == "" || bID == "" || aID == bID || aEpoch < 1 || bEpoch < 2 {
		t.Errorf("the members are %q with epoch %d and %q with epoch %d", aID, aEpoch, bID, bEpoch)
	}
	for i := range 60 {
		if err := k.ProduceSync(within(t), &client.Record{Topic: "t", Key: []byte(fmt.Sprint(i)), Value: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var wg sync.WaitGroup
	for _, consumer := range []*client.Consumer{a, b} {
		wg.Go(func() {
			for r, err := range consumer.Records(ctx) {
				if err != nil {
					return
				}
				mu.Lock()
				if seen[string(r.Value)] {
					t.Errorf("%s read twice", r.Value)
				}
				seen[string(r.Value)] = true
				done := len(seen) == 60
				mu.Unlock()
				if done {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != 60 {
		t.Fatalf("%d of 60 records", len(seen))
	}
	// What closed members have delivered is committed.
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := k.DescribeGroups(within(t), &moldauv1.DescribeGroupsRequest{Groups: []string{"g", "other"}})
	if err != nil {
		t.Fatal(err)
	}
	g := d.GetGroups()[0]
	if len(g.GetMembers()) != 0 || g.GetState() != "empty" {
		t.Errorf("group %v", g)
	}
	var committed int64
	for _, o := range g.GetOffsets() {
		committed += o.GetCommittedOffset()
		if o.GetLag() != 0 {
			t.Errorf("lag of %v", o)
		}
	}
	if committed != 60 {
		t.Errorf("%d committed in %v", committed, g.GetOffsets())
	}
	if code := d.GetGroups()[1].GetError().GetCode(); code != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_GROUP {
		t.Errorf("unknown group: %v", d.GetGroups()[1])
	}
}

func TestAdmin(t *testing.T) {
	c := newFakeCluster(t, 3)
	k := newClient(t, c)
	ctx := within(t)
	created, err := k.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 3, Configs: []*moldauv1.ConfigEntry{{Key: "retention.ms", Value: "1000"}}})
	if err != nil || created.GetPartitions() != 3 || len(created.GetTopicId()) != 22 || len(created.GetNotes()) != 1 {
		t.Fatalf("%v, %v", created, err)
	}
	_, err = k.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: "t"})
	if client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
		t.Fatalf("created twice: %v", err)
	}
	if err := k.ProduceSync(ctx, &client.Record{Topic: "t", Key: []byte("k"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	d, err := k.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{WithStatus: true})
	if err != nil || len(d.GetTopics()) != 1 || len(d.GetBrokers()) != 3 || len(d.GetTopics()[0].GetPartitions()) != 3 {
		t.Fatalf("%v, %v", d, err)
	}
	var end int64
	for _, p := range d.GetTopics()[0].GetPartitions() {
		end += p.GetStatus().GetLogEndOffset()
	}
	if end != 1 {
		t.Errorf("log ends add up to %d", end)
	}
	if _, err := k.AddPartitions(ctx, &moldauv1.AddPartitionsRequest{Topic: "t", Partitions: 5}); err != nil {
		t.Error(err)
	}
	if _, err := k.AlterConfigs(ctx, &moldauv1.AlterConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_TOPIC, Name: "t", Ops: []*moldauv1.ConfigOp{{Key: "retention.ms"}}}); err != nil {
		t.Error(err)
	}
	configs, err := k.DescribeConfigs(ctx, &moldauv1.DescribeConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_TOPIC, Name: "t"})
	if err != nil || !slices.ContainsFunc(configs.GetConfigs(), func(v *moldauv1.ConfigValue) bool {
		return v.GetKey() == "retention.ms" && v.GetSource() == "default" && v.GetDoc() != ""
	}) {
		t.Errorf("%v, %v", configs, err)
	}
	if _, err := k.Reassign(ctx, &moldauv1.ReassignRequest{Topic: "t", Partition: 1, Replicas: []int32{2}}); err != nil {
		t.Error(err)
	}
	moving, err := k.ListReassignments(ctx, &moldauv1.ListReassignmentsRequest{})
	if err != nil || len(moving.GetReassignments()) != 1 || moving.GetReassignments()[0].GetPartition() != 1 {
		t.Errorf("%v, %v", moving, err)
	}
	elected, err := k.ElectLeaders(ctx, &moldauv1.ElectLeadersRequest{})
	if err != nil || len(elected.GetResults()) != 3 { // partitions 1, 2 and 4 are not led by broker 0
		t.Errorf("%v, %v", elected, err)
	}
	about, err := k.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{})
	if err != nil || len(about.GetClusterId()) != 22 || about.GetBrokers()[0].GetLeads() != 5 || about.GetBrokers()[2].GetHolds() != 5 {
		t.Errorf("%v, %v", about, err)
	}
	if h, err := k.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{}); err != nil || !h.GetHealthy() {
		t.Errorf("%v, %v", h, err)
	}
	_, err = k.UnregisterBroker(ctx, &moldauv1.UnregisterBrokerRequest{Broker: 7})
	if client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_BROKER {
		t.Errorf("unregister: %v", err)
	}
	var backup strings.Builder
	if err := k.Backup(ctx, &backup); err != nil || backup.Len() != 3*(backupChunk-1) {
		t.Errorf("backup of %d bytes, %v", backup.Len(), err)
	}
	if _, err := k.DeleteTopic(ctx, &moldauv1.DeleteTopicRequest{Topic: "t"}); err != nil {
		t.Error(err)
	}
	topics, err := k.ListTopics(ctx, &moldauv1.ListTopicsRequest{})
	if err != nil || len(topics.GetTopics()) != 0 {
		t.Errorf("%v, %v", topics, err)
	}
}

func TestPlainCalls_AnyBrokerForwards(t *testing.T) {
	c := newFakeCluster(t, 3)
	c.createTopic("t", 3)
	for seed := range c.endpoints() {
		k := newClient(t, c, client.WithSeeds(c.endpoints()[seed]))
		one := int32(1)
		resp, err := k.ProduceRecords(within(t), &moldauv1.ProduceRecordsRequest{Topic: "t", Partition: &one, Records: []*moldauv1.Record{{Value: []byte("a")}, {Key: []byte("k")}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range resp.GetRecords() {
			if r.GetError() != nil || r.GetPartition() != 1 || r.GetOffset() != int64(2*seed+i) {
				t.Errorf("record %d: %v", i, r)
			}
		}
		got, err := k.FetchRecords(within(t), &moldauv1.FetchRecordsRequest{Topic: "t", Partition: 1, Start: &moldauv1.FetchRecordsRequest_Last{Last: 2}})
		if err != nil || len(got.GetRecords()) != 2 || got.GetRecords()[1].Value != nil || string(got.GetRecords()[0].GetValue()) != "a" || got.GetNextOffset() != int64(2*seed+2) {
			t.Errorf("%v, %v", got, err)
		}
		listed, err := k.ListOffsets(within(t), &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{
			{Topic: "t", Partition: 0, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST},
			{Topic: "t", Partition: 1, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST},
			{Topic: "t", Partition: 2, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST},
			{Topic: "nope", Spec: moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST},
		}})
		if err != nil {
			t.Fatal(err)
		}
		o := listed.GetOffsets()
		if o[0].GetOffset() != 0 || o[1].GetOffset() != int64(2*seed+2) || o[2].GetError() != nil || o[3].GetError().GetCode() != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC {
			t.Errorf("%v", o)
		}
	}
}

// TestClose_LeavesNoGoroutine looks for the client's code in the stacks of all goroutines after Close.
func TestClose_LeavesNoGoroutine(t *testing.T) {
	c := newFakeCluster(t, 3)
	c.createTopic("t", 6)
	k, err := client.New(client.WithSeeds(c.endpoints()...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		k.Produce(within(t), &client.Record{Topic: "t", Key: []byte(fmt.Sprint(i))}, nil)
	}
	if err := k.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]client.ConsumerOption{
		{client.WithTopics("t"), client.WithStart(client.FromStart())},
		{client.WithTopics("t"), client.WithGroup("g")},
	} {
		consumer, err := k.NewConsumer(opts...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consumer.Poll(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	k.Produce(within(t), &client.Record{Topic: "t"}, nil) // under way while it closes
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, g := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(g, "moldau/client.") && !strings.Contains(g, "testing.tRunner(") {
			t.Errorf("left running:\n%s", g)
		}
	}
}

func TestCase55_TopicCreatedAgainUnderTheSameName(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	k := newClient(t, c)
	if err := k.ProduceSync(within(t), &client.Record{Topic: "t", Value: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.DeleteTopic(within(t), &moldauv1.DeleteTopicRequest{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	id := c.createTopic("t", 1)
	if err := k.ProduceSync(within(t), &client.Record{Topic: "t", Value: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if got := c.values(cluster.TopicPartition{Topic: id}); !slices.Equal(got, []string{"new"}) {
		t.Errorf("log has %v", got)
	}
}

func TestCase87_NewPartitionsAreReadFromTheirStart(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	k := newClient(t, c, client.WithMetadataMaxAge(50*time.Millisecond), client.WithPartitioner(client.ManualPartitioner()))
	consumer, err := k.NewConsumer(client.WithTopics("t"), client.WithStart(client.FromEnd()))
	if err != nil {
		t.Fatal(err)
	}
	awaitPosition(t, consumer)
	other := newClient(t, c, client.WithPartitioner(client.ManualPartitioner()))
	if _, err := other.AddPartitions(within(t), &moldauv1.AddPartitionsRequest{Topic: "t", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	if err := other.ProduceSync(within(t), &client.Record{Topic: "t", Partition: 1, Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	records, err := consumer.Poll(within(t))
	if err != nil || len(records) != 1 || records[0].Partition != 1 || records[0].Offset != 0 {
		t.Errorf("%v, %v", records, err)
	}
}

func TestConsumer_CorruptBatchIsToldAndReadAgain(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 1)
	batch := batchOf(t, record.BuilderOptions{}, []byte("value"))
	batch[len(batch)-2] ^= 1
	c.mu.Lock()
	if _, err := c.logs[cluster.TopicPartition{Topic: id}].log.Append(1, batch); err != nil {
		t.Fatal(err)
	}
	c.wakeLocked()
	c.mu.Unlock()
	k := newClient(t, c)
	consumer, err := k.NewConsumer(client.WithTopics("t"), client.WithStart(client.FromStart()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // never passed over
		if records, err := consumer.Poll(within(t)); !errors.Is(err, client.ErrCorruptBatch) || len(records) > 0 {
			t.Errorf("%v, %v", records, err)
		}
	}
}
