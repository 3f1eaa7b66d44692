package kafka

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/moldau-log/moldau/internal/meter"
)

// scriptedConn is a connection whose client sends in one piece. Before or after one of its reader's reads it has somebody end the reading.
type scriptedConn struct {
	net.Conn
	t        *testing.T
	in       []byte
	deadline time.Time
	steps    int
	at       int    // the step at which it is to end
	end      func() // ends the reading
	locked   func() bool
	ended    bool
}

func (s *scriptedConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (s *scriptedConn) Close() error         { return nil }

// step counts the moments before and after reads.
func (s *scriptedConn) step() {
	if s.steps++; s.steps == s.at {
		s.ended = true
		s.end()
	}
}

// SetReadDeadline is the moment at which another one's deadline could come between: it does not if the lock is held.
func (s *scriptedConn) SetReadDeadline(t time.Time) error {
	if !s.locked() {
		s.t.Error("a deadline is set without the lock")
	}
	if s.ended && t.After(time.Now()) {
		s.t.Errorf("step %d: a deadline after the end", s.at)
	}
	s.deadline = t
	return nil
}

func (s *scriptedConn) Read(p []byte) (int, error) {
	s.step()
	defer s.step()
	if !s.deadline.After(time.Now()) {
		return 0, os.ErrDeadlineExceeded
	}
	if s.ended {
		s.t.Errorf("step %d: it would wait for the client after the end", s.at)
		return 0, io.EOF
	}
	n := copy(p[:min(1, len(p))], s.in)
	if s.in = s.in[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Whenever reading is ended, before or after any deadline that the reader sets and at any byte of a request, the reader waits for nothing more: a connection that has to
// end does not stay until its client has been idle for long enough.
func TestReadSide_NothingIsWaitedForAfterTheEnd(t *testing.T) {
	frame := append([]byte{0, 0, 0, 20}, make([]byte, 20)...)
	s := newServer(Config{}, newFakeBroker(), nil, meter.NewSet(), slog.New(slog.DiscardHandler))
	for at := range 4*len(frame) + 4 {
		sc := &scriptedConn{t: t, in: append(append([]byte{}, frame...), frame...), at: at + 1}
		c := newConn(s, Listener{}, sc)
		sc.end = c.stopReading
		sc.locked = func() bool {
			if c.reading.mu.TryLock() {
				c.reading.mu.Unlock()
				return false
			}
			return true
		}
		go c.read()
		for f := range c.frames { // it ends with the reader
			c.release(f.bytes)
		}
		if at < 4*len(frame) && !sc.ended {
			t.Errorf("the reader came to %d of %d steps", sc.steps, at+1)
		}
	}
}

// Who sets a deadline after the end is refused, in each of the three parts of a request.
func TestFrameReader_EndsWithItsConnection(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	side := &readSide{net: near}
	side.end()
	r := frameReader{net: side, in: bufio.NewReader(near), max: 100, idle: time.Hour, step: time.Hour, ctx: context.Background()}
	if _, err := r.size(); !errors.Is(err, errEnded) {
		t.Errorf("size of a connection that has ended: %v", err)
	}
	if _, err := r.body(10); !errors.Is(err, errEnded) {
		t.Errorf("body of a connection that has ended: %v", err)
	}
	var buf []byte
	if err := r.fill(&buf, 10, nil); !errors.Is(err, errEnded) {
		t.Errorf("fill of a connection that has ended: %v", err)
	}
}
