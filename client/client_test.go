package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

func TestNew_RefusesWhatMakesNoSense(t *testing.T) {
	for name, opt := range map[string]Option{
		"no seeds":         WithSeeds(),
		"tiny batch":       WithBatchMaxBytes(10),
		"huge batch":       WithBatchMaxBytes(MaxBatchBytes + 1),
		"no records":       WithBatchMaxRecords(0),
		"no flight":        WithMaxInFlight(0),
		"too much flight":  WithMaxInFlight(6),
		"no buffer":        WithMaxBuffered(1),
		"no delivery":      WithDeliveryTimeout(0),
		"acks none":        WithAcks(AcksNone),
		"unknown codec":    WithCompression(9),
		"no dial":          WithDialTimeout(-1),
		"no request":       WithRequestTimeout(0),
		"no produce limit": WithProduceTimeout(0),
	} {
		if c, err := New(opt); err == nil {
			t.Errorf("%s: accepted", name)
			c.Close()
		}
	}
	c, err := New(WithoutIdempotence(), WithAcks(AcksNone), WithMaxInFlight(64))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, opts := range map[string][]ConsumerOption{
		"nothing":              {},
		"group without topics": {WithGroup("g"), WithPartitions(map[TopicPartition]Start{{Topic: "t"}: FromStart()})},
		"group and partitions": {WithGroup("g"), WithTopics("t"), WithPartitions(map[TopicPartition]Start{{Topic: "t"}: FromStart()})},
		"no poll":              {WithTopics("t"), WithMaxPollRecords(0)},
		"negative commit":      {WithGroup("g"), WithTopics("t"), WithAutoCommit(-1)},
	} {
		if k, err := c.NewConsumer(opts...); err == nil {
			t.Errorf("%s: accepted", name)
			k.Close()
		}
	}
}

func TestClosed(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(context.Background(), &Record{Topic: "t"}); !errors.Is(err, ErrClosed) {
		t.Errorf("produce: %v", err)
	}
	if _, err := c.NewConsumer(WithTopics("t")); !errors.Is(err, ErrClosed) {
		t.Errorf("consumer: %v", err)
	}
	if _, err := c.ListTopics(context.Background(), &moldauv1.ListTopicsRequest{}); !errors.Is(err, ErrClosed) {
		t.Errorf("list: %v", err)
	}
}

