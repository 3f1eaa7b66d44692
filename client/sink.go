package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// sink sends the batches of one broker's partitions on one Produce stream. Its goroutine picks, encodes and sends; a second one receives the
// results of the present stream.
type sink struct {
	p        *producer
	endpoint string
	wake     chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
	builder  *record.Builder // of run

	// What follows is guarded by producer.mu.
	queues  []*partProducer // those with work
	turn    int             // where the next pick begins, so that every queue gets its share
	stream  *produceStream
	retryAt time.Time // no connection attempt before
	tries   int       // failed connections in a row
}

// produceStream is one life of the stream, with what is unanswered on it.
type produceStream struct {
	grpc.ClientStream
	cancel     context.CancelFunc
	nextSeq    uint64
	unanswered map[uint64]*batch
	bytes      int64 // of the unanswered
	window     int64 // what the broker allows; 0 until it says
	broken     bool
}

var produceDesc = &moldauv1.LogService_ServiceDesc.Streams[0]

func newSink(p *producer, endpoint string) *sink {
	s := &sink{p: p, endpoint: endpoint, wake: make(chan struct{}, 1), builder: record.NewBuilder(record.BuilderOptions{})}
	s.ctx, s.cancel = context.WithCancel(p.c.ctx)
	return s
}

// nudge makes run look again.
func (s *sink) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sink) stop() { s.cancel() }

// run is the sending goroutine.
func (s *sink) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.lose(nil, ErrClosed)
	for s.ctx.Err() == nil {
		b, wait := s.pick(time.Now())
		if b != nil {
			s.send(b)
			continue
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
}

// idleWait is how long a sink without work sleeps at most.
const idleWait = time.Minute

// pick returns the next batch to send, marked as sent, or how long to wait for one. A batch that needs a producer id is not picked: the id
// is asked for first, which send does for a queue.
func (s *sink) pick(now time.Time) (*batch, time.Duration) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := idleWait
	if now.Before(s.retryAt) {
		return nil, s.retryAt.Sub(now)
	}
	n := len(s.queues)
	for k := 0; k < n && len(s.queues) > 0; k++ {
		i := (s.turn + k) % len(s.queues)
		q := s.queues[i]
		if q.sink != s || len(q.batches) == 0 {
			q.listed = q.listed && q.sink != s
			last := len(s.queues) - 1
			s.queues[i] = s.queues[last]
			s.queues = s.queues[:last]
			continue
		}
		b, until := s.ready(q, now)
		if b != nil {
			s.turn = i + 1
			return b, 0
		}
		wait = min(wait, until)
	}
	return nil, max(wait, time.Millisecond)
}

// ready returns the queue's next batch if it may be sent now.
func (s *sink) ready(q *partProducer, now time.Time) (*batch, time.Duration) {
	p := s.p
	q.settleRewind()
	b := q.head()
	switch {
	case b == nil || b.encoding || q.rewind || q.sent >= p.c.cfg.maxInFlight:
		return nil, idleWait // a result will wake the sink
	case now.Before(q.retryAt):
		return nil, q.retryAt.Sub(now)
	case now.After(b.deadline):
		return nil, idleWait // checkTimeouts fails it and lists the queue again
	case s.stream != nil && len(s.stream.unanswered) > 0 && s.stream.bytes+int64(b.bytes) > s.stream.window:
		return nil, idleWait
	}
	if !b.sealed && p.urgent == 0 && b.tries == 0 {
		if due := b.opened.Add(p.c.cfg.linger); now.Before(due) {
			return nil, due.Sub(now)
		}
	}
	b.sealed = true
	return b, 0
}

// send brings a batch onto the stream, connecting and asking for a producer id where needed.
func (s *sink) send(b *batch) {
	stream, err := s.connect()
	if err == nil {
		err = s.identify(b.part)
	}
	if err != nil {
		s.failed(b.part, err)
		return
	}
	frame, err := s.dispatch(stream, b)
	if err != nil {
		s.p.settle()
		return
	}
	if frame == nil {
		return
	}
	if err := stream.SendMsg(frame); err != nil {
		// The real reason comes from RecvMsg, in the receiving goroutine, which takes everything back.
		stream.cancel()
	}
	frame.Shared.Free()
}

// dispatch numbers and encodes a batch and enters it as unanswered. A nil frame says that the batch is not to be sent now.
func (s *sink) dispatch(stream *produceStream, b *batch) (*grpcframe.Produce, error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	q := b.part
	if stream.broken || !s.next(b) {
		return nil, nil //nolint:nilnil // the next pick decides anew
	}
	info := p.c.meta.topic(q.topic)
	if info == nil {
		q.sink, q.awaitMeta = nil, true
		p.c.meta.want()
		return nil, nil //nolint:nilnil // as above
	}
	if p.c.cfg.idempotent {
		q.assign(b)
	}
	if b.encoded == nil {
		b.encoding = true
		p.mu.Unlock()
		encoded, err := b.encode(s.builder, p.c.cfg.compression, p.c.conns.pool)
		p.mu.Lock()
		b.encoding = false
		if err != nil {
			q.finish(b, -1, err, false)
			p.pop(q)
			return nil, err
		}
		b.encoded = encoded
		if stream.broken || !s.next(b) {
			p.list(q)
			return nil, nil //nolint:nilnil // things changed meanwhile
		}
	}
	_, epoch, _ := p.c.meta.leader(q.topic, q.number)
	frame := &grpcframe.Produce{
		ClientSeq: stream.nextSeq, TopicID: info.rawID, Partition: q.number, LeaderEpoch: epoch, Acks: moldauv1.Acks(p.c.cfg.acks),
		TimeoutMs: int32(p.c.cfg.produceTimeout.Milliseconds()), Shared: b.encoded,
	}
	b.encoded.Ref() // given back when the frame has been sent
	stream.unanswered[stream.nextSeq] = b
	stream.nextSeq++
	stream.bytes += int64(b.bytes)
	b.state, b.sentAt = batchSent, time.Now()
	b.tries++
	q.sent++
	return frame, nil
}

