package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

const (
	maxCalling    = 256              // requests in flight per connection; more wait for a slot
	maxCallers    = 1024             // cached connections; more are refused until idle ones end
	callerIdle    = 60 * time.Second // a cached connection without calls ends
	maxCallWait   = 60 * time.Second // a caller without deadline is served no longer than this
	minCallMillis = 1
)

// ErrLost says that the connection broke while a request was out: whether the other end has acted on it is unknown.
var ErrLost = errors.New("peer: connection lost before the answer")

// errTooMany reports maxCallers.
var errTooMany = errors.New("peer: too many endpoints have connections")

// callers keeps a connection per endpoint and stream type.
type callers struct {
	peer *Peer

	mu    sync.Mutex // guards conns
	conns map[callerKey]*callerSlot
}

type callerKey struct {
	stream streamType
	to     controller.Endpoint
}

// callerSlot is a connection, or one that is being dialled: caller and err are set before ready closes.
type callerSlot struct {
	ready  chan struct{}
	self   cluster.ClusterID // of our hello: a connection made before we knew our cluster is not used after
	caller *caller
	err    error
}

func newCallers(p *Peer) *callers {
	return &callers{peer: p, conns: make(map[callerKey]*callerSlot)}
}

// call sends one request and waits for its answer or for ctx. A connection that is found broken before anything was sent is dialled anew once.
func (c *callers) call(ctx context.Context, key callerKey, what uint8, payload []byte) (uint8, []byte, error) {
	for attempt := 0; ; attempt++ {
		conn, err := c.get(ctx, key)
		if err != nil {
			return 0, nil, notSent(err)
		}
		answered, body, err := conn.call(ctx, what, payload)
		if err != nil && errors.Is(err, errEnded) && attempt == 0 {
			continue
		}
		return answered, body, err
	}
}

// get returns the connection of a key, dialling at most once at a time.
func (c *callers) get(ctx context.Context, key callerKey) (*caller, error) {
	self, fresh := c.peer.cfg.Self().Cluster, false
	c.mu.Lock()
	slot := c.conns[key]
	if slot == nil || slot.stale(self) {
		if slot == nil && len(c.conns) >= maxCallers {
			c.mu.Unlock()
			return nil, errTooMany
		}
		slot = &callerSlot{ready: make(chan struct{}), self: self}
		c.conns[key] = slot
		fresh = true
	}
	c.mu.Unlock()
	if fresh && !c.peer.spawn(func() { c.run(key, slot) }) {
		slot.err = fmt.Errorf("peer: call %s: %w", key.to.Address, net.ErrClosed)
		close(slot.ready)
	}
	select {
	case <-slot.ready:
		return slot.caller, slot.err
	case <-ctx.Done():
		return nil, fmt.Errorf("peer: call %s: %w", key.to.Address, ctx.Err())
	}
}

// stale reports whether a new connection is needed.
func (s *callerSlot) stale(self cluster.ClusterID) bool {
	select {
	case <-s.ready:
	default:
		return false // being dialled
	}
	return s.err != nil || s.self != self || s.caller.dead()
}

// run dials and then reads answers until the connection ends. It is the reading goroutine of the connection.
func (c *callers) run(key callerKey, slot *callerSlot) {
	ctx, cancel := context.WithTimeout(c.peer.ctx, 2*c.peer.cfg.timing.handshake)
	conn, _, err := c.peer.dial(ctx, key.to, key.stream, cluster.NoBrokerEpoch)
	cancel()
	if err == nil {
		slot.caller = newCaller(newFramed(conn, c.peer.cfg))
	}
	slot.err = err
	close(slot.ready)
	if err == nil {
		slot.caller.run()
		c.peer.drop(conn)
	}
	c.mu.Lock()
	if c.conns[key] == slot {
		delete(c.conns, key)
	}
	c.mu.Unlock()
}

// notSent marks an error after which the other end has certainly not acted on the request.
func notSent(err error) error { return fmt.Errorf("%w: %w", controller.ErrNotSent, err) }

// errEnded says that a cached connection has ended before a request was written to it.
var errEnded = errors.New("peer: the connection has ended")

// caller is the calling end of one connection.
type caller struct {
	f     *framed
	slots chan struct{} // a token per request in flight
	idle  *time.Timer   // set once, under mu

	mu      sync.Mutex // guards the three below
	next    uint64
	waiting map[uint64]chan answer
	ended   bool
}

// answer is what came back for one request.
type answer struct {
	kind frameKind
	body []byte
}

func newCaller(f *framed) *caller {
	c := &caller{f: f, slots: make(chan struct{}, maxCalling), waiting: make(map[uint64]chan answer)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.AfterFunc(callerIdle, c.endIdle)
	return c
}

// endIdle closes a connection without calls.
func (c *caller) endIdle() {
	c.mu.Lock()
	busy := len(c.waiting) > 0
	idle := c.idle
	c.mu.Unlock()
	if busy {
		idle.Reset(callerIdle)
		return
	}
	c.f.close()
}

// run reads answers until the connection ends, then fails what waits.
func (c *caller) run() {
	for {
		kind, id, body, err := c.f.receive()
		if err != nil || kind == frameRequest {
			break
		}
		c.mu.Lock()
		to := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if to != nil { // nil: the caller has stopped waiting
			to <- answer{kind: kind, body: body}
		}
	}
	c.f.close()
	c.idle.Stop()
	c.mu.Lock()
	c.ended = true
	for _, to := range c.waiting {
		close(to)
	}
	c.waiting = nil
	c.mu.Unlock()
}

func (c *caller) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// call is one round trip.
func (c *caller) call(ctx context.Context, what uint8, payload []byte) (uint8, []byte, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return 0, nil, notSent(fmt.Errorf("peer: call: %w", ctx.Err()))
	}
	c.idle.Reset(callerIdle)
	wait := maxCallWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	id, to, ok := c.expect()
	if !ok {
		return 0, nil, notSent(errEnded)
	}
	var head [requestHead]byte
	binary.BigEndian.PutUint32(head[:], uint32(max(wait.Milliseconds(), minCallMillis)))
	head[4] = what
	if err := c.f.send(frameRequest, id, head[:], payload); err != nil {
		c.forget(id)
		if errors.Is(err, errFrameTooLarge) {
			return 0, nil, notSent(err)
		}
		c.end()
		// A frame that was not written whole is never decoded.
		return 0, nil, notSent(fmt.Errorf("%w: %w", errEnded, err))
	}
	select {
	case a, open := <-to:
		if !open {
			return 0, nil, ErrLost
		}
		return a.open()
	case <-ctx.Done():
		c.forget(id)
		return 0, nil, fmt.Errorf("peer: call: %w", ctx.Err())
	}
}

// expect reserves a correlation id; false when the connection has ended.
func (c *caller) expect() (uint64, chan answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, nil, false
	}
	c.next++
	to := make(chan answer, 1)
	c.waiting[c.next] = to
	return c.next, to, true
}

// end makes the next call take another connection; the reader ends by the closed socket and fails what waits.
func (c *caller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

func (c *caller) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// open takes an answer apart.
func (a answer) open() (uint8, []byte, error) {
	switch {
	case a.kind == frameFailure:
		return 0, nil, decodeFailure(a.body)
	case a.kind == frameDecline:
		return 0, nil, notSent(decodeFailure(a.body))
	case a.kind == frameAnswer && len(a.body) > 0:
		return a.body[0], a.body[1:], nil
	}
	return 0, nil, errFrameMangled
}