func TestProduce_NobodyThere(t *testing.T) {
	c, err := New(WithSeeds("127.0.0.1:1"), WithRequestTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.ProduceSync(context.Background(), &Record{Topic: "t"})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
	big := &Record{Topic: "t", Value: make([]byte, 1<<20)}
	if err := c.ProduceSync(context.Background(), big); !errors.Is(err, ErrRecordTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// local is a client whose topic is known and has no leader, so that everything waits.
func local(t *testing.T, partitions int32, opts ...Option) *Client {
	t.Helper()
	c, err := New(append([]Option{WithSeeds("127.0.0.1:1")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	d := &moldauv1.TopicDescription{Topic: "t", TopicId: "AAAAAAAAAAAAAAAAAAAAAA"}
	for p := range partitions {
		d.Partitions = append(d.Partitions, &moldauv1.PartitionDescription{Partition: p, Leader: -1})
	}
	c.meta.apply(&moldauv1.DescribeTopicsResponse{Topics: []*moldauv1.TopicDescription{d}})
	return c
}

func TestPartitioners(t *testing.T) {
	c := local(t, 6)
	ctx := context.Background()
	for i := range 100 {
		c.Produce(ctx, &Record{Topic: "t", Key: []byte("abc"), Value: []byte(fmt.Sprint(i))}, nil)
		c.Produce(ctx, &Record{Topic: "t", Value: []byte(fmt.Sprint(i))}, nil)
	}
	c.producer.mu.Lock()
	defer c.producer.mu.Unlock()
	keyed, sticky := 0, map[int32]int{}
	for _, q := range c.producer.topics["t"].parts {
		for _, b := range q.batches {
			for _, p := range b.records {
				if p.record.Key == nil {
					sticky[q.number]++
				} else if keyed++; q.number != 479470107%6 { // what Kafka's Java client does with "abc"
					t.Fatalf("key abc went to partition %d", q.number)
				}
			}
		}
	}
	if keyed != 100 || len(sticky) != 1 {
		t.Errorf("%d keyed, keyless per partition %v", keyed, sticky)
	}
}

func TestSticky_ChangesWithTheBatch(t *testing.T) {
	c := local(t, 6, WithBatchMaxRecords(10))
	for i := range 100 {
		c.Produce(context.Background(), &Record{Topic: "t", Value: []byte(fmt.Sprint(i))}, nil)
	}
	c.producer.mu.Lock()
	defer c.producer.mu.Unlock()
	total := 0
	for _, q := range c.producer.topics["t"].parts {
		for _, b := range q.batches {
			total += len(b.records)
			if len(b.records) > 10 {
				t.Errorf("a batch of %d records", len(b.records))
			}
		}
	}
	if total != 100 {
		t.Errorf("%d records queued", total)
	}
}

func TestManualPartitioner_RefusesWhatIsNotThere(t *testing.T) {
	c := local(t, 2, WithPartitioner(ManualPartitioner()))
	err := make(chan error, 1)
	c.Produce(context.Background(), &Record{Topic: "t", Partition: 2}, func(_ *Record, e error) { err <- e })
	if e := <-err; CodeOf(e) != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC {
		t.Errorf("error %v", e)
	}
	if c.producer.waiting != 0 || c.producer.buffered != 0 {
		t.Errorf("%d records and %d bytes kept", c.producer.waiting, c.producer.buffered)
	}
}

func TestProduce_BlocksAtTheBufferBound(t *testing.T) {
	c := local(t, 1, WithBatchMaxBytes(2000), WithMaxBuffered(2000))
	ctx, cancel := context.WithCancel(context.Background())
	c.Produce(ctx, &Record{Topic: "t", Value: make([]byte, 1500)}, nil)
	blocked := make(chan error)
	go c.Produce(ctx, &Record{Topic: "t", Value: make([]byte, 1500)}, func(_ *Record, err error) { blocked <- err })
	cancel()
	if err := <-blocked; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestClose_FailsWhatWaits(t *testing.T) {
	c := local(t, 1)
	err := make(chan error, 1)
	c.Produce(context.Background(), &Record{Topic: "t"}, func(_ *Record, e error) { err <- e })
	if e := c.Close(); e != nil {
		t.Fatal(e)
	}
	select {
	case e := <-err:
		if !errors.Is(e, ErrClosed) {
			t.Errorf("error %v", e)
		}
	default:
		t.Error("Close returned before the promise was called")
	}
}

func TestDeliveryTimeout_WithoutLeader(t *testing.T) {
	c := local(t, 1, WithDeliveryTimeout(time.Millisecond))
	err := c.ProduceSync(context.Background(), &Record{Topic: "t"})
	if !errors.Is(err, ErrDeliveryTimeout) {
		t.Errorf("error %v", err)
	}
}

// queue is a partition's queue with n batches of one record, numbered and sent.
func queue(n int) *partProducer {
	q := &partProducer{id: 7}
	for range n {
		b := &batch{part: q, records: make([]pending, 1), sealed: true}
		q.batches = append(q.batches, b)
		q.assign(b)
		b.state = batchSent
		q.sent++
	}
	return q
}

func TestCase71_SequenceWraps(t *testing.T) {
	q := &partProducer{id: 7, next: 1<<31 - 2}
	var got []record.Sequence
	for range 3 {
		b := &batch{part: q, records: make([]pending, 2)}
		q.assign(b)
		got = append(got, b.sequence)
	}
	if got[0] != 1<<31-2 || got[1] != 0 || got[2] != 2 {
		t.Errorf("sequences %v", got)
	}
}

func TestQueue_RefusedLastBatchGivesItsNumberBack(t *testing.T) {
	q := queue(3)
	q.finish(q.batches[2], -1, errors.New("refused"), false)
	if q.freshID || q.next != 2 {
		t.Errorf("fresh %v, next %d", q.freshID, q.next)
	}
}

func TestQueue_RefusedMiddleBatchNeedsANewID(t *testing.T) {
	q := queue(3)
	q.finish(q.batches[0], -1, errors.New("refused"), false)
	if !q.freshID || !q.rewind {
		t.Fatal("goes on over a gap")
	}
	for _, b := range q.batches[1:] {
		q.requeue(b, errors.New("gap"))
	}
	q.settleRewind()
	q.renumber(8, 0)
	if q.rewind || q.freshID || q.next != 0 {
		t.Fatalf("%+v", q)
	}
	q.pop()
	for i, b := range q.batches {
		q.assign(b)
		if b.producerID != 8 || b.sequence != record.Sequence(i) {
			t.Errorf("batch %d is %d of producer %d", i, b.sequence, b.producerID)
		}
	}
}

func TestFromStatus(t *testing.T) {
	st, err := status.New(codes.FailedPrecondition, "ask 3").WithDetails(
		&errdetails.ErrorInfo{Domain: "moldau", Reason: "NOT_LEADER", Metadata: map[string]string{"leader": "3", "leader_epoch": "8", "endpoint": "h:1"}},
		&errdetails.RetryInfo{})
	if err != nil {
		t.Fatal(err)
	}
	var e *Error
	got := fromStatus(st.Err())
	if !errors.As(got, &e) || e.Leader != 3 || e.LeaderEpoch != 8 || e.Endpoint != "h:1" || !e.Retriable || e.Error() != "NOT_LEADER: ask 3" {
		t.Errorf("%+v", got)
	}
	if !errors.Is(got, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_NOT_LEADER}) || errors.Is(got, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_UNKNOWN}) {
		t.Error("errors.Is does not compare codes")
	}
	if !errors.Is(fromStatus(status.Error(codes.DeadlineExceeded, "x")), context.DeadlineExceeded) || !errors.Is(fromStatus(status.Error(codes.Canceled, "x")), context.Canceled) {
		t.Error("context errors are not recognisable")
	}
	if !retriable(fromStatus(status.Error(codes.Unavailable, "x"))) || retriable(fromStatus(status.Error(codes.Internal, "x"))) || retriable(errors.New("x")) {
		t.Error("retriable")
	}
}

func TestMetadata_HintsAndOldAnswers(t *testing.T) {
	m := newMetadata()
	describe := func(leader, epoch int32) *moldauv1.DescribeTopicsResponse {
		return &moldauv1.DescribeTopicsResponse{
			Topics:  []*moldauv1.TopicDescription{{Topic: "t", TopicId: "AAAAAAAAAAAAAAAAAAAAAQ", Partitions: []*moldauv1.PartitionDescription{{Leader: leader, LeaderEpoch: epoch}}}},
			Brokers: []*moldauv1.BrokerDescription{{Broker: 1, Endpoint: "b1"}, {Broker: 2, Endpoint: "b2"}},
		}
	}
	check := func(endpoint string, epoch int32) {
		t.Helper()
		if gotEndpoint, gotEpoch, _ := m.leader("t", 0); gotEndpoint != endpoint || gotEpoch != epoch {
			t.Errorf("leader %s in epoch %d, want %s in %d", gotEndpoint, gotEpoch, endpoint, epoch)
		}
	}
	m.apply(describe(1, 5))
	check("b1", 5)
	m.apply(describe(2, 4)) // a broker that lags behind
	check("b1", 5)
	if m.hint("t", 0, &Error{Leader: 2, LeaderEpoch: 4, Endpoint: "b2"}) || m.hint("t", 0, &Error{Leader: -1, LeaderEpoch: 9}) {
		t.Error("took an old or empty hint")
	}
	if !m.hint("t", 0, &Error{Leader: 3, LeaderEpoch: 6, Endpoint: "b3"}) {
		t.Error("refused news")
	}
	check("b3", 6)
	again := describe(1, 0)
	again.Topics[0].TopicId = "AAAAAAAAAAAAAAAAAAAAAg" // created anew: its epochs begin again
	m.apply(again)
	check("b1", 0)
}

// A batch is picked, then the sink connects or asks for an id; meanwhile batches before it come back. It must not overtake them.
func TestSink_NextIsTheFirstThatWaits(t *testing.T) {
	s := &sink{}
	q := queue(2)
	q.sink = s
	third := &batch{part: q, records: make([]pending, 1), sealed: true}
	q.batches = append(q.batches, third)
	if !s.next(third) {
		t.Error("the first waiting batch is not next")
	}
	q.requeue(q.batches[1], errors.New("gap"))
	if s.next(third) {
		t.Error("next while a rewind goes on")
	}
	q.requeue(q.batches[0], errors.New("timed out"))
	q.settleRewind()
	if s.next(third) || !s.next(q.batches[0]) {
		t.Error("a later batch overtakes")
	}
}
