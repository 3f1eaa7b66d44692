package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/moldau-log/moldau/internal/admission"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/meter"
)

// acceptPause is the wait after a failed accept, which mostly means that descriptors have run out.
const acceptPause = 50 * time.Millisecond

// Server is the Kafka door of one broker.
type Server struct {
	cfg       Config
	broker    Backend
	groups    Groups
	log       *slog.Logger
	meters    *meters
	apis      map[int16]api
	held      *budget.Budget // request frames of all connections
	working   *budget.Budget // structure of large requests that are worked on
	producing *budget.Budget // the same of Produce requests
	parked    *budget.Budget // partitions that large Fetches wait for
	answers   *budget.Budget // encoded answers of those that let them pile up
	fetched   *budget.Budget // records of fetch answers on their way
	sessions  *fetchSessions
	buffers   *buffers
	software  *regexp.Regexp // what a client may call itself
	gateway   net.IP         // the default gateway of this host or container, if there is one

	ctx    context.Context // ended by Stop: requests that wait are cut off
	cancel context.CancelFunc
	wg     sync.WaitGroup // accepting and every connection

	mu        sync.Mutex // guards what follows
	stopping  bool
	listeners []net.Listener
	conns     map[*conn]struct{}
	addresses map[string]int // open connections by the client's IP
}

// New builds the door of a broker. Serve opens it.
func New(cfg Config, b Broker, set *meter.Set, log *slog.Logger) *Server {
	return newServer(cfg, b, b.Groups(), set, log)
}

func newServer(cfg Config, b Backend, g Groups, set *meter.Set, log *slog.Logger) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, broker: b, groups: g, log: lograte.New(log, lograte.Lines, cfg.Now), apis: table(), held: budget.New(cfg.MaxInFlightBytes), working: budget.New(workingBytes), producing: budget.New(workingBytes), parked: budget.New(parkedPartitions), answers: budget.New(cfg.MaxInFlightBytes), fetched: budget.New(cfg.MaxInFlightBytes),
		buffers: new(buffers), conns: map[*conn]struct{}{}, addresses: map[string]int{},
	}
	start := time.Now()
	s.sessions = newFetchSessions(cfg.MaxFetchSessions, cfg.MaxSessionPartitions, func() time.Duration { return time.Since(start) })
	s.software = softwareName()
	s.meters = newMeters(set, s.apis)
	s.gateway = defaultGateway()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// admission is what looks at the batches of one goroutine.
func (s *Server) admission() *admission.Checker {
	return admission.NewChecker(admission.Config{Image: s.broker.Image, MaxDecompressed: s.cfg.MaxDecompressedBytes, Memory: s.cfg.Memory, Now: s.cfg.Now})
}

// Serve accepts connections until Stop, which makes it return nil, or until the listener fails.
func (s *Server) Serve(l net.Listener) error {
	return s.ServeListener(Listener{Name: listenerName, Auto: s.cfg.AutoAdvertise}, l)
}

// ServeListener is Serve for one of several listeners: clients that come through it are told the addresses that brokers have registered under its name.
func (s *Server) ServeListener(as Listener, l net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.open(as, c)
		case s.ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("kafka: serve: %w", err)
		default:
			s.log.Warn("kafka: a connection could not be accepted", slog.Any("error", err))
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
				return nil
			}
		}
	}
}

// open starts a connection, or closes it when there are too many.
func (s *Server) open(as Listener, nc net.Conn) {
	address, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		address = nc.RemoteAddr().String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := s.refusal(address); reason != "" {
		s.meters.refused.With(as.Name, reason).Inc()
		nc.Close()
		return
	}
	c := newConn(s, as, nc)
	s.conns[c] = struct{}{}
	s.addresses[address]++
	s.meters.connections.With(as.Name).Add(1)
	s.wg.Go(func() {
		c.run()
		s.closed(c, address)
	})
}

// refusal says why a connection of an address cannot be taken; empty if it can. The lock is held.
func (s *Server) refusal(address string) string {
	whole, each := s.connectionLimits()
	switch {
	case s.stopping:
		return refusedStopping
	case len(s.conns) >= whole:
		return refusedTooMany
	case s.addresses[address] >= each:
		return refusedAddress
	}
	return ""
}

// connectionLimits are the bounds of the door, or what max.connections and max.connections.per.ip say if that is less.
func (s *Server) connectionLimits() (whole, each int) {
	img, id := s.broker.Image(), s.broker.ID()
	whole = min(s.cfg.MaxConnections, int(img.BrokerInt(id, "max.connections", math.MaxInt32)))
	each = min(s.cfg.MaxConnectionsPerAddress, int(img.BrokerInt(id, "max.connections.per.ip", math.MaxInt32)))
	return whole, each
}

func (s *Server) closed(c *conn, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.addresses[address]--; s.addresses[address] == 0 {
		delete(s.addresses, address)
	}
	s.meters.connections.With(c.listener.Name).Add(-1)
}

// Stop ends the door: nothing more is accepted or read, requests under way are answered, waiting ones at once. When ctx ends first, connections are cut
// off. It may be called more than once.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.cancel()
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.stopReading()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.net.Close()
	}
	s.mu.Unlock()
	<-done
	return fmt.Errorf("kafka: connections were cut off: %w", ctx.Err())
}
