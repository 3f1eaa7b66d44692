package fetcher

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// batchSize is the size of every batch in these tests; a batch is its offset, repeated.
const batchSize = 64

func batch(at record.Offset) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(at)), batchSize/8)
}

func tp(n int32) cluster.TopicPartition { return cluster.TopicPartition{Partition: n} }

var errEnded = errors.New("stream ended")

// pipe is a replication stream in memory; each direction holds a few frames.
type pipe struct {
	epoch cluster.BrokerEpoch
	up    chan session.Up
	down  chan session.Down
	end   chan struct{}
	once  sync.Once

	mu       sync.Mutex // guards recycled
	recycled int
}

func newPipe(epoch cluster.BrokerEpoch) *pipe {
	return &pipe{epoch: epoch, up: make(chan session.Up, 4), down: make(chan session.Down, 4), end: make(chan struct{})}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

// followerEnd and leaderEnd are the two sides of a pipe.
type followerEnd struct{ *pipe }
type leaderEnd struct{ *pipe }

func (e followerEnd) Send(frames []session.Up) error {
	for _, f := range frames {
		select {
		case e.up <- f:
		case <-e.end:
			return errEnded
		}
	}
	return nil
}

func (e followerEnd) Recv() (session.Down, error) {
	select {
	case d := <-e.down:
		return d, nil
	case <-e.end:
		return nil, errEnded
	}
}

func (e followerEnd) Recycle([]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recycled++
}

func (e leaderEnd) Recv() (session.Up, error) {
	select {
	case u := <-e.up:
		return u, nil
	case <-e.end:
		return nil, errEnded
	}
}

func (e leaderEnd) put(d session.Down) error {
	select {
	case e.down <- d:
		return nil
	case <-e.end:
		return errEnded
	}
}

func (e leaderEnd) SendData(d session.Data, r Range) error {
	if r != nil {
		d.Bytes, _ = r.AppendTo(nil)
	}
	return e.put(d)
}
func (e leaderEnd) SendRefused(r session.Refused) error { return e.put(r) }
func (e leaderEnd) Flush() error                        { return nil }

// transport makes a pipe per dial and gives its other end to dialled, or fails while refuse is set.
type transport struct {
	dialled chan *pipe

	mu     sync.Mutex // guards the two below
	refuse error
	dials  int
}

func (t *transport) DialReplication(ctx context.Context, _ cluster.BrokerID, self cluster.BrokerEpoch) (FollowerStream, error) {
	t.mu.Lock()
	t.dials++
	err := t.refuse
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p := newPipe(self)
	select {
	case t.dialled <- p:
		return followerEnd{p}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *transport) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refuse = err
}

func (t *transport) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dials
}

// target is a set of follower logs.
type target struct {
	events chan string

	mu     sync.Mutex // guards the rest
	ends   map[cluster.TopicPartition]record.Offset
	refuse int  // so many data frames are not taken
	absent bool // no partition follows
}

func newTarget() *target {
	return &target{events: make(chan string, 1000), ends: map[cluster.TopicPartition]record.Offset{}}
}

func (t *target) Data(p cluster.TopicPartition, _ record.LeaderEpoch, d session.Data, recycle func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refuse > 0 {
		t.refuse--
		return false
	}
	if d.First != t.ends[p] {
		t.events <- "gap"
		return false
	}
	for b := range slices.Chunk(d.Bytes, batchSize) {
		if !bytes.Equal(b, batch(t.ends[p])) {
			t.events <- "wrong bytes"
		}
		t.ends[p]++
	}
	recycle()
	recycle() // a target that gives back twice harms nobody
	return true
}

func (t *target) Refused(p cluster.TopicPartition, _ record.LeaderEpoch, r session.Refused) {
	t.events <- "refused " + r.Code.String()
}

func (t *target) Lost(p cluster.TopicPartition, _ record.LeaderEpoch) { t.events <- "lost" }

func (t *target) Position(p cluster.TopicPartition, _ record.LeaderEpoch) (Position, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Position{LogEnd: t.ends[p], Flushed: t.ends[p], LastEpoch: record.NoEpoch}, !t.absent
}

func (t *target) end(p cluster.TopicPartition) record.Offset {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ends[p]
}

// source is a set of leader logs: every batch has one offset.
type source struct {
	mu         sync.Mutex // guards the rest
	ends       map[cluster.TopicPartition]record.Offset
	hw         map[cluster.TopicPartition]record.Offset
	sinks      map[cluster.TopicPartition]subscription
	acks       []session.Ack
	refuse     map[cluster.TopicPartition]session.Refused
	released   int
	ranges     int
	unreadable error
}

type subscription struct {
	id   session.SubscriptionID
	sink Sink
}

func newSource() *source {
	return &source{
		ends:   map[cluster.TopicPartition]record.Offset{},
		hw:     map[cluster.TopicPartition]record.Offset{},
		sinks:  map[cluster.TopicPartition]subscription{},
		refuse: map[cluster.TopicPartition]session.Refused{},
	}
}

func (s *source) Subscribe(_ cluster.BrokerID, _ cluster.BrokerEpoch, sub session.Subscribe, sink Sink) {
	s.mu.Lock()
	r, refused := s.refuse[sub.Partition]
	if !refused {
		s.sinks[sub.Partition] = subscription{id: sub.ID, sink: sink}
	}
	s.mu.Unlock()
	if refused {
		r.ID = sub.ID
		sink.Refused(r)
		return
	}
	sink.Accepted(sub.ID, &reader{s: s, tp: sub.Partition})
}

func (s *source) Unsubscribe(_ cluster.BrokerID, _ cluster.BrokerEpoch, p cluster.TopicPartition, id session.SubscriptionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sinks[p].id == id {
		delete(s.sinks, p)
	}
}

func (s *source) Ack(_ cluster.BrokerID, _ cluster.BrokerEpoch, _ cluster.TopicPartition, _ record.LeaderEpoch, a session.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(s.acks, a)
}

// append adds n batches and wakes the follower.
func (s *source) append(p cluster.TopicPartition, n int) {
	s.mu.Lock()
	s.ends[p] += record.Offset(n)
	to, ok := s.sinks[p]
	s.mu.Unlock()
	if ok {
		to.sink.Wake(to.id)
	}
}

func (s *source) subscribed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sinks)
}

type reader struct {
	s  *source
	tp cluster.TopicPartition
}

func (r *reader) ReadReplica(from record.Offset, limit int) (Range, record.Offset, record.Offset, record.Offset, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.unreadable != nil {
		return nil, 0, 0, 0, r.s.unreadable
	}
	end := min(r.s.ends[r.tp], from+record.Offset(max(limit/batchSize, 1)))
	if end == from {
		return nil, from, r.s.hw[r.tp], 0, nil
	}
	var b []byte
	for at := from; at < end; at++ {
		b = append(b, batch(at)...)
	}
	r.s.ranges++
	return &memRange{s: r.s, b: b}, end, r.s.hw[r.tp], 0, nil
}

type memRange struct {
	s *source
	b []byte
}

func (r *memRange) Len() int { return len(r.b) }
func (r *memRange) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.b)
	return int64(n), err
}
func (r *memRange) AppendTo(dst []byte) ([]byte, error) { return append(dst, r.b...), nil }
func (r *memRange) Release() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.released++
}
