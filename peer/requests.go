package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

const (
	maxServing      = 64       // requests of one connection that run at once; then reading stops
	maxServingBytes = 32 << 20 // bodies of one connection that are held at once, one always
)

// serveRequests reads requests off a control or forward connection and answers each from a goroutine of its own, in any order.
func (p *Peer) serveRequests(conn net.Conn, h hello) {
	f := newFramed(conn, p.cfg)
	ctx, cancel := context.WithCancel(p.ctx)
	room := newBudget(maxServing, maxServingBytes)
	var running sync.WaitGroup
	for {
		kind, id, body, err := f.receive()
		if err != nil || kind != frameRequest || len(body) < requestHead {
			break
		}
		if !room.take(ctx, len(body)) {
			break
		}
		running.Go(func() {
			defer room.give(len(body))
			p.serveOne(ctx, f, h, id, body)
		})
	}
	f.close()
	cancel()
	running.Wait()
}

// serveOne answers one request. A failed write has closed the connection, and the reader sees it.
func (p *Peer) serveOne(conn context.Context, f *framed, h hello, id uint64, body []byte) {
	r := reader{b: body}
	wait := min(time.Duration(r.u32())*time.Millisecond, maxCallWait)
	what := r.u8()
	ctx, cancel := context.WithTimeout(conn, wait)
	defer cancel()
	var answered uint8
	var payload []byte
	var err error
	if h.Stream == streamControl {
		answered, payload, err = p.answerControl(ctx, h, what, r.b)
	} else {
		answered, payload, err = p.answerForward(ctx, h, what, r.b)
	}
	if errors.Is(err, context.Canceled) && conn.Err() != nil {
		return // the connection is ending: the caller learns that the outcome is unknown, not what a handler makes of being cancelled
	}
	if err == nil {
		err = f.send(frameAnswer, id, []byte{answered}, payload)
	}
	if err == nil {
		return
	}
	kind := frameFailure
	var declined *declinedError
	if errors.As(err, &declined) {
		kind = frameDecline
	}
	f.send(kind, id, encodeFailure(err), nil)
}

// declinedError is a refusal of a request that no handler has seen: the caller may safely ask elsewhere.
type declinedError struct{ refusal *cluster.Error }

func (e *declinedError) Error() string { return e.refusal.Error() }
func (e *declinedError) Unwrap() error { return e.refusal }

func decline(code cluster.Code, message string) error {
	return &declinedError{cluster.Refuse(code, "peer: "+message)}
}

// answerForward hands a forwarded request to package broker.
func (p *Peer) answerForward(ctx context.Context, h hello, kind uint8, payload []byte) (uint8, []byte, error) {
	serve := p.handlers.Load().Forward
	if serve == nil {
		return 0, nil, decline(cluster.CodeShuttingDown, "forwarded requests are not served now")
	}
	answer, err := serve(ctx, h.From.Broker, kind, payload)
	return kind, answer, err
}

// budget bounds requests and their bytes. One request is always let in, however large.
type budget struct {
	wake chan struct{}

	mu           sync.Mutex // guards the rest
	count, bytes int
	maxCount     int
	maxBytes     int
}

func newBudget(count, bytes int) *budget {
	return &budget{wake: make(chan struct{}, 1), maxCount: count, maxBytes: bytes}
}

// take waits for room; false when ctx ends first. One goroutine takes.
func (b *budget) take(ctx context.Context, n int) bool {
	for {
		b.mu.Lock()
		fits := b.count == 0 || b.count < b.maxCount && b.bytes+n <= b.maxBytes
		if fits {
			b.count++
			b.bytes += n
		}
		b.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.count--
	b.bytes -= n
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
