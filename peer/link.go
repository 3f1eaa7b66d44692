package peer

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is what every framed stream needs of its connection: one writer at a time, a ping while nobody writes, and one close.
type link struct {
	conn  net.Conn
	ping  []byte        // the frame that says "still here"
	token chan struct{} // held by whoever writes
	start time.Time
	times timing

	lastWrite atomic.Int64 // nanoseconds since start
	timer     *time.Timer
	closeOnce sync.Once
	closed    atomic.Bool
}

func newLink(conn net.Conn, ping []byte, times timing) *link {
	l := &link{conn: conn, ping: ping, token: make(chan struct{}, 1), start: time.Now(), times: times}
	l.token <- struct{}{}
	// The timer must be assigned before its function resets it.
	ready := make(chan struct{})
	l.timer = time.AfterFunc(times.ping, func() {
		<-ready
		l.keepAlive()
	})
	close(ready)
	return l
}

// keepAlive sends a ping when nothing was written for that long, and comes again. It never waits for the token: whoever holds it is writing.
func (l *link) keepAlive() {
	if l.closed.Load() {
		return
	}
	idle := time.Since(l.start) - time.Duration(l.lastWrite.Load())
	if idle < l.times.ping {
		l.timer.Reset(l.times.ping - idle)
		return
	}
	select {
	case <-l.token:
		if l.push(net.Buffers{l.ping}) != nil {
			return
		}
	default:
	}
	l.timer.Reset(l.times.ping)
}

// write waits for the token and writes.
func (l *link) write(b net.Buffers) error {
	<-l.token
	return l.push(b)
}

// push writes with the token held, and gives it back. A failed write closes: part of a frame may be out.
func (l *link) push(b net.Buffers) error {
	l.conn.SetWriteDeadline(time.Now().Add(l.times.write))
	var err error
	if len(b) == 1 {
		_, err = l.conn.Write(b[0])
	} else {
		_, err = b.WriteTo(l.conn)
	}
	l.release()
	if err != nil {
		l.close()
		return fmt.Errorf("peer: write: %w", err)
	}
	return nil
}

// release gives the token back after a write.
func (l *link) release() {
	l.lastWrite.Store(int64(time.Since(l.start)))
	l.token <- struct{}{}
}

// close ends the connection; the reader's error tells everybody else.
func (l *link) close() {
	l.closeOnce.Do(func() {
		l.closed.Store(true)
		l.timer.Stop()
		l.conn.Close()
	})
}

// impatient reads with a fresh deadline each time: the other end pings, so that silence means death.
type impatient struct {
	conn     net.Conn
	patience time.Duration
}

func (r *impatient) Read(b []byte) (int, error) {
	r.conn.SetReadDeadline(time.Now().Add(r.patience))
	return r.conn.Read(b)
}
