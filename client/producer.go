package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// producer holds what waits to be acknowledged.
type producer struct {
	c *Client

	mu       sync.Mutex // guards what follows, and every partProducer, batch and sink state
	topics   map[string]*topicProducer
	sinks    map[string]*sink // by address
	buffered int64            // bytes of records without outcome
	waiting  int              // records without outcome
	changed  chan struct{}    // closed and replaced when buffered or waiting falls
	urgent   int              // callers that want no linger
	id       int64            // producer id that partitions begin with; 0 until asked for
	epoch    int16
	closed   bool
	outcomes []*batch       // finished, in order, whose promises are to be called
	settling bool           // a goroutine calls promises: only one does, so that they keep their order
	wg       sync.WaitGroup // sinks
}

// topicProducer is a topic that is produced to.
type topicProducer struct {
	parts  []*partProducer
	sticky int32 // partition of records that may go anywhere
	used   bool  // whether sticky has had a batch
}

func newProducer(c *Client) *producer {
	return &producer{c: c, topics: map[string]*topicProducer{}, sinks: map[string]*sink{}, changed: make(chan struct{})}
}

func (p *producer) produce(ctx context.Context, r *Record, promise func(*Record, error)) {
	if r.Timestamp.IsZero() {
		r.Timestamp = time.Now()
	}
	size := r.size()
	if size+record.HeaderSize > p.c.cfg.batchBytes {
		promise(r, fmt.Errorf("%w: %d bytes, limit %d", ErrRecordTooLarge, size+record.HeaderSize, p.c.cfg.batchBytes))
		return
	}
	p.mu.Lock()
	topic, err := p.reserve(ctx, r.Topic, size)
	if err != nil {
		p.mu.Unlock()
		promise(r, err)
		return
	}
	q, err := p.choose(topic, r)
	if err != nil {
		p.release(1, size)
		p.mu.Unlock()
		promise(r, err)
		return
	}
	p.append(q, pending{r, promise}, size)
	p.mu.Unlock()
}

// reserve finds the topic and takes buffer space for one record. It is called with mu held, and gives it up while it waits.
func (p *producer) reserve(ctx context.Context, name string, size int) (*topicProducer, error) {
	for {
		if p.closed {
			return nil, ErrClosed
		}
		topic := p.topics[name]
		if topic == nil {
			p.mu.Unlock()
			info, err := p.c.lookup(ctx, name, p.c.cfg.createMissing)
			p.mu.Lock()
			if err != nil {
				return nil, err
			}
			p.syncTopic(info)
			continue
		}
		if p.buffered+int64(size) <= p.c.cfg.maxBuffered {
			p.buffered += int64(size)
			p.waiting++
			return topic, nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
			p.mu.Lock()
		case <-ctx.Done():
			p.mu.Lock()
			return nil, ctx.Err()
		}
	}
}

// release gives buffer space back.
func (p *producer) release(records, bytes int) {
	p.waiting -= records
	p.buffered -= int64(bytes)
	close(p.changed)
	p.changed = make(chan struct{})
}

// syncTopic makes the queues match the partitions of a topic, and their sinks the leaders.
func (p *producer) syncTopic(info *topicInfo) {
	topic := p.topics[info.name]
	if topic == nil {
		topic = new(topicProducer)
		p.topics[info.name] = topic
	}
	for i := len(topic.parts); i < len(info.partitions); i++ {
		topic.parts = append(topic.parts, &partProducer{topic: info.name, number: int32(i)})
	}
	for _, q := range topic.parts {
		p.place(q)
	}
	if !topic.used && len(topic.parts) > 0 {
		topic.sticky = rand.Int32N(int32(len(topic.parts)))
	}
}

// place gives the queue to the sink of its leader.
func (p *producer) place(q *partProducer) {
	if p.closed {
		return
	}
	endpoint, _, ok := p.c.meta.leader(q.topic, q.number)
	if !ok {
		q.sink = nil
		q.awaitMeta = true
		p.c.meta.want()
		return
	}
	q.awaitMeta = false
	s := p.sinks[endpoint]
	if s == nil {
		s = newSink(p, endpoint)
		p.sinks[endpoint] = s
		p.wg.Go(s.run)
	}
	if q.sink != s {
		q.sink, q.listed = s, false
		q.rewind = q.sent > 0 // the old leader's answers come first
		q.retryAt = time.Time{}
	}
	p.list(q)
}

// list puts a queue with work on its sink's list and wakes the sink.
func (p *producer) list(q *partProducer) {
	if q.sink == nil || len(q.batches) == 0 {
		return
	}
	if !q.listed {
		q.listed = true
		q.sink.queues = append(q.sink.queues, q)
	}
	q.sink.nudge()
}

