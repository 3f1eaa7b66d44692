package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// parkedFetches are Fetches that have come to the broker, and wait there until the test lets them go.
type parkedFetches struct {
	came  chan broker.FetchRequest
	leave chan struct{}
}

func (p parkedFetches) fetch(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
	p.came <- req
	if req.MaxWait > 0 {
		<-p.leave
	}
	return make([]broker.FetchedPartition, len(req.Partitions))
}

func openParked(t *testing.T) (*door, parkedFetches) {
	d, p := openDoor(t, Config{}), parkedFetches{came: make(chan broker.FetchRequest, 1), leave: make(chan struct{})}
	d.broker.onFetch = p.fetch
	return d, p
}

// waiting is a Fetch of so many partitions that waits a minute.
func waiting(partitions int) *kmsg.FetchRequest {
	req := partitionsFetch(cluster.TopicID{9}, partitions, 0, finalSessionEpoch)
	req.MaxWaitMillis, req.MinBytes = 60_000, 1<<30
	return req
}

// What a Fetch holds while it waits goes with its partitions. Those of many are counted over all connections for as long as they wait, and are no longer among the large
// requests that are worked on. Who finds no room does not wait, and nobody waits for him (case 108).
func TestCase108_FetchesThatWaitAreBounded(t *testing.T) {
	d, p := openParked(t)
	const large = 6000 // of which the request is larger than largeRequest
	first, second, small := d.dial(), d.dial(), d.dial()
	first.send(waiting(large))
	if got := <-p.came; got.MaxWait != time.Minute || len(got.Partitions) != large {
		t.Fatalf("%d partitions, to wait %v", len(got.Partitions), got.MaxWait)
	}
	if parked, working := d.s.parked.Held(), d.s.working.Held(); parked != large || working != 0 {
		t.Fatalf("%d partitions are counted, and %d bytes of work are taken while it waits", parked, working)
	}
	d.s.parked.Force(parkedPartitions - large) // others wait for the rest
	for _, n := range []int{smallFetch + 1, large} {
		req := waiting(n)
		second.send(req)
		if got := <-p.came; got.MaxWait != 0 {
			t.Fatalf("%d partitions wait %v without room", n, got.MaxWait)
		}
		second.answer(req)
	}
	small.send(waiting(smallFetch))
	if got := <-p.came; got.MaxWait != time.Minute {
		t.Fatalf("a small one waits %v", got.MaxWait)
	}
	close(p.leave)
	first.answer(waiting(large))
	small.answer(waiting(smallFetch))
	d.s.parked.Give(parkedPartitions - large)
	waitFor(t, "the release of everything", func() bool { return d.s.parked.Held() == 0 && d.s.working.Held() == 0 })
	second.send(waiting(large))
	if got := <-p.came; got.MaxWait != time.Minute {
		t.Errorf("with room again it waits %v", got.MaxWait)
	}
	second.answer(waiting(large))
}

// A Fetch that waits keeps no room for its request's bytes, or a few large ones would keep every other request out. Names, which it keeps, still count (case 108).
func TestCase108_AFetchThatWaitsGivesItsBytesBack(t *testing.T) {
	d, p := openParked(t)
	many, named := waiting(60_000), waiting(1)
	named.Version, named.Topics[0].Topic = 12, strings.Repeat("x", 1<<20)
	first, second := d.dial(), d.dial()
	first.send(many)
	<-p.came
	if held := d.s.held.Held(); held > 1<<10 {
		t.Errorf("%d bytes are held while it waits", held)
	}
	second.send(named)
	<-p.came
	if held := d.s.held.Held(); held < 1<<20 || held > 1<<20+1<<10 {
		t.Errorf("%d bytes are held beside a name of a megabyte", held)
	}
	close(p.leave)
	first.answer(many)
	second.answer(named)
	waitFor(t, "the release of everything", func() bool { return d.s.held.Held() == 0 })
}

// What a session has counts like what the request itself says: an empty request that waits for many partitions is a large one (case 108).
func TestCase108_TheWaitOfASessionIsCounted(t *testing.T) {
	d, p := openParked(t)
	c := d.dial()
	open := waiting(smallFetch + 1)
	open.SessionEpoch, open.MaxWaitMillis = initialSessionEpoch, 0
	c.send(open)
	<-p.came
	_, resp := c.answer(open)
	next := nothingNew(resp.(*kmsg.FetchResponse).SessionID, 1)
	next.MaxWaitMillis = 60_000
	c.send(next)
	if got := <-p.came; got.MaxWait != time.Minute || len(got.Partitions) != smallFetch+1 || d.s.parked.Held() != smallFetch+1 {
		t.Errorf("%d partitions wait %v, %d are counted", len(got.Partitions), got.MaxWait, d.s.parked.Held())
	}
	close(p.leave)
	c.answer(next)
}