// next reports whether a batch is still the next one to be sent: while the sink connected, asked for an id or encoded without mu, batches
// before it may have come back.
func (s *sink) next(b *batch) bool {
	q := b.part
	return q.sink == s && !q.rewind && !q.freshID && q.head() == b
}

// connect returns the stream, opening one if there is none.
func (s *sink) connect() (*produceStream, error) {
	s.p.mu.Lock()
	stream := s.stream
	s.p.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	c := s.p.c
	cc, err := c.conns.get(s.endpoint)
	if err != nil {
		return nil, err
	}
	if err := c.conns.await(s.ctx, cc); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	raw, err := cc.NewStream(ctx, produceDesc, moldauv1.LogService_Produce_FullMethodName)
	if err != nil {
		cancel()
		return nil, fromStatus(err)
	}
	stream = &produceStream{ClientStream: raw, cancel: cancel, unanswered: map[uint64]*batch{}}
	s.p.mu.Lock()
	s.stream = stream
	s.p.mu.Unlock()
	s.p.wg.Go(func() { s.receive(stream) })
	return stream, nil
}

// identify makes sure that the queue has a producer id.
func (s *sink) identify(q *partProducer) error {
	p := s.p
	if !p.c.cfg.idempotent {
		return nil
	}
	p.mu.Lock()
	need := q.id == 0 || q.freshID
	if need && !q.freshID && p.id != 0 {
		q.renumber(p.id, p.epoch)
		need = false
	}
	p.mu.Unlock()
	if !need {
		return nil
	}
	resp, err := p.c.InitProducerId(s.ctx, &moldauv1.InitProducerIdRequest{})
	if err != nil {
		return err
	}
	id, epoch := resp.GetProducerId(), int16(resp.GetProducerEpoch())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == 0 {
		p.id, p.epoch = id, epoch
	}
	if q.sent == 0 {
		q.renumber(id, epoch)
	}
	return nil
}

// receive is the receiving goroutine of one stream.
func (s *sink) receive(stream *produceStream) {
	var results grpcframe.Results
	for {
		if err := stream.RecvMsg(&results); err != nil {
			s.lose(stream, fromStatus(err))
			return
		}
		s.p.mu.Lock()
		s.tries = 0
		if results.WindowBytes > 0 {
			stream.window = results.WindowBytes
		}
		for i := range results.Results {
			s.take(stream, &results.Results[i])
		}
		s.p.mu.Unlock()
		s.p.settle()
		s.nudge()
	}
}

// take applies one result.
func (s *sink) take(stream *produceStream, r *grpcframe.Result) {
	b := stream.unanswered[r.ClientSeq]
	if b == nil {
		return
	}
	delete(stream.unanswered, r.ClientSeq)
	stream.bytes -= int64(b.bytes)
	if b.state == batchSent {
		s.p.answered(s, b, r)
	}
	b.part.settleRewind()
	s.p.pop(b.part)
	if b.part.sink != s {
		s.p.list(b.part)
	}
}

// failed delays a queue, or the whole sink, after an error before anything was sent.
func (s *sink) failed(q *partProducer, err error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := q.head(); b != nil {
		b.lastErr = err
	}
	s.tries++
	s.retryAt = time.Now().Add(p.backoff(s.tries))
	p.c.meta.want()
	p.c.cfg.log.Info("client: cannot produce", "broker", s.endpoint, "error", err)
}

// lose takes back everything unanswered on a stream that has ended; nil stands for the present one.
func (s *sink) lose(stream *produceStream, err error) {
	p := s.p
	p.mu.Lock()
	if stream == nil {
		stream = s.stream
	}
	if stream == nil || stream.broken {
		p.mu.Unlock()
		return
	}
	stream.broken = true
	if s.stream == stream {
		s.stream = nil
	}
	for seq, b := range stream.unanswered {
		delete(stream.unanswered, seq)
		if b.state != batchSent {
			continue
		}
		b.unsure = true
		b.part.requeue(b, err)
		b.part.settleRewind()
		if b.part.sink != s {
			p.list(b.part)
		}
	}
	s.tries++
	s.retryAt = time.Now().Add(p.backoff(s.tries))
	p.c.meta.want()
	p.mu.Unlock()
	stream.cancel()
	if s.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		p.c.cfg.log.Info("client: produce stream ended", "broker", s.endpoint, "error", err)
	}
	s.nudge()
}