// choose finds the queue of a record.
func (p *producer) choose(topic *topicProducer, r *Record) (*partProducer, error) {
	n := int32(len(topic.parts))
	if n == 0 {
		return nil, fmt.Errorf("client: topic %s has no partitions", r.Topic)
	}
	i := p.c.cfg.partitioner.Partition(r, n)
	if i == AnyPartition {
		if topic.used && topic.parts[topic.sticky].open() == nil {
			topic.sticky = p.another(topic)
		}
		topic.used = true
		i = topic.sticky
	}
	if i < 0 || i >= n {
		p.c.meta.want() // it may be new: the next try finds it
		return nil, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC, Leader: -1, LeaderEpoch: -1,
			Message: fmt.Sprintf("topic %s has no partition %d, only %d", r.Topic, i, n)}
	}
	return topic.parts[i], nil
}

// another picks a random partition, other than the present one, that has a leader; the present one if there is none.
func (p *producer) another(topic *topicProducer) int32 {
	n := int32(len(topic.parts))
	start := rand.Int32N(n)
	for k := range n {
		if i := (start + k) % n; i != topic.sticky && topic.parts[i].sink != nil {
			return i
		}
	}
	return topic.sticky
}

// append puts a record into the open batch of a queue, or a new one.
func (p *producer) append(q *partProducer, r pending, size int) {
	cfg := &p.c.cfg
	b := q.open()
	if b != nil && (b.bytes+size+record.HeaderSize > cfg.batchBytes || len(b.records) >= cfg.batchRecords) {
		b.sealed = true
		b = nil
	}
	if b == nil {
		now := time.Now()
		b = &batch{part: q, opened: now, deadline: now.Add(cfg.deliveryTimeout)}
		q.batches = append(q.batches, b)
		p.list(q)
	}
	b.records = append(b.records, r)
	b.bytes += size
	if b.bytes+record.MaxRecordOverhead+record.HeaderSize > cfg.batchBytes || len(b.records) >= cfg.batchRecords {
		b.sealed = true
		p.list(q)
	}
}

func (p *producer) produceBatch(ctx context.Context, topicName string, partition int32, raw []byte, done func(int64, error)) {
	if done == nil {
		done = func(int64, error) {}
	}
	p.mu.Lock()
	topic, err := p.reserve(ctx, topicName, len(raw))
	if err == nil && (partition < 0 || int(partition) >= len(topic.parts)) {
		p.release(1, len(raw))
		p.c.meta.want() // it may be new: the next try finds it
		err = fmt.Errorf("client: topic %s has no partition %d", topicName, partition)
	}
	if err != nil {
		p.mu.Unlock()
		done(-1, err)
		return
	}
	q := topic.parts[partition]
	if b := q.open(); b != nil {
		b.sealed = true
	}
	now := time.Now()
	q.batches = append(q.batches, &batch{
		part: q, raw: raw, done: done, bytes: len(raw), sealed: true, opened: now, deadline: now.Add(p.c.cfg.deliveryTimeout),
	})
	p.list(q)
	p.mu.Unlock()
}

// hurry switches linger off while any caller wants it.
func (p *producer) hurry(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urgent += by
	for _, s := range p.sinks {
		s.nudge()
	}
}

func (p *producer) flush(ctx context.Context) error {
	p.hurry(1)
	defer p.hurry(-1)
	for {
		p.mu.Lock()
		waiting, changed, closed := p.waiting, p.changed, p.closed
		p.mu.Unlock()
		switch {
		case waiting == 0:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followLeaders places every queue again after new metadata.
func (p *producer) followLeaders() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, topic := range p.topics {
		if info := p.c.meta.topic(name); info != nil {
			p.syncTopic(info)
			continue
		}
		for _, q := range topic.parts {
			q.sink = nil // deleted; records wait for it to come back until their deadline
		}
	}
}

// close stops the sinks, then fails what is left.
func (p *producer) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.sinks {
		s.stop()
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.mu.Lock()
	for _, topic := range p.topics {
		for _, q := range topic.parts {
			for _, b := range q.batches {
				if b.state != batchDone {
					b.unsure = b.unsure || b.state == batchSent
					q.giveUp(b, ErrClosed)
				}
			}
			p.pop(q)
		}
	}
	p.mu.Unlock()
	p.settle()
}

// pop takes the finished batches off a queue. Whoever calls it calls settle after giving up mu.
func (p *producer) pop(q *partProducer) { p.outcomes = append(p.outcomes, q.pop()...) }

// settle calls the promises of finished batches, unless another goroutine does already. mu must not be held.
func (p *producer) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settling {
		return
	}
	p.settling = true
	for len(p.outcomes) > 0 {
		batches := p.outcomes
		p.outcomes = nil
		p.mu.Unlock()
		for _, b := range batches {
			b.settle()
		}
		p.mu.Lock()
		for _, b := range batches {
			p.release(max(1, len(b.records)), b.bytes)
		}
	}
	p.settling = false
}
