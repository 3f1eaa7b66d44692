// Package conns bounds the connections that a door has open: as a whole, of one address, and by the descriptors that the process may have. The doors for gRPC and HTTP accept
// through a Listener; the Kafka door counts by itself, as its bounds may change while it runs, and asks here for Limits alone.
//
// A connection above a bound is accepted and closed at once: left alone it would wait in the kernel, and its client would not know. It runs no goroutine.
//
// Each door has a share of the descriptors that no other takes, so that a flood at one of them keeps nobody from another, and half of all are left for files, other brokers and
// what is to come.
package conns

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// pause is the wait after a failed accept, which mostly means that descriptors have run out.
const pause = 50 * time.Millisecond

// Shares of the descriptors of a process: one in so many for each door of that kind. The two doors for clients and the one for HTTP leave about half.
const (
	ClientShare = 4
	HTTPShare   = 32
)

// Why a connection is closed at once, as metrics call it.
const (
	TooMany   = "max_connections"
	OfAddress = "max_connections_per_ip"
)

// minAllowed is how many connections a door takes however few descriptors there are.
const minAllowed = 8

// Limits bound open connections: of the whole door, and of one address.
type Limits struct{ Whole, Each int }

// Within is what is left of the limits with so many descriptors, of which the door has one in share. Half of it at most is for one address.
func (l Limits) Within(descriptors, share int) Limits {
	if most := max(descriptors/share, minAllowed); most < l.Whole {
		l.Whole = most
		l.Each = min(l.Each, most/2)
	}
	return l
}

// Options are what a Listener needs to know.
type Options struct {
	Limits  Limits
	Refused func(reason string) // a connection was closed at once; may be nil
	Changed func(by int)        // one was opened (1) or closed (-1); may be nil
	Log     *slog.Logger        // for accepts that fail; with a bound on its lines
}

// Listener accepts within limits. It passes over errors of accepting, other than that it was closed.
type Listener struct {
	net.Listener
	opts   Options
	ctx    context.Context // ended by Close
	cancel context.CancelFunc

	mu        sync.Mutex // guards what follows
	open      int
	addresses map[string]int
}

// Listen wraps l.
func Listen(l net.Listener, opts Options) *Listener {
	if opts.Refused == nil {
		opts.Refused = func(string) {}
	}
	if opts.Changed == nil {
		opts.Changed = func(int) {}
	}
	x := &Listener{Listener: l, opts: opts, addresses: map[string]int{}}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Accept waits for the next connection that is within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed), l.ctx.Err() != nil:
			return nil, err
		default:
			l.opts.Log.Warn("a connection could not be accepted", slog.Any("error", err))
			select {
			case <-time.After(pause):
			case <-l.ctx.Done():
			}
			continue
		}
		address := Address(c)
		if reason := l.take(address); reason != "" {
			c.Close()
			l.opts.Refused(reason)
			continue
		}
		l.opts.Changed(1)
		BoundUnsent(c)
		return &conn{Conn: c, closed: sync.OnceFunc(func() { l.give(address) })}, nil
	}
}

// Close ends Accept. Connections stay.
func (l *Listener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

// take counts a connection of an address, or says why there is no room for it.
func (l *Listener) take(address string) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.opts.Limits.Whole:
		return TooMany
	case l.addresses[address] >= l.opts.Limits.Each:
		return OfAddress
	}
	l.open++
	l.addresses[address]++
	return ""
}

func (l *Listener) give(address string) {
	l.mu.Lock()
	l.open--
	if l.addresses[address]--; l.addresses[address] == 0 {
		delete(l.addresses, address)
	}
	l.mu.Unlock()
	l.opts.Changed(-1)
}

// Address is what connections are told apart by: the client's IP.
func Address(c net.Conn) string {
	text := c.RemoteAddr().String()
	if address, _, err := net.SplitHostPort(text); err == nil {
		return address
	}
	return text
}

// conn counts itself out.
type conn struct {
	net.Conn
	closed func()
}

// Close closes the connection, and counts it out once.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}
