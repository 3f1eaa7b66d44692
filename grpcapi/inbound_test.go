package grpcapi

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/moldau-log/moldau/broker"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

var asRaw = grpc.ForceCodecV2(rawCodec{})

// TestCase108_AMessageThatDecodesToManyTimesItsSize: repeated messages of two bytes are refused before they are decoded, in every call, as is a message that is larger than its
// call can need. Other calls of the connection go on.
func TestCase108_AMessageThatDecodesToManyTimesItsSize(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cc := dial(t, c.endpoints()[0])
	empty := func(field byte, n int) []byte { return bytes.Repeat([]byte{field<<3 | 2, 0}, n/2) }
	for _, test := range []struct {
		method string
		body   []byte
		why    string
	}{
		{moldauv1.LogService_ListOffsets_FullMethodName, empty(1, 4<<20), "would take more than"},
		{moldauv1.LogService_ListOffsets_FullMethodName, empty(1, 20<<20), "above the bound of"},
		{moldauv1.LogService_ProduceRecords_FullMethodName, empty(6, 20<<20), "would take more than"},
		{moldauv1.LogService_ProduceRecords_FullMethodName, append([]byte{6<<3 | 2, 0x80, 0x80, 0x80, 5}, empty(4, 10<<20)...), "would take more than"}, // headers of one record
		{moldauv1.GroupService_CommitOffsets_FullMethodName, empty(5, 4<<20), "would take more than"},
		{moldauv1.AdminService_ElectLeaders_FullMethodName, empty(1, 4<<20), "would take more than"},
		{moldauv1.LogService_Fetch_FullMethodName, empty(1, 4<<20), "would take more than"},
		{moldauv1.GroupService_Join_FullMethodName, empty(7, 8<<20), "would take more than"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, test.method, asRaw)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(test.body); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		err = stream.RecvMsg(nil)
		runtime.ReadMemStats(&after)
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s with %d bytes: %v, want %q", test.method, len(test.body), err, test.why)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(4*len(test.body))+8<<20 {
			t.Errorf("%s: %d bytes allocated for %d", test.method, took, len(test.body))
		}
	}
	if _, err := moldauv1.NewLogServiceClient(cc).ProduceRecords(within(t), &moldauv1.ProduceRecordsRequest{Topic: "t", Records: []*moldauv1.Record{{Value: make([]byte, 1<<20)}}}); err != nil {
		t.Errorf("a call that means well: %v", err)
	}
	idle(t, c.brokers[0].door)
}

// idle checks that nothing is held, or parked, of any request.
func idle(t *testing.T, s *Server) {
	t.Helper()
	if r := s.rooms; r.received.Held()+r.working.Held()+r.producing.Held()+r.standing.Held() != 0 || len(s.inbound.parked) > 0 {
		t.Errorf("left: %d %d %d %d, %d parked", r.received.Held(), r.working.Held(), r.producing.Held(), r.standing.Held(), len(s.inbound.parked))
	}
}

// TestCase108_LargeRequestsTakeTurns: what large requests decode to is counted until their calls have ended; one that finds no room waits as long as its client does.
func TestCase108_LargeRequestsTakeTurns(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	s := c.brokers[0].door
	var mu sync.Mutex
	calls := 0
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == 1 {
			return fault{drop: true}
		}
		return fault{}
	}
	log := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0]))
	large := &moldauv1.ProduceRecordsRequest{Topic: "t", Records: []*moldauv1.Record{{Value: make([]byte, 200<<10)}}}
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := log.ProduceRecords(ctx, large)
		ended <- err
	}()
	waitUntil(t, func() bool { mu.Lock(); defer mu.Unlock(); return calls == 1 })
	held := s.rooms.producing.Held()
	if held < int64(proto.Size(large)) || s.rooms.received.Held() != 0 {
		t.Errorf("%d bytes are held for %d that are decoded", held, proto.Size(large))
	}
	if !s.rooms.producing.Try(s.cfg.MaxInFlightBytes - int(held)) {
		t.Fatal("there is no room")
	}
	second := make(chan error, 1)
	go func() {
		_, err := log.ProduceRecords(within(t), large)
		second <- err
	}()
	waitUntil(t, func() bool { return s.rooms.received.Held() > 0 })
	if _, err := log.ProduceRecords(within(t), &moldauv1.ProduceRecordsRequest{Topic: "t", Records: []*moldauv1.Record{{Value: make([]byte, 20<<10)}}}); err != nil {
		t.Errorf("a small call meanwhile: %v", err)
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	s.rooms.producing.Give(s.cfg.MaxInFlightBytes - int(held))
	// Without room to wait in, the answer is a refusal that says so.
	if !s.rooms.received.Try(s.cfg.MaxInFlightBytes / 2) {
		t.Fatal("something waits")
	}
	if _, err := log.ProduceRecords(within(t), large); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "try again") {
		t.Errorf("%v", err)
	}
	s.rooms.received.Give(s.cfg.MaxInFlightBytes / 2)
	waitUntil(t, func() bool { return s.rooms.producing.Held() == 0 })
	idle(t, s)
}

// TestCase108_ALargeListOfAStreamCounts: as long as the stream is there.
func TestCase108_ALargeListOfAStreamCounts(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	s := c.brokers[0].door
	req := &moldauv1.FetchRequest{MaxWaitMs: 20}
	for range 1000 {
		req.Partitions = append(req.Partitions, &moldauv1.FetchPartition{Topic: "t"})
	}
	ctx, cancel := context.WithCancel(within(t))
	stream, err := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0])).Fetch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if held := s.rooms.standing.Held(); held < int64(proto.Size(req)) || s.rooms.working.Held() != 0 {
		t.Errorf("%d bytes are held", held)
	}
	cancel()
	waitUntil(t, func() bool { return s.rooms.standing.Held() == 0 })
	idle(t, s)
}

// waitUntil waits for what other goroutines are about to do.
func waitUntil(t *testing.T, there func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); !there(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen")
		}
	}
}
