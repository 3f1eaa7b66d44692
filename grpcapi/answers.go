package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/grpcframe"
)

// Bounds on answers beside Config.MaxInFlightBytes, in bytes.
const (
	// smallAnswer is up to where an answer does not wait for room, as long as it finds the budget above its limit by less than smallAnswersAbove: metadata, commits
	// and the like go on while readers wait for each other.
	smallAnswer       = 64 << 10
	smallAnswersAbove = 64 << 20
	// builtAnswers bounds the larger answers that are built and wait for room. The next is refused.
	builtAnswers = 64 << 20
)

// unread is what one client's connection holds of encoded answers that the client has not taken. gRPC says when it lets go of a buffer, but not of those that wait when
// the connection ends, which it only forgets: these come back with the connection.
type unread struct {
	s     *Server
	close func() // closes the connection, once

	mu    sync.Mutex // guards what follows
	holds map[*hold]struct{}
	bytes int            // of all of them
	waits *budget.Holder // waits while there are any; nil before the first
	gone  bool           // the connection has ended
}

// hold is one answer's share of the budget, from before its bytes are there until the transport lets go of them. It is the pool that gRPC gives the buffer back to.
type hold struct {
	of    *unread
	bytes int
	over  bool // it has been given back; guarded by of.mu
}

// take waits for room for an answer whose bytes are not there yet. What it returns is handed over or given back.
func (u *unread) take(ctx context.Context, bytes int) (*hold, error) {
	if err := u.s.answers.Take(ctx, bytes); err != nil {
		return nil, broker.AsRefusal(err)
	}
	if err := ctx.Err(); err != nil { // the call and the room have come to their ends together: nobody waits for the answer
		u.s.answers.Give(bytes)
		return nil, broker.AsRefusal(err)
	}
	return &hold{of: u, bytes: bytes}, nil
}

// takeBuilt finds room for an answer that is built already. While it waits it counts among those that do.
func (u *unread) takeBuilt(ctx context.Context, bytes int) (*hold, error) {
	b := u.s.answers
	switch {
	case bytes <= smallAnswer && b.Held() < int64(u.s.cfg.MaxInFlightBytes)+smallAnswersAbove:
		b.Force(bytes)
		return &hold{of: u, bytes: bytes}, nil
	case b.Try(bytes):
		return &hold{of: u, bytes: bytes}, nil
	case !u.s.built.Try(bytes):
		return nil, errNoRoom()
	}
	defer u.s.built.Give(bytes)
	return u.take(ctx, bytes)
}

func errNoRoom() *cluster.Error {
	return cluster.Refuse(cluster.CodeOverloaded, "too many bytes of answers wait for their clients; try again")
}

// more takes bytes without a wait, and reports whether there was room.
func (h *hold) more(bytes int) bool {
	if !h.of.s.answers.Try(bytes) {
		return false
	}
	h.bytes += bytes
	return true
}

// shrink says how many bytes the answer has come to.
func (h *hold) shrink(bytes int) {
	if bytes > h.bytes { // encoded it is larger than was expected: it is there already
		h.of.s.answers.Force(bytes - h.bytes)
	} else {
		h.of.s.answers.Give(h.bytes - bytes)
	}
	h.bytes = bytes
}

// handOver says that gRPC is to get the answer now: from here on it waits for the client.
func (h *hold) handOver() {
	u := h.of
	u.mu.Lock()
	gone := u.gone
	if !gone {
		if len(u.holds) == 0 { // what was before is forgotten
			u.waits = u.s.answers.Holder(u.close)
		}
		u.holds[h] = struct{}{}
		u.bytes += h.bytes
		u.waits.Waits(u.bytes, u.bytes)
	}
	u.mu.Unlock()
	if gone {
		h.give()
	}
}

// give returns the share, once.
func (h *hold) give() {
	u := h.of
	u.mu.Lock()
	was := h.over
	h.over = true
	if _, ok := u.holds[h]; ok {
		delete(u.holds, h)
		u.bytes -= h.bytes
		if u.bytes > 0 {
			u.waits.Waits(u.bytes, u.bytes)
		} else {
			u.waits.Goes()
		}
	}
	u.mu.Unlock()
	if !was {
		u.s.answers.Give(h.bytes)
	}
}