// A Fetch that may not wait for want of room is answered at once, and tells its client when to come again; who comes sooner is not read until then. The pause is never longer
// than the client would have waited, and there is none behind an answer that holds what the client waits for (case 108).
func TestCase108_WhoMayNotWaitDoesNotSpin(t *testing.T) {
	d := openDoor(t, Config{})
	came := make(chan time.Time, 3)
	parts := make([]broker.FetchedPartition, smallFetch+1)
	d.broker.onFetch = func(context.Context, broker.FetchRequest) []broker.FetchedPartition {
		came <- time.Now()
		return parts
	}
	d.s.parked.Force(parkedPartitions)
	defer d.s.parked.Give(parkedPartitions)
	c := d.dial()
	for _, x := range []struct {
		version         int16
		wait, pause, ms int32
	}{{13, 60_000, 250, 250}, {13, 80, 80, 80}, {4, 80, 80, 80}, {13, 0, 0, 0}} {
		req := partitionsFetch(cluster.TopicID{9}, smallFetch+1, 0, finalSessionEpoch)
		if x.version == 4 {
			req.Version = 4
			req.Topics[0].Topic = "t"
		}
		req.MaxWaitMillis, req.MinBytes = x.wait, 1
		next := *req
		next.MaxWaitMillis = 0
		c.send(req)
		c.send(&next)
		first, second := <-came, <-came
		if got := second.Sub(first); got < time.Duration(x.pause)*time.Millisecond {
			t.Errorf("one that would wait %d ms comes again after %v", x.wait, got)
		}
		for i, want := range []int32{x.ms, 0} {
			if _, resp := c.answer(req); resp.(*kmsg.FetchResponse).ThrottleMillis != want {
				t.Errorf("version %d, answer %d: it is told to wait %d ms, not %d", x.version, i, resp.(*kmsg.FetchResponse).ThrottleMillis, want)
			}
		}
	}
	for name, p := range map[string]broker.FetchedPartition{
		"an error": {Code: cluster.CodeNotLeader}, "a divergence": {Diverged: true}, "a better replica": {Elsewhere: true}, "records": {Slice: storedLog(t, 1)(0)},
	} {
		parts[3] = p
		req := waiting(smallFetch + 1)
		req.MinBytes = 1
		c.send(req)
		<-came
		if _, resp := c.answer(req); resp.(*kmsg.FetchResponse).ThrottleMillis != 0 {
			t.Errorf("with %s it is told to wait %d ms", name, resp.(*kmsg.FetchResponse).ThrottleMillis)
		}
	}
}

// A Fetch that may not wait for records, or does not want to, takes its part among the large requests that are worked on, and gives it back before its answer waits for
// anybody (case 108).
func TestCase108_AFetchOfManyThatDoesNotWaitIsWork(t *testing.T) {
	d := openDoor(t, Config{})
	work := make(chan int64, 1)
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		work <- d.s.working.Held()
		return make([]broker.FetchedPartition, len(req.Partitions))
	}
	c := d.dial()
	for n, want := range map[int]int64{smallFetch: 0, smallFetch + 1: (smallFetch + 1) * fetchStructure} {
		req := waiting(n)
		req.MaxWaitMillis = 0
		c.send(req)
		if got := <-work; got != want {
			t.Errorf("%d partitions take %d bytes of work, want %d", n, got, want)
		}
		c.answer(req)
	}
	waitFor(t, "the release of everything", func() bool { return d.s.working.Held() == 0 && d.s.parked.Held() == 0 })
}

// A partition that a request names again and again is read once, where it comes first and as it comes last, as with Apache Kafka: by name, by id, and in sessions (case 108).
func TestCase108_APartitionNamedAgainIsReadOnce(t *testing.T) {
	d := openSessions(t, Config{})
	twice := func(version int16, session, epoch int32) *kmsg.FetchRequest {
		req := oneTopicFetch(version, session, epoch)
		first, other := kmsg.NewFetchRequestTopicPartition(), kmsg.NewFetchRequestTopicPartition()
		first.FetchOffset, first.PartitionMaxBytes, other.Partition = 1, 10, 1
		last := first
		last.FetchOffset, last.PartitionMaxBytes = 3, 20
		req.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{first, other}
		again := kmsg.NewFetchRequestTopic() // the topic comes again too
		again.Topic, again.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		again.Partitions = []kmsg.FetchRequestTopicPartition{last}
		req.Topics = append(req.Topics, again)
		return req
	}
	check := func(what string, resp *kmsg.FetchResponse) {
		t.Helper()
		if len(d.asked) != 2 || d.asked[0].Partition != 0 || d.asked[0].Offset != record.Offset(3) || d.asked[0].MaxBytes != 20 || d.asked[1].Partition != 1 {
			t.Errorf("%s: the broker is asked for %+v", what, d.asked)
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 || resp.Topics[0].Partitions[0].Partition != 0 {
			t.Errorf("%s: answered %+v", what, resp.Topics)
		}
	}
	check("by name", d.ask(twice(4, 0, finalSessionEpoch)))
	check("by id", d.ask(twice(13, 0, finalSessionEpoch)))
	opened := d.ask(twice(13, 0, initialSessionEpoch))
	check("a new session", opened)
	if d.s.sessions.partitions != 2 {
		t.Errorf("%d partitions are remembered", d.s.sessions.partitions)
	}
	d.code = func(broker.FetchPartition) cluster.Code { return cluster.CodeNotLeader } // news of both
	check("a session goes on", d.ask(twice(13, opened.SessionID, 1)))
}
