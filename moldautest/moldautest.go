// Package moldautest runs a whole broker inside a Go test: real ports on loopback (chosen by the kernel), real files in a temporary directory, gone when the test ends.
// It is for users' tests; the broker is the shipped one, and its goroutines end with the test.
package moldautest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/server"
)

// startTimeout and stopTimeout bound the life of a broker at its ends.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	readyPoll    = 2 * time.Millisecond
)

// Broker is a running broker.
type Broker struct {
	// Kafka, GRPC, Peer and HTTP are the addresses of its ports, host:port.
	Kafka, GRPC, Peer, HTTP string
	// Listeners are the addresses of the named Kafka listeners, by name.
	Listeners map[string]string
}

// Start runs one broker for the length of the test. It serves when Start returns. Topics are created when first asked for, as in `moldau dev`; adjust may change
// any setting before the start.
func Start(t testing.TB, adjust ...func(*config.Config)) *Broker {
	t.Helper()
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Kafka.Addr, cfg.GRPC.Addr, cfg.Peer.Addr, cfg.HTTP.Addr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Topic.AutoCreate = true
	cfg.Shutdown.Drain = time.Second
	for _, f := range adjust {
		f(&cfg)
	}
	s, err := server.New(cfg, "test", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatalf("moldautest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("moldautest: stop: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatalf("moldautest: %v", err)
	}
	awaitReady(t, ctx, s)
	a := s.Addresses()
	return &Broker{Kafka: a.Kafka, GRPC: a.GRPC, Peer: a.Peer, HTTP: a.HTTP, Listeners: a.Listeners}
}

func awaitReady(t testing.TB, ctx context.Context, s *server.Server) {
	t.Helper()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		ready, reason := s.Ready()
		if ready {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("moldautest: not ready: %s", reason)
		}
	}
}
