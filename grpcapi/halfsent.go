package grpcapi

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/moldau-log/moldau/internal/budget"
)

// gRPC lets a client send the whole of a message that it has announced, and keeps what has come until it is whole, without a bound over streams or connections and without a time. So
// the door reads along: of each stream it counts the bytes of the message that has begun and is not whole, from the headers of frames in both directions.

// Bounds of messages that are not whole, in bytes of one connection.
const (
	freeUnfinished = 64 << 10 // not counted
	maxUnfinished  = 32 << 20 // all of them, or one largest message
)

var errUnfinished = errors.New("grpcapi: too much of messages that are not whole")

// watching makes every connection of a server count what is not whole in a budget.
type watching struct {
	credentials.TransportCredentials
	of    *budget.Budget
	bound int // of one connection
}

func (s *Server) credentials() credentials.TransportCredentials {
	c := insecure.NewCredentials()
	if s.cfg.TLS != nil {
		c = credentials.NewTLS(s.cfg.TLS)
	}
	return watching{c, s.rooms.unfinished, max(maxUnfinished, s.cfg.MaxMessageBytes+1<<16)}
}

// ServerHandshake wraps the connection that carries HTTP/2.
func (w watching) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return newWatched(c, w.of, w.bound), info, nil
}

// Clone copies the credentials.
func (w watching) Clone() credentials.TransportCredentials {
	w.TransportCredentials = w.TransportCredentials.Clone()
	return w
}

// watched is a connection whose frames are looked at. One goroutine reads, one writes, and any may close it.
type watched struct {
	net.Conn
	of     *budget.Budget
	bound  int
	ctx    context.Context // done at the end
	cancel context.CancelFunc
	skip   int           // of the client's preface; of the reading goroutine
	growth budget.Growth // settled by whoever finds that nothing more is needed: the reading goroutine may never look again

	mu         sync.Mutex // guards what follows
	in, out    frames
	streams    map[uint32]*unfinished
	last       uint32 // the newest stream
	unfinished int    // what has come, of all streams
	left       int    // what is to come of the same messages
	moved      int    // what has come of messages since the last look
	taken      int    // of the budget
	holder     *budget.Holder
	waits      bool // the holder does: the reading goroutine reads, and something is taken
	closed     bool
}

// unfinished is what has come of a stream's message.
type unfinished struct {
	prefix [5]byte
	n      int // bytes of prefix
	left   int // bytes of the message that are to come
	got    int // bytes of it that have come
}

const prefaceSize = 24

func newWatched(c net.Conn, of *budget.Budget, bound int) *watched {
	w := &watched{Conn: c, of: of, bound: bound, skip: prefaceSize, growth: of.Growth(), streams: map[uint32]*unfinished{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.holder = w.newHolder()
	return w
}

func (w *watched) newHolder() *budget.Holder { return w.of.Holder(w.cut) }

// Read reads, and waits until there is room for what is not whole.
func (w *watched) Read(p []byte) (int, error) {
	w.mu.Lock()
	w.wait(true)
	w.mu.Unlock()
	n, err := w.Conn.Read(p)
	b := p[:n]
	k := min(w.skip, n)
	w.skip -= k
	w.mu.Lock()
	w.in.scan(b[k:], w.received)
	w.holder.Moved(w.moved)
	w.moved = 0
	w.wait(false)
	w.settle()
	more := max(w.unfinished-freeUnfinished, 0) - w.taken
	above := w.unfinished > w.bound
	w.mu.Unlock()
	switch {
	case err != nil:
	case above:
		n, err = 0, errUnfinished
	case more > 0:
		if err = w.growth.Take(w.ctx, more); err != nil {
			n = 0
			break
		}
		w.took(more)
	}
	if err != nil {
		w.growth.Settle()
	}
	return n, err
}

// wait says whether the connection waits for its client. The lock is held.
func (w *watched) wait(does bool) {
	switch {
	case does && w.taken > 0 && !w.closed:
		w.holder.Waits(w.taken, w.left)
		w.waits = true
	case w.waits:
		w.holder.Goes()
		w.waits = false
	}
}

// took counts what the budget has given, unless the connection was closed meanwhile.
func (w *watched) took(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.of.Give(n)
		w.growth.Settle() // it may have come above the limit after end has settled
		return
	}
	w.taken += n
}

// settle gives back what is whole. The lock is held.
func (w *watched) settle() {
	back := w.taken - max(w.unfinished-freeUnfinished, 0)
	if back <= 0 {
		return
	}
	w.taken -= back
	w.of.Give(back)
	w.growth.Settle()
	w.wait(w.waits)
	if w.taken == 0 {
		w.holder = w.newHolder() // whose waits are forgotten
	}
}

// Write writes, and notices streams that the server ends.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.out.scan(p, w.sent)
	w.settle() // the client may send nothing more
	w.mu.Unlock()
	return w.Conn.Write(p)
}

