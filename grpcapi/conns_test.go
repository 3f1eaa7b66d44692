package grpcapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/internal/meter"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// openWith opens a door of its own over the first broker of a fake cluster.
func openWith(t testing.TB, c *fakeCluster, cfg Config) (addr string, set *meter.Set) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	set = meter.NewSet()
	s := newServer(cfg, c.brokers[0], c.brokers[0].groups, set, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // at once
		_ = s.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), set
}

// metric is the value of a series.
func metric(set *meter.Set, name string, labels ...string) float64 {
	for _, f := range set.Snapshot() {
		for _, s := range f.Samples {
			if f.Name == name && strings.Join(s.LabelValues, ",") == strings.Join(labels, ",") {
				return s.Value
			}
		}
	}
	return -1
}

// TestCase107_ConnectionsOfTheNativeDoorAreBounded: idle connections above a quarter of the descriptors, or half of that from one address, are closed at once and counted;
// when some go there is room again.
func TestCase107_ConnectionsOfTheNativeDoorAreBounded(t *testing.T) {
	c := newFakeCluster(t, 1)
	const each = 10
	addr, set := openWith(t, c, Config{Descriptors: 2 * each * 4})
	var open []net.Conn
	for range each {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
		var settings [9]byte
		if _, err := io.ReadFull(conn, settings[:]); err != nil { // the server speaks first
			t.Fatal(err)
		}
	}
	extra, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if n, err := extra.Read(make([]byte, 1)); err == nil {
		t.Errorf("one more is served: %d bytes", n)
	}
	if refused, open := metric(set, "moldau_connections_refused_total", "grpc", "max_connections_per_ip"), metric(set, "moldau_connections", "grpc"); refused != 1 || open != each {
		t.Errorf("%v refused, %v open", refused, open)
	}
	for _, conn := range open {
		conn.Close()
	}
	// gRPC's client comes again until it is taken.
	if _, err := moldauv1.NewLogServiceClient(dial(t, addr)).InitProducerId(within(t), &moldauv1.InitProducerIdRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}
