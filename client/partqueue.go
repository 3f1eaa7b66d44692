package client

import (
	"time"

	"github.com/moldau-log/moldau/record"
)

// partProducer is the queue of one partition. producer.mu guards it.
//
// Invariants: batches are in the order of their sequences; batches in state sent form a run that begins at the first one not done, except
// while rewind is set; while rewind is set nothing is sent, until no batch is in state sent any more.
type partProducer struct {
	topic  string
	number int32
	sink   *sink // who sends to the leader; nil while that is unknown

	batches []*batch
	sent    int // batches in state sent, maybe on the stream of an earlier leader

	rewind    bool // a batch failed: let the others come back, then send again in order
	freshID   bool // the sequence has a gap that can never be filled: continue under a new producer id
	retryAt   time.Time
	failures  int // consecutive, for the backoff
	id        int64
	epoch     int16
	next      record.Sequence
	listed    bool // in its sink's list
	awaitMeta bool // no leader is known
}

// open returns the batch that takes records, or nil.
func (q *partProducer) open() *batch {
	if n := len(q.batches); n > 0 && !q.batches[n-1].sealed {
		return q.batches[n-1]
	}
	return nil
}

// head returns the first batch to be sent, or nil.
func (q *partProducer) head() *batch {
	for _, b := range q.batches {
		if b.state == batchQueued {
			return b
		}
	}
	return nil
}

// pop removes the batches that have their outcome from the front.
func (q *partProducer) pop() []*batch {
	n := 0
	for n < len(q.batches) && q.batches[n].state == batchDone {
		n++
	}
	if n == 0 {
		return nil
	}
	out := append([]*batch(nil), q.batches[:n]...)
	rest := copy(q.batches, q.batches[n:])
	clear(q.batches[rest:])
	q.batches = q.batches[:rest]
	return out
}

// requeue takes a sent batch back to be sent again.
func (q *partProducer) requeue(b *batch, err error) {
	b.state = batchQueued
	b.lastErr = err
	q.sent--
	q.rewind = true
}

// finish gives a batch its outcome. A batch that was given a sequence and did not reach the log leaves a gap: if nothing was numbered after
// it the number is taken back, otherwise the queue goes on under a new producer id.
func (q *partProducer) finish(b *batch, offset int64, err error, appended bool) {
	if b.state == batchSent {
		q.sent--
	}
	b.state = batchDone
	b.offset, b.err = offset, err
	if appended || b.producerID == 0 || b.producerID != q.id {
		return
	}
	if b.sequence.Next(b.count()) == q.next {
		q.next = b.sequence
		return
	}
	q.freshID = true
	q.rewind = true
}

// giveUp ends a batch without acknowledgement. Where it is unknown whether it is in the log, its number cannot be used again.
func (q *partProducer) giveUp(b *batch, err error) {
	if b.unsure {
		err = &unsureError{err}
		if b.producerID != 0 && b.producerID == q.id {
			q.freshID, q.rewind = true, true
		}
	}
	q.finish(b, -1, err, b.unsure)
}

// settleRewind ends a rewind once nothing is under way.
func (q *partProducer) settleRewind() {
	if q.rewind && q.sent == 0 {
		q.rewind = false
	}
}

// renumber gives the queue a new identity, from sequence 0.
func (q *partProducer) renumber(id int64, epoch int16) {
	q.id, q.epoch, q.next, q.freshID = id, epoch, 0, false
	for _, b := range q.batches {
		if b.state == batchQueued && b.producerID != 0 {
			b.producerID = 0
			b.dropEncoded()
		}
	}
}

// assign gives a batch its place in the sequence, at its first try.
func (q *partProducer) assign(b *batch) {
	if b.producerID == 0 && b.raw == nil {
		b.producerID, b.producerEpoch, b.sequence = q.id, q.epoch, q.next
		q.next = q.next.Next(b.count())
	}
}