// Close closes the connection, and gives everything back.
func (w *watched) Close() error {
	w.end()
	return w.Conn.Close()
}

// cut ends the connection without a word to the client, which TLS would wait for. gRPC notices, and closes it.
func (w *watched) cut() {
	w.end()
	if t, ok := w.Conn.(*tls.Conn); ok {
		t.NetConn().Close()
		return
	}
	w.Conn.Close()
}

// end gives everything back: who ends a connection settles it, as gRPC does not read again after a frame that it does not take.
func (w *watched) end() {
	w.mu.Lock()
	w.wait(false)
	back := w.taken
	w.taken, w.closed = 0, true
	w.mu.Unlock()
	w.cancel()
	if back > 0 {
		w.of.Give(back)
	}
	w.growth.Settle()
}

// Types and flags of frames.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	flagEndStream = 1
)

// received looks at a piece of a frame from the client. The lock is held.
func (w *watched) received(f *frames, payload []byte) {
	id := f.stream()
	switch f.head[3] {
	case frameHeaders:
		if id > w.last {
			w.last = id
			w.streams[id] = new(unfinished)
		}
	case frameData:
		if u := w.streams[id]; u != nil {
			got, left := u.got, u.left
			w.moved += u.add(payload)
			w.unfinished += u.got - got
			w.left += u.left - left
		}
	}
	w.sent(f, nil)
}

// sent looks at a piece of a frame from either side that may end a stream. The lock is held.
func (w *watched) sent(f *frames, _ []byte) {
	typ, end := f.head[3], f.head[4]&flagEndStream != 0
	if f.left == 0 && (typ == frameReset || end && (typ == frameData || typ == frameHeaders)) {
		if u := w.streams[f.stream()]; u != nil {
			w.unfinished -= u.got
			w.left -= u.left
			delete(w.streams, f.stream())
		}
	}
}

// add goes on by a piece of the stream's data, and returns how much of it is of messages. Padding, which no client of gRPC uses, counts as data.
func (u *unfinished) add(b []byte) (moved int) {
	for len(b) > 0 {
		if u.n < len(u.prefix) {
			k := copy(u.prefix[u.n:], b)
			u.n, b = u.n+k, b[k:]
			if u.n < len(u.prefix) {
				break
			}
			u.left = int(binary.BigEndian.Uint32(u.prefix[1:]))
		}
		k := min(u.left, len(b))
		u.left, u.got, b = u.left-k, u.got+k, b[k:]
		moved += k
		if u.left == 0 {
			*u = unfinished{}
		}
	}
	return moved
}

// frames cuts a direction of HTTP/2 into frames.
type frames struct {
	head [9]byte
	n    int // bytes of head
	left int // bytes of the payload that are to come
}

func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1) }

// scan gives each piece of each frame to see, whose left is 0 with the last.
func (f *frames) scan(b []byte, see func(f *frames, payload []byte)) {
	for len(b) > 0 {
		if f.n < len(f.head) {
			k := copy(f.head[f.n:], b)
			f.n, b = f.n+k, b[k:]
			if f.n < len(f.head) {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
		k := min(f.left, len(b))
		f.left -= k
		see(f, b[:k])
		b = b[k:]
		if f.left == 0 {
			f.n = 0
		}
	}
}
