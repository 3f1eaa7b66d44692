package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/budget"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// dial connects as any gRPC client would, with the generated code and its own codec.
func dial(t testing.TB, endpoint string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(endpoint, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// batchOf builds a batch of values.
func batchOf(t testing.TB, opts record.BuilderOptions, values ...[]byte) []byte {
	t.Helper()
	b := record.NewBuilder(opts)
	for _, v := range values {
		b.Append(time.Now().UnixMilli(), []byte("k"), v, nil)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

func TestProduceStream_RefusesPerBatchAndGoesOn(t *testing.T) {
	c := newFakeCluster(t, 2)
	c.createTopic("t", 2, cluster.ConfigEntry{Key: "max.message.bytes", Value: "100000"})
	c.createTopic("compact", 1, cluster.ConfigEntry{Key: "cleanup.policy", Value: "compact"})
	c.brokers[0].door.cfg.MaxDecompressedBytes = 1 << 20
	stream, err := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0])).Produce(within(t))
	if err != nil {
		t.Fatal(err)
	}
	good := batchOf(t, record.BuilderOptions{}, []byte("v"))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	keyless := record.NewBuilder(record.BuilderOptions{})
	keyless.Append(time.Now().UnixMilli(), nil, []byte("v"), nil)
	nokey, _ := keyless.Build()
	old := record.NewBuilder(record.BuilderOptions{})
	old.Append(time.Now().Add(48*time.Hour).UnixMilli(), nil, nil, nil)
	future, _ := old.Build()
	tests := []struct {
		name string
		req  *moldauv1.ProduceRequest
		want cluster.Code
	}{
		{"good", &moldauv1.ProduceRequest{Topic: "t", Batch: good}, cluster.CodeNone},
		{"other leader", &moldauv1.ProduceRequest{Topic: "t", Partition: 1, Batch: good}, cluster.CodeNotLeader},
		{"no topic", &moldauv1.ProduceRequest{Batch: good}, cluster.CodeInvalidRequest},
		{"bad id", &moldauv1.ProduceRequest{TopicId: "x", Batch: good}, cluster.CodeInvalidRequest},
		{"unknown topic", &moldauv1.ProduceRequest{Topic: "nope", Batch: good}, cluster.CodeUnknownTopic},
		{"unknown partition", &moldauv1.ProduceRequest{Topic: "t", Partition: 9, Batch: good}, cluster.CodeUnknownTopic},
		{"no batch", &moldauv1.ProduceRequest{Topic: "t"}, cluster.CodeInvalidRequest},
		{"two batches", &moldauv1.ProduceRequest{Topic: "t", Batch: slices.Concat(good, good)}, cluster.CodeInvalidRecord},
		{"half a batch", &moldauv1.ProduceRequest{Topic: "t", Batch: good[:len(good)-1]}, cluster.CodeInvalidRecord},
		{"bad checksum", &moldauv1.ProduceRequest{Topic: "t", Batch: flipped}, cluster.CodeCorrupt},
		{"too large", &moldauv1.ProduceRequest{Topic: "t", Batch: batchOf(t, record.BuilderOptions{}, make([]byte, 100001))}, cluster.CodeTooLarge},
		{"bomb (case 104)", &moldauv1.ProduceRequest{Topic: "t", Batch: batchOf(t, record.BuilderOptions{Codec: record.CodecGzip}, make([]byte, 2<<20))}, cluster.CodeTooLarge},
		{"transactional", &moldauv1.ProduceRequest{Topic: "t", Batch: batchOf(t, record.BuilderOptions{ProducerID: 1, Transactional: true}, nil)}, cluster.CodeTransactional},
		{"no key", &moldauv1.ProduceRequest{Topic: "compact", Batch: nokey.Bytes()}, cluster.CodeInvalidRecord},
		{"far future (case 98)", &moldauv1.ProduceRequest{Topic: "t", Batch: future.Bytes()}, cluster.CodeInvalidTimestamp},
		{"acks", &moldauv1.ProduceRequest{Topic: "t", Batch: good, Acks: 77}, cluster.CodeInvalidRequest},
		{"good again", &moldauv1.ProduceRequest{Topic: "t", Batch: batchOf(t, record.BuilderOptions{Codec: record.CodecZstd}, []byte("v"))}, cluster.CodeNone},
	}
	for i, test := range tests {
		test.req.ClientSeq = uint64(100 + i)
		if err := stream.Send(test.req); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	results := map[uint64]*moldauv1.ProduceResult{}
	var window int64
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		window = max(window, resp.GetWindowBytes())
		for _, r := range resp.GetResults() {
			results[r.GetClientSeq()] = r
		}
	}
	if window != int64(DefaultConfig().WindowBytes) {
		t.Errorf("window %d", window)
	}
	next := int64(0)
	for i, test := range tests {
		r := results[uint64(100+i)]
		if r == nil || r.GetError().GetCode() != wireCode(test.want) {
			t.Errorf("%s: %v, want %s", test.name, r, test.want)
			continue
		}
		if test.want == cluster.CodeNone {
			if r.GetBaseOffset() != next {
				t.Errorf("%s: offset %d, want %d", test.name, r.GetBaseOffset(), next)
			}
			next++
		} else if r.GetBaseOffset() != -1 || r.GetError().GetMessage() == "" {
			t.Errorf("%s: %v", test.name, r)
		}
	}
}

func TestProduceStream_WindowHoldsTheClientBack(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	c.brokers[0].door.cfg.WindowBytes = 1000
	held := make(chan struct{}, 100)
	c.produceFault = func(*fakeBroker, *broker.ProduceRequest) fault {
		held <- struct{}{}
		return fault{drop: true}
	}
	stream, err := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0])).Produce(within(t))
	if err != nil {
		t.Fatal(err)
	}
	batch := batchOf(t, record.BuilderOptions{}, make([]byte, 400))
	for range 10 {
		if err := stream.Send(&moldauv1.ProduceRequest{Topic: "t", Batch: batch}); err != nil {
			t.Fatal(err)
		}
	}
	<-held
	<-held // two fit; the third has to wait for an answer that never comes
	select {
	case <-held:
		t.Error("a third batch was taken")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestFetchStream_AsAnyClient(t *testing.T) {
	c := newFakeCluster(t, 1)
	id := c.createTopic("t", 2)
	log := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0]))
	ctx := within(t)
	stream, err := log.Fetch(ctx, &moldauv1.FetchRequest{MaxWaitMs: 20, Partitions: []*moldauv1.FetchPartition{
		{Topic: "t", Partition: 0}, {TopicId: id.String(), Partition: 1, Offset: 5}, {Topic: "t", Partition: 9},
	}})
	if err != nil {
		t.Fatal(err)
	}
	refused := map[int32]cluster.Code{}
	sent, idle := false, 0
	for {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case resp.GetError() != nil:
			refused[resp.GetIndex()] = codeNamed(trimCode(resp.GetError().GetCode()))
		case len(resp.GetBatches()) > 0:
			b, err := record.Parse(resp.GetBatches())
			if err != nil || b.VerifyCRC() != nil || b.BaseOffset() != 0 || resp.GetIndex() != 0 || resp.GetHighWatermark() != 1 || resp.GetTopicId() != id.String() {
				t.Errorf("%v, %v", resp, err)
			}
			if refused[1] != cluster.CodeOffsetOutOfRange || refused[2] != cluster.CodeUnknownTopic {
				t.Errorf("refused %v", refused)
			}
			return
		default:
			if idle++; idle == 3 && !sent { // an idle stream shows that it lives
				sent = true
				if _, err := log.ProduceRecords(ctx, &moldauv1.ProduceRecordsRequest{Topic: "t", Partition: new(int32), Records: []*moldauv1.Record{{}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestDoor_HealthAndReflection(t *testing.T) {
	c := newFakeCluster(t, 1)
	cc := dial(t, c.endpoints()[0])
	for _, name := range services {
		w, err := healthpb.NewHealthClient(cc).Watch(within(t), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		for { // the first answer may come before the broker was asked
			resp, err := w.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if resp.GetStatus() == healthpb.HealthCheckResponse_SERVING {
				break
			}
		}
	}
	s, err := reflectpb.NewServerReflectionClient(cc).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Recv()
	if err != nil || len(resp.GetListServicesResponse().GetService()) < 4 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestDoor_MessageAboveTheLimit(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cc := dial(t, c.endpoints()[0])
	_, err := moldauv1.NewLogServiceClient(cc).ProduceRecords(within(t), &moldauv1.ProduceRecordsRequest{
		Topic: "t", Records: []*moldauv1.Record{{Value: make([]byte, 101<<20)}},
	})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("%v", err)
	}
}

func TestDoor_PanicIsAnErrorOfOneCall(t *testing.T) {
	c := newFakeCluster(t, 1)
	handler := func(context.Context, any) (any, error) { panic("a bug") }
	_, err := c.brokers[0].door.unary(within(t), nil, &grpc.UnaryServerInfo{FullMethod: "/moldau.v1.LogService/ListOffsets"}, handler)
	info, _ := details(status.Convert(err))
	if status.Code(err) != codes.Internal || info.GetReason() != "UNKNOWN" || strings.Contains(err.Error(), "a bug") {
		t.Errorf("%v", err)
	}
}

func TestForward_OnceOnly(t *testing.T) {
	c := newFakeCluster(t, 2)
	c.createTopic("t", 2)
	log := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0]))
	req := &moldauv1.FetchRecordsRequest{Topic: "t", Partition: 1} // led by broker 1
	if _, err := log.FetchRecords(within(t), req); err != nil {
		t.Errorf("forwarded: %v", err)
	}
	_, err := log.FetchRecords(metadata.AppendToOutgoingContext(within(t), hopKey, "1"), req)
	info, _ := details(status.Convert(err))
	if info.GetReason() != "NOT_LEADER" || info.GetMetadata()["leader"] != "1" || info.GetMetadata()["endpoint"] != c.endpoints()[1] {
		t.Errorf("forwarded twice: %v with %v", err, info)
	}
}

func TestStop_StreamsGoElsewhere(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cc := dial(t, c.endpoints()[0])
	log := moldauv1.NewLogServiceClient(cc)
	produce, err := log.Produce(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := produce.Recv(); err != nil { // the window
		t.Fatal(err)
	}
	fetch, err := log.Fetch(within(t), &moldauv1.FetchRequest{MaxWaitMs: 20, Partitions: []*moldauv1.FetchPartition{{Topic: "t"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch.Recv(); err != nil {
		t.Fatal(err)
	}
	join, err := moldauv1.NewGroupServiceClient(cc).Join(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := join.Send(&moldauv1.JoinRequest{Group: "g", Topics: []string{"t"}, Owned: &moldauv1.OwnedPartitions{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := join.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := c.brokers[0].door.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	for name, recv := range map[string]func() error{
		"produce": func() error { _, err := produce.Recv(); return err },
		"fetch":   func() error { _, err := fetch.Recv(); return err },
		"join":    func() error { _, err := join.Recv(); return err },
	} {
		var err error
		for err == nil { // what was on its way comes first
			err = recv()
		}
		if info, retry := details(status.Convert(err)); info.GetReason() != "SHUTTING_DOWN" || retry == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBudget(t *testing.T) {
	b := budget.New(100)
	ctx := context.Background()
	if err := b.Take(ctx, 500); err != nil { // alone, anything passes
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Take(short, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("taken above the limit: %v", err)
	}
	taken := make(chan error)
	go func() { taken <- b.Take(ctx, 60) }()
	b.Give(500)
	if err := <-taken; err != nil {
		t.Error(err)
	}
	emptied := make(chan error)
	go func() { emptied <- b.Empty(ctx) }()
	b.Give(60)
	if err := <-emptied; err != nil {
		t.Error(err)
	}
}

func TestEndpoint_OfABrokerThatAdvertisesNoHost(t *testing.T) {
	c := newFakeCluster(t, 1)
	want := c.endpoints()[0]
	_, port, _ := net.SplitHostPort(want)
	for _, host := range []string{"", "0.0.0.0", "::"} {
		c.change(func(txn *cluster.Txn) {
			b, _ := txn.Broker(0)
			changed := *b
			changed.Listeners = []cluster.Listener{{Name: "grpc", Host: host, Port: mustPort(port)}}
			txn.PutBroker(&changed)
		})
		d, err := moldauv1.NewAdminServiceClient(dial(t, want)).DescribeCluster(within(t), &moldauv1.DescribeClusterRequest{})
		if err != nil || d.GetBrokers()[0].GetEndpoint() != want {
			t.Errorf("host %q: %v, %v", host, d, err)
		}
	}
}

func mustPort(s string) int32 {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return int32(n)
}
