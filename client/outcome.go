package client

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// answered decides what a result from a sink's broker means for a batch in state sent. producer.mu is held.
func (p *producer) answered(s *sink, b *batch, r *grpcframe.Result) {
	q := b.part
	err, _ := fromWire(r.Error).(*Error)
	if err == nil {
		q.failures = 0
		q.finish(b, r.BaseOffset, nil, true)
		return
	}
	b.unsure = b.unsure || !storedNothing(err.Code)
	switch err.Code {
	case moldauv1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE:
		// An earlier try is in the log, too far back for the broker to remember where.
		q.finish(b, -1, nil, true)
		return
	case moldauv1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE, moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_PRODUCER:
		if b.raw == nil {
			p.outOfOrder(b, err)
			return
		}
	case moldauv1.ErrorCode_ERROR_CODE_NOT_LEADER, moldauv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH,
		moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC:
		p.moved(s, b, err)
		return
	}
	if !err.Retriable {
		q.giveUp(b, err)
		return
	}
	q.requeue(b, err)
	p.delay(q)
}

// outOfOrder handles a gap before the batch, which was not appended. Behind a batch that failed before, the gap is the expected echo of
// that failure: the batch is sent again in its turn. At the front it says that the log no longer remembers this producer (retention,
// expiry, or lost records after an unclean election), and the queue goes on under a new producer id.
func (p *producer) outOfOrder(b *batch, err *Error) {
	q := b.part
	first := true
	for _, other := range q.batches {
		if other == b {
			break
		}
		first = first && other.state == batchDone
	}
	if first && !q.rewind && !q.freshID {
		q.freshID = true
		p.c.cfg.log.Warn("client: the log does not know this producer's last batch", "topic", q.topic, "partition", q.number, "error", err)
	}
	q.requeue(b, err)
}

// moved handles a refusal that says that the client asked the wrong broker.
func (p *producer) moved(s *sink, b *batch, err *Error) {
	q := b.part
	q.requeue(b, err)
	news := p.c.meta.hint(q.topic, q.number, err)
	if news {
		p.place(q)
	}
	if news || q.sink != s {
		return // leader and epoch are known; the batch goes there as soon as the others are answered
	}
	p.delay(q)
	p.c.meta.want()
}

// delay sets when the queue may try again.
func (p *producer) delay(q *partProducer) {
	q.failures++
	q.retryAt = time.Now().Add(p.backoff(q.failures))
}

// backoff is the wait after so many failures in a row, with jitter.
func (p *producer) backoff(failures int) time.Duration {
	d := p.c.cfg.retryBackoff << min(max(failures-1, 0), 10)
	d = min(d, p.c.cfg.retryBackoffMax)
	return d/2 + rand.N(d/2+1)
}

// stallAfter is how long a batch may be unanswered before the client looks whether its leader still is one.
const stallAfter = time.Second

// checkTimeouts fails batches that are too old, and gives up streams that hold them or whose broker leads no more.
func (p *producer) checkTimeouts(now time.Time) {
	p.mu.Lock()
	var lost []*produceStream
	for _, s := range p.sinks {
		if s.stream != nil && p.stalled(s, now) {
			lost = append(lost, s.stream)
		}
	}
	for _, topic := range p.topics {
		for _, q := range topic.parts {
			p.expire(q, now)
		}
	}
	p.mu.Unlock()
	for _, stream := range lost {
		stream.cancel() // its receiving goroutine takes everything back
	}
	p.settle()
}

// stalled reports whether a stream must be given up, and asks for metadata while a batch waits long.
func (p *producer) stalled(s *sink, now time.Time) bool {
	for _, b := range s.stream.unanswered {
		if now.After(b.deadline) {
			return true
		}
		waited := now.Sub(b.sentAt)
		if waited < stallAfter {
			continue
		}
		if b.part.sink != s || waited > p.c.cfg.produceTimeout+p.c.cfg.dialTimeout {
			return true
		}
		p.c.meta.want()
	}
	return false
}

// expire fails the batches of a queue whose delivery timeout has passed and which are not under way.
func (p *producer) expire(q *partProducer, now time.Time) {
	if q.awaitMeta && len(q.batches) > 0 {
		p.c.meta.want()
	}
	for _, b := range q.batches {
		if b.state != batchQueued || b.encoding || now.Before(b.deadline) {
			continue
		}
		err := ErrDeliveryTimeout
		if b.lastErr != nil {
			err = fmt.Errorf("%w: last: %w", ErrDeliveryTimeout, b.lastErr)
		}
		if b.tries > 0 && b.producerID != 0 {
			q.freshID, q.rewind = true, true // a broker may remember its number
		}
		b.sealed = true
		q.giveUp(b, err)
	}
	q.settleRewind()
	p.pop(q)
	p.list(q)
}
