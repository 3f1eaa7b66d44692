package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// Clients that mean no good, or that are too many: what one of them can hold is bounded, and the others go on.

// only is the one connection that the door has.
func (d *door) only() *conn {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for c := range d.s.conns {
		return c
	}
	return nil
}

// A client that asks and does not read fills its own bound and no more; when it reads at last, every answer comes, in order (case 108). Held are at most the
// bound and the answer that was let in last.
func TestCase108_AnswersThatWaitAreBounded(t *testing.T) {
	const bound, requests, partitions = 256 << 10, 600, 1000
	unknown := func() *kmsg.FetchRequest { // its answer has errors and no records
		return partitionsFetch(cluster.TopicID{9}, partitions, 0, finalSessionEpoch)
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 9
	for i := range partitions {
		meta.Topics = append(meta.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(fmt.Sprint("a-long-name-of-a-topic-", i))})
	}
	for name, req := range map[string]kmsg.Request{"fetch": unknown(), "metadata": meta} {
		d := openDoor(t, Config{MaxConnectionBytes: bound, MaxPipelined: requests})
		var most, handled atomic.Int64
		look := func() {
			if c := d.only(); c != nil {
				most.Store(max(most.Load(), c.waiting.Held(), c.asked.Held()))
			}
			handled.Add(1)
		}
		d.broker.onFetch = func(_ context.Context, r broker.FetchRequest) []broker.FetchedPartition {
			look()
			out := make([]broker.FetchedPartition, len(r.Partitions))
			for i := range out {
				out[i].Code = cluster.CodeUnknownTopic
			}
			return out
		}
		d.broker.onTopic = look
		c := d.dial()
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		sent := make(chan error, 1)
		go func() {
			f := kmsg.NewRequestFormatter()
			for i := range int32(requests) {
				if _, err := c.Write(f.AppendRequest(nil, req, i)); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		waitFor(t, "the bound", func() bool { return d.only() != nil && d.only().waiting.Held() > bound/2 })
		for i := range int32(requests) {
			if id, _ := c.frame(); id != i {
				t.Fatalf("%s: answer %d comes at place %d", name, id, i)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		if n := most.Load(); n > 2*bound || n < bound/4 {
			t.Errorf("%s: a connection held %d bytes, its bound is %d", name, n, bound)
		}
		waitFor(t, "the release of everything", func() bool { return d.only().waiting.Held() == 0 && d.only().asked.Held() == 0 && d.s.held.Held() == 0 })
	}
}

// crowd opens n connections to the door and has each do something.
func (d *door) crowd(n int, do func(c *client)) []*client {
	d.t.Helper()
	var out []*client
	for range n {
		c := d.dial()
		do(c)
		out = append(out, c)
	}
	return out
}

// Thousands of connections that are idle, stuck in a request, or take an answer slowly: each costs three goroutines and a bounded amount of memory, a normal client is
// answered meanwhile, and max.connections is the end of it (case 107).
func TestCase107_ManyConnections(t *testing.T) {
	const each, perConnection = 700, 64 << 10
	d := openDoor(t, Config{MaxConnections: 3*each + 1, MaxConnectionsPerAddress: 10 * each, MaxInFlightBytes: 2 << 20})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	ask := func(c *client) { c.send(apiVersionsRequest(0)) }
	idle := d.crowd(each, func(c *client) {
		ask(c)
		c.frame()
	})
	d.crowd(each, func(c *client) { // a request that never comes: more is announced than the door holds in all
		if _, err := c.Write([]byte{0x06, 0, 0, 0, 0, 0, 0, 9}); err != nil {
			t.Fatal(err)
		}
	})
	d.crowd(each, func(c *client) { ask(c) }) // the answer is never read
	normal := d.dial()
	large := produceRequest(t, strings.Repeat("x", 500_000), 1)
	for i := range 100 {
		ask(normal)
		normal.frame()
		normal.send(large)
		<-d.broker.came
		d.broker.batch(i).req.Release()
		d.broker.batch(i).done(broker.ProduceResult{LogAppendMs: -1})
		normal.frame()
	}
	waitFor(t, "all connections", func() bool {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		return len(d.s.conns) == 3*each+1
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := (runtime.NumGoroutine() - goroutines) / (3*each + 1); n > 3 {
		t.Errorf("%d goroutines for a connection", n)
	}
	used := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)
	t.Logf("%d bytes for a connection, both ends counted", used/(3*each+1))
	if used > 3*each*perConnection {
		t.Errorf("%d bytes for a connection", used/(3*each))
	}
	d.dial().closed() // one too many
	if n := d.s.meters.refused.With(listenerName, refusedTooMany).Value(); n != 1 {
		t.Errorf("%d connections are refused", n)
	}
	for _, c := range idle {
		c.Close()
	}
	waitFor(t, "the end of those that have gone", func() bool {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		return len(d.s.conns) == 2*each+1
	})
	c := d.dial() // there is room again
	ask(c)
	c.frame()
	if held := d.s.held.Held(); held != 0 { // of what was announced nothing has come
		t.Errorf("%d bytes are held", held)
	}
}

// A byte now and then does not keep a connection for ever: a megabyte of a request has FrameTimeout to come, however it comes.
func TestCase107_AByteNowAndThenDoesNotHelp(t *testing.T) {
	d := openDoor(t, Config{FrameTimeout: 100 * time.Millisecond})
	c := d.dial()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	head := binary.BigEndian.AppendUint32(nil, 1000)
	for i := 0; ; i++ {
		select {
		case <-ended:
			if i > 500 {
				t.Errorf("it took %d bytes", i)
			}
			return
		case <-tick.C:
			b := []byte{0}
			if i < len(head) {
				b = head[i : i+1]
			}
			_, _ = c.Write(b) // it fails when the door has closed
		}
	}
}

// A name that is repeated a thousand times is described once: otherwise a small request could ask for an answer without end (case 108).
func TestCase108_RepeatedNamesAreDescribedOnce(t *testing.T) {
	f := newFullBroker()
	f.producers = []broker.ProducerStatus{{ID: 1}}
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	for _, make := range []func(n int) kmsg.Request{
		func(n int) kmsg.Request {
			return &kmsg.MetadataRequest{Version: 9, Topics: slices.Repeat([]kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}, n)}
		},
		func(n int) kmsg.Request {
			return &kmsg.DescribeConfigsRequest{Version: 4, Resources: slices.Repeat([]kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}, n)}
		},
		func(n int) kmsg.Request {
			return &kmsg.DescribeGroupsRequest{Version: 5, Groups: slices.Repeat([]string{"g"}, n)}
		},
		func(n int) kmsg.Request {
			return &kmsg.OffsetFetchRequest{Version: 8, Groups: slices.Repeat([]kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}, n)}
		},
		func(n int) kmsg.Request {
			topic := kmsg.DescribeProducersRequestTopic{Topic: "t", Partitions: slices.Repeat([]int32{0}, n)}
			return &kmsg.DescribeProducersRequest{Topics: slices.Repeat([]kmsg.DescribeProducersRequestTopic{topic}, n)}
		},
		func(n int) kmsg.Request {
			return &kmsg.DescribeLogDirsRequest{Version: 4, Topics: slices.Repeat([]kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{0}}}, n)}
		},
	} {
		var size [2]int
		for i, n := range []int{1, 200} {
			req := make(n)
			c.send(req)
			_, body := c.frame()
			size[i] = len(body)
		}
		if size[0] != size[1] {
			t.Errorf("%T: %d bytes for a name, %d for 200 times the same", make(0), size[0], size[1])
		}
	}
}
