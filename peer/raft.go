package peer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

// maxRaftQueue bounds the Raft connections that are accepted here and not yet taken by the transport.
const maxRaftQueue = 64

// StreamLayer gives Raft's transport the raft streams of this port, and takes them from the layer given before. advertised is host:port of the peer port as others
// reach it; the layer's own address is "<server id>@<advertised>". Until its Accept is called, and after it is closed, raft streams are refused as not ready.
func (p *Peer) StreamLayer(advertised string) controller.StreamLayer {
	l := &raftLayer{
		peer:  p,
		addr:  raftAddr(JoinRaftAddress(p.cfg.Self().Server(), advertised)),
		queue: make(chan net.Conn, maxRaftQueue),
		done:  make(chan struct{}),
		conns: make(map[*raftConn]struct{}),
	}
	if old := p.raft.Swap(l); old != nil {
		old.Close()
	}
	return l
}

// JoinRaftAddress makes the address under which Raft knows a server.
func JoinRaftAddress(server, hostPort string) string { return server + "@" + hostPort }

// SplitRaftAddress takes such an address apart.
func SplitRaftAddress(address string) (controller.Endpoint, error) {
	server, hostPort, found := strings.Cut(address, "@")
	if !found || server == "" || hostPort == "" {
		return controller.Endpoint{}, fmt.Errorf("peer: %q is not <server id>@<host>:<port>", address)
	}
	return controller.Endpoint{Address: hostPort, Server: server}, nil
}

// raftAddr is the address of a layer.
type raftAddr string

func (raftAddr) Network() string  { return "moldau-peer" }
func (a raftAddr) String() string { return string(a) }

// raftLayer is a raft.StreamLayer over the shared port. One run of a Raft node has one.
type raftLayer struct {
	peer  *Peer
	addr  raftAddr
	queue chan net.Conn
	done  chan struct{}
	ready atomic.Bool // somebody accepts

	mu     sync.Mutex // guards the two below
	conns  map[*raftConn]struct{}
	closed bool
}

// Accept returns the next raft stream that another broker dialled.
func (l *raftLayer) Accept() (net.Conn, error) {
	l.ready.Store(true)
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, fmt.Errorf("peer: raft layer: %w", net.ErrClosed)
	}
}

// Addr is our own Raft address.
func (l *raftLayer) Addr() net.Addr { return l.addr }

// Dial opens a raft stream. The hello names the server id in the address, so that a wiped broker at an old address is not taken for the old voter.
func (l *raftLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, err := SplitRaftAddress(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.peer.ctx, max(timeout, time.Millisecond))
	defer cancel()
	conn, _, err := l.peer.dial(ctx, to, streamRaft, cluster.NoBrokerEpoch)
	if err != nil {
		return nil, err
	}
	c, ok := l.own(conn)
	if !ok {
		return nil, fmt.Errorf("peer: raft layer: %w", net.ErrClosed)
	}
	return c, nil
}

// Close ends the layer and every stream of it, both directions.
func (l *raftLayer) Close() error {
	l.peer.raft.CompareAndSwap(l, nil)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		l.peer.drop(c.Conn)
	}
	return nil
}

// own wraps a connection so that closing either it or the layer ends it; false, and the connection closed, when the layer is closed.
func (l *raftLayer) own(conn net.Conn) (*raftConn, bool) {
	c := &raftConn{Conn: conn, layer: l}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		l.peer.drop(conn)
		return nil, false
	}
	return c, true
}

// handOver gives an accepted raft stream to the layer.
func (p *Peer) handOver(conn net.Conn) {
	l := p.raft.Load()
	if l == nil {
		p.drop(conn)
		return
	}
	c, ok := l.own(conn)
	if !ok {
		return
	}
	select {
	case l.queue <- c:
	default:
		c.Close() // the transport does not keep up; the dialler tries again
	}
}

// raftConn is one raft stream.
type raftConn struct {
	net.Conn
	layer *raftLayer
}

// Close ends the stream and takes it out of the layer's and the peer's sets.
func (c *raftConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.conns, c)
	c.layer.mu.Unlock()
	c.layer.peer.drop(c.Conn)
	return nil
}
