package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/replication/fetcher"
)

// Bounds of a Peer.
const (
	maxPending  = 128                    // connections before their hello is accepted
	maxConns    = 4096                   // open connections, both directions
	acceptPause = 100 * time.Millisecond // after a failed accept (out of file descriptors)
)

// timing is how long things may take. Tests shorten it.
type timing struct {
	handshake time.Duration // to connect, and again for the hellos
	ping      time.Duration // an end that has written nothing for this long says that it lives
	dead      time.Duration // an end that has heard nothing for this long closes
	write     time.Duration // one write, to a peer that takes nothing
}

var defaultTiming = timing{handshake: 3 * time.Second, ping: time.Second, dead: 3 * time.Second, write: 10 * time.Second}

// ControlHandler answers requests to this broker's controller. Several run at once; ctx ends when the caller stops waiting. A *cluster.Error
// reaches the caller as it is, any other error as its text under CodeUnknown.
type ControlHandler func(ctx context.Context, req controller.Request) (controller.Response, error)

// ReplicationHandler serves one replication stream of a follower; the connection ends when it returns.
type ReplicationHandler func(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s fetcher.LeaderStream)

// ForwardHandler answers a request of package broker, whose encoding this package does not know. Errors travel as those of ControlHandler.
type ForwardHandler func(ctx context.Context, from cluster.BrokerID, kind uint8, payload []byte) ([]byte, error)

// Handlers are the users of incoming streams. A nil one refuses its stream type as not ready.
type Handlers struct {
	Control     ControlHandler
	Replication ReplicationHandler
	Forward     ForwardHandler
}

// Config says how a Peer listens and who it is.
type Config struct {
	// ListenAddr is the address of the peer port, host:port. Ignored when Listener is set.
	ListenAddr string
	// Listener, if set, is taken over by the Peer.
	Listener net.Listener
	// Self returns who we are now. It is asked for every hello, because the cluster id becomes known after the start. It must not block.
	Self func() Identity
	// Resolve says where a broker's peer port is; false when it is unknown. It must not block.
	Resolve func(cluster.BrokerID) (controller.Endpoint, bool)
	// ServerTLS and ClientTLS wrap accepted and dialled connections before the hello, when set.
	ServerTLS, ClientTLS *tls.Config
	// MaxFrame bounds a control or forward frame in bytes, 16 MiB if zero.
	MaxFrame int
	// MaxData bounds a replication data frame in bytes, 128 MiB if zero. It must exceed the largest batch that a topic allows.
	MaxData int
	// Meter gets the counters of stats.go; nil exports nothing.
	Meter *meter.Set
	// Log takes refusals, at a bounded rate; slog.Default() if nil.
	Log *slog.Logger

	timing timing
}

func (c Config) withDefaults() Config {
	if c.MaxFrame == 0 {
		c.MaxFrame = 16 << 20
	}
	if c.MaxData == 0 {
		c.MaxData = 128 << 20
	}
	if c.timing == (timing{}) {
		c.timing = defaultTiming
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Peer is this broker's end of every connection to other brokers. All methods are safe on any goroutine.
type Peer struct {
	cfg      Config
	listener net.Listener
	handlers atomic.Pointer[Handlers]
	raft     atomic.Pointer[raftLayer] // nil: there is none
	pending  chan struct{}             // a slot per connection whose hello is not accepted
	pool     *bufferPool
	refusing *refusing
	callers  *callers
	stats    *counters

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the Peer

	mu     sync.Mutex // guards the two below
	conns  map[net.Conn]struct{}
	closed bool
}

// New listens and accepts. Streams of a type without handler are refused as not ready until SetHandlers gives one; Raft until its transport accepts on a StreamLayer.
func New(cfg Config) (*Peer, error) {
	cfg = cfg.withDefaults()
	cfg.Log = lograte.New(cfg.Log, lograte.Lines, time.Now) // strangers may come by the thousand
	if cfg.Self == nil || cfg.Resolve == nil {
		return nil, errors.New("peer: Config needs Self and Resolve")
	}
	l := cfg.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", cfg.ListenAddr); err != nil {
			return nil, fmt.Errorf("peer: listen on %s: %w", cfg.ListenAddr, err)
		}
	}
	p := &Peer{
		cfg:      cfg,
		listener: l,
		pending:  make(chan struct{}, maxPending),
		pool:     newBufferPool(),
		refusing: newRefusing(time.Now),
		conns:    make(map[net.Conn]struct{}),
	}
	p.stats = newCounters(cfg.Meter, p.open)
	p.handlers.Store(&Handlers{})
	p.callers = newCallers(p)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// SetHandlers replaces the handlers of incoming streams; streams that run keep the ones they have, except that each control and forward
// request goes to the newest.
func (p *Peer) SetHandlers(h Handlers) { p.handlers.Store(&h) }

// Addr is the address that the peer port is bound to.
func (p *Peer) Addr() net.Addr { return p.listener.Addr() }

// Refusing returns the brokers whose peer port has refused two connections at least 100 ms apart, each once per outage: it is returned again only
// after it has answered in between. A caller that cannot deliver the answer keeps it.
func (p *Peer) Refusing() []cluster.BrokerID { return p.refusing.take() }

// Close stops listening, closes every connection and waits for every goroutine of the Peer, handlers included.
func (p *Peer) Close() error {
	p.cancel()
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	if l := p.raft.Load(); l != nil {
		l.Close()
	}
	p.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("peer: close: %w", err)
	}
	return nil
}

// spawn runs a goroutine that Close waits for; false when the Peer is closed.
func (p *Peer) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}

// track takes a connection into the set that Close ends; false when the Peer is closed or full.
func (p *Peer) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= maxConns {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// drop closes a connection and forgets it.
func (p *Peer) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}
