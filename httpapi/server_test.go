package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/meter"
)

// readiness is a broker's answer.
type readiness struct {
	ok  bool
	why string
}

func (r *readiness) Ready() (bool, string) { return r.ok, r.why }

// start serves over loopback and returns a function that gets a path.
func start(t *testing.T, ready Readiness, sets ...*meter.Set) func(path string) (int, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Version: "1.2.3", Revision: "abc"}, ready, sets...)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func(path string) (int, string) {
		resp, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func TestHealth(t *testing.T) {
	ready := &readiness{why: "the broker is not registered"}
	get := start(t, ready)
	check := func(path string, code int, want string) {
		t.Helper()
		if gotCode, got := get(path); gotCode != code || strings.TrimSpace(got) != want {
			t.Errorf("%s: %d %q, want %d %q", path, gotCode, got, code, want)
		}
	}
	check("/healthz", 200, "ok")
	check("/readyz", 503, "not ready: the broker is not registered")
	ready.ok = true
	check("/readyz", 200, "ready")
	check("/debug/pprof/", 404, "404 page not found")
}

func TestMetrics(t *testing.T) {
	a, b := meter.NewSet(), meter.NewSet()
	a.Counter("moldau_requests_total", "Requests.", "api", "error").With("fetch", "none").Add(3)
	b.Counter("moldau_requests_total", "Requests.", "api", "error").With("fetch", "none").Add(4)
	b.Counter("moldau_requests_total", "Requests.", "api", "error").With("produce", "none").Add(1)
	b.Gauge("moldau_connections", "Connections.", "listener").With("grpc").Set(2)
	h := a.Histogram("moldau_request_duration_seconds", "Time.", []float64{0.1, 1}, "api").With("fetch")
	h.Observe(0.05)
	h.Observe(0.5)
	h.Observe(7)
	b.Gauge("moldau_odd", "first", "x").With("1").Set(1)
	a.Gauge("moldau_odd", "second", "y").With("1").Set(1)
	code, body := start(t, &readiness{ok: true}, a, b, nil)("/metrics")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for _, line := range []string{
		`moldau_requests_total{api="fetch",error="none"} 7`,
		`moldau_requests_total{api="produce",error="none"} 1`,
		`moldau_connections{listener="grpc"} 2`,
		`moldau_request_duration_seconds_bucket{api="fetch",le="0.1"} 1`,
		`moldau_request_duration_seconds_bucket{api="fetch",le="1"} 2`,
		`moldau_request_duration_seconds_bucket{api="fetch",le="+Inf"} 3`,
		`moldau_request_duration_seconds_sum{api="fetch"} 7.55`,
		`moldau_request_duration_seconds_count{api="fetch"} 3`,
		`# TYPE moldau_request_duration_seconds histogram`,
		`# HELP moldau_connections Connections.`,
		`moldau_odd{y="1"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, part := range []string{`moldau_build_info{go_version="go`, `revision="abc",version="1.2.3"} 1`, "go_goroutines ", `moldau_odd{y="1"}`} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s", part)
		}
	}
	if strings.Contains(body, `moldau_odd{x=`) {
		t.Error("a contradicting family was shown")
	}
}

// TestStopCutsIdleStrangers: a connection on which nobody ever spoke does not hold up a stop.
func TestStopCutsIdleStrangers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{}, &readiness{ok: true})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stranger, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz") // the stranger was accepted before
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestCase107_ConnectionsAreBounded: a connection above the bound is closed at once, and those that wait have their place again when one goes.
func TestCase107_ConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	s := New(Config{MaxConnections: 2, Log: slog.New(slog.NewTextHandler(&text, nil))}, &readiness{ok: true})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ask := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
		return err
	}
	for i := range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := ask(c); (err == nil) != (i < 2) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	s.http.ErrorLog.Print("http: something is wrong")
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if !strings.Contains(text.String(), `msg="http: a connection failed" error="http: something is wrong"`) {
		t.Errorf("the log: %q", text.String())
	}
}
