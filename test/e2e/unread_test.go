package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// TestCase108_AnswersThatNobodyTakes: over gRPC, many streams and many single calls ask for records, each for much, and read nothing of what they get. The broker holds
// a bounded part of it, and a consumer that means well goes on: those that take nothing give way.
func TestCase108_AnswersThatNobodyTakes(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	b := c.Brokers[0]
	c.Must("topic", "create", "target", "-p", "1")
	c.Must("topic", "create", "numbers", "-p", "1")
	fill, err := moldauv1.NewLogServiceClient(dial(t, b.GRPC)).Produce(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 900<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	batch := goodBatch(t, record.CodecNone, noise)
	for range 80 {
		if e := exchange(t, fill, batch); e != nil {
			t.Fatal(e)
		}
	}
	good := b.Client(t)
	read := consume(t, good, "numbers")
	said := 0
	say := func(n int) {
		for range n {
			if err := good.ProduceSync(patient(t), value("numbers", 0, "v")); err != nil {
				t.Fatal(err)
			}
			said++
		}
		read.waitFor(t, said)
	}
	say(50)

	everything := &moldauv1.FetchRequest{MaxBytes: 100 << 20, Partitions: []*moldauv1.FetchPartition{{Topic: "target"}}}
	plain := &moldauv1.FetchRecordsRequest{Topic: "target", MaxRecords: 1000}
	start := time.Now()
	var greedy []*grpc.ClientConn
	for method, req := range map[string]any{"Fetch": everything, "FetchRecords": plain} {
		cc := dial(t, b.GRPC, grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
		for range unreadCalls {
			neverRead(t, cc, method, req)
		}
		greedy = append(greedy, cc)
	}
	say(50)
	for _, cc := range greedy {
		if !cc.WaitForStateChange(patient(t), connectivity.Ready) {
			t.Error("the broker keeps the connection of a client that takes nothing, while others wait")
		}
	}
	say(50)
	t.Logf("%v from the first of the calls until the last of those that take nothing was gone", time.Since(start))
	peak := b.peakMemory(t)
	t.Logf("the broker's largest size was %d MiB", peak>>20)
	if peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
}

// unreadCalls is the number of calls of each kind.
const unreadCalls = 400

// neverRead makes a call and leaves its answer where it is. A broker that has closed the connection meanwhile is not asked again.
func neverRead(t *testing.T, cc *grpc.ClientConn, method string, req any) {
	s, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/moldau.v1.LogService/"+method)
	if err != nil {
		return
	}
	if s.SendMsg(req) == nil {
		_ = s.CloseSend()
	}
}

// reading is a consumer that reads one partition from the start.
type reading struct{ count atomic.Int64 }

// consume begins one, which ends with the test.
func consume(t *testing.T, cl *client.Client, topic string) *reading {
	t.Helper()
	k, err := cl.NewConsumer(client.WithPartitions(map[client.TopicPartition]client.Start{{Topic: topic, Partition: 0}: client.FromStart()}))
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range k.Records(ctx) {
			if err != nil {
				return
			}
			r.count.Add(1)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		k.Close()
	})
	return r
}

// waitFor waits until n records have been read.
func (r *reading) waitFor(t *testing.T, n int) {
	t.Helper()
	Eventually(t, func() error {
		if got := r.count.Load(); got < int64(n) {
			return fmt.Errorf("%d records read, want %d", got, n)
		}
		return nil
	})
}
