package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/meter"
)

// Config says what the door shows of the process.
type Config struct {
	// Version and Revision are those of the software, for moldau_build_info.
	Version, Revision string
	// MaxConnections bounds open connections, and MaxConnectionsPerAddress those of one address; more are closed at once. Defaults 256 and 128.
	MaxConnections, MaxConnectionsPerAddress int
	// Descriptors is how many the process may have open; at most one in 32 of them is for a connection here, and half of those for one address. Default no bound.
	Descriptors int
	// Log gets what goes wrong with connections. Default nobody.
	Log *slog.Logger
}

// Readiness says whether the broker serves, and if not why, for people. *broker.Broker and *server.Server have it.
type Readiness interface {
	Ready() (bool, string)
}

// Bounds of requests.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = time.Minute
	writeTimeout   = 30 * time.Second
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4 // at once; more are told to come back

	maxConnections           = 256
	maxConnectionsPerAddress = 128
)

// Server is the HTTP door of one process.
type Server struct {
	http   *http.Server
	ready  Readiness
	log    *slog.Logger // with a bound on lines that clients can cause
	limits conns.Limits
}

// New builds the door over what packages count in sets. nil sets are allowed.
func New(cfg Config, ready Readiness, sets ...*meter.Set) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(cfg),
		&exporter{sets: sets},
	)
	s := &Server{ready: ready, log: slog.New(slog.DiscardHandler), limits: limits(cfg)}
	if cfg.Log != nil {
		s.log = lograte.New(cfg.Log, lograte.Lines, time.Now)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Registry: registry, ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "moldau "+cfg.Version+"\n\n/metrics  what is counted, for Prometheus\n/healthz  the process lives\n/readyz   the broker serves")
	})
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(complaints{s.log}, "", 0),
	}
	return s
}

// Serve answers until Stop, which makes it return nil, or until the listener fails.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(conns.Listen(l, conns.Options{Limits: s.limits, Log: s.log})); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("httpapi: serve: %w", err)
	}
	return nil
}

// limits are the bounds on connections.
func limits(cfg Config) conns.Limits {
	l := conns.Limits{Whole: maxConnections, Each: maxConnectionsPerAddress}
	if cfg.MaxConnections > 0 {
		l.Whole = cfg.MaxConnections
	}
	if cfg.MaxConnectionsPerAddress > 0 {
		l.Each = cfg.MaxConnectionsPerAddress
	}
	if cfg.Descriptors > 0 {
		l = l.Within(cfg.Descriptors, conns.HTTPShare)
	}
	return l
}

// complaints are the lines that net/http would write to standard error.
type complaints struct{ log *slog.Logger }

func (c complaints) Write(line []byte) (int, error) {
	c.log.Warn("http: a connection failed", slog.String("error", strings.TrimSpace(string(line))))
	return len(line), nil
}

// Stop closes the door. Requests being served end first; when ctx ends before, their connections are cut, which is no error: whoever holds a connection
// open must not hold up a stop.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("httpapi: stop: %w", err)
	}
	return nil
}

// readyz tells load balancers and orchestrators whether to send clients here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	ready, why := s.ready.Ready()
	if ready {
		say(w, http.StatusOK, "ready")
		return
	}
	say(w, http.StatusServiceUnavailable, "not ready: "+why)
}

// say answers with a line of text. The client may be gone; nobody else wants to know.
func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}