// wrote says that the client has been sent so many bytes, of whatever.
func (u *unread) wrote(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.holds) > 0 {
		u.waits.Moved(n)
	}
}

// Get is not called: the buffer is there already.
func (h *hold) Get(length int) *[]byte { return h.of.s.pool.Get(length) }

// Put takes the buffer from gRPC, which has written it or dropped it.
func (h *hold) Put(buf *[]byte) {
	h.of.s.pool.Put(buf)
	h.give()
}

// end gives back what gRPC has forgotten.
func (u *unread) end() {
	u.mu.Lock()
	holds := u.holds
	if len(holds) > 0 {
		u.waits.Goes()
	}
	u.gone, u.holds = true, nil
	u.mu.Unlock()
	for h := range holds {
		h.give()
	}
}

// answerListener makes the connection known to the calls that come in on it.
type answerListener struct {
	net.Listener
	s *Server
}

// Accept wraps the connection.
func (l answerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	u := &unread{s: l.s, holds: map[*hold]struct{}{}}
	u.close = sync.OnceFunc(func() {
		l.s.log.Warn("connection closed: its client does not take its answers, and others wait for room", slog.String("client", c.RemoteAddr().String()))
		_ = c.Close() // gRPC notices, and closes the connection itself
	})
	return &answerConn{Conn: c, unread: u}, nil
}

type answerConn struct {
	net.Conn
	unread *unread
}

// Write writes, and counts it as progress of the client. gRPC writes at most socketBuffer at once.
func (c *answerConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.unread.wrote(n)
	return n, err
}

// Close gives back what the client has not taken.
func (c *answerConn) Close() error {
	err := c.Conn.Close()
	c.unread.end()
	return err
}

// RemoteAddr is the way from a call to its connection: gRPC gives it to the call's context, also through TLS.
func (c *answerConn) RemoteAddr() net.Addr { return answerAddr{c.Conn.RemoteAddr(), c.unread} }

type answerAddr struct {
	net.Addr
	unread *unread
}

// unreadOf is the account of the connection that a call has come in on.
func (s *Server) unreadOf(ctx context.Context) *unread {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(answerAddr); ok {
			return a.unread
		}
	}
	return &unread{s: s, close: func() {}, holds: map[*hold]struct{}{}} // of a listener that is not ours
}

// answering is the answer of one unary call, which its handler may take room for before it builds it.
type answering struct {
	unread *unread
	hold   *hold // nil until room is taken
}

type answeringKey struct{}

// answeringOf is the answer of the unary call with that context.
func answeringOf(ctx context.Context) *answering { return ctx.Value(answeringKey{}).(*answering) }

// take waits for room for what the handler is about to build.
func (a *answering) take(ctx context.Context, bytes int) (err error) {
	a.hold, err = a.unread.take(ctx, bytes)
	return err
}

// drop gives back what was not handed over.
func (a *answering) drop() {
	if a.hold != nil {
		a.hold.give()
		a.hold = nil
	}
}

// counted is the message as it is handed to gRPC, with its room.
func (a *answering) counted(ctx context.Context, resp any) (any, error) {
	m, ok := resp.(proto.Message)
	if !ok {
		return resp, nil
	}
	size := proto.Size(m)
	if size < grpcframe.MinCounted { // of these a connection holds no more than of the calls themselves
		a.drop()
		return resp, nil
	}
	if a.hold == nil {
		h, err := a.unread.takeBuilt(ctx, size)
		if err != nil {
			return nil, err
		}
		a.hold = h
	} else {
		a.hold.shrink(size)
	}
	h := a.hold
	a.hold = nil
	h.handOver()
	return &grpcframe.Answer{Message: m, Size: size, Home: h}, nil
}

// answerStream counts the messages of a stream that are no frames; Fetch counts its own.
type answerStream struct {
	grpc.ServerStream
	s *Server
}

// SendMsg waits until there is room.
func (a *answerStream) SendMsg(m any) error {
	if p, ok := m.(proto.Message); !ok || proto.Size(p) < grpcframe.MinCounted {
		return a.ServerStream.SendMsg(m)
	}
	answer := answering{unread: a.s.unreadOf(a.Context())}
	counted, err := answer.counted(a.Context(), m)
	if err != nil {
		return err
	}
	return a.ServerStream.SendMsg(counted)
}
