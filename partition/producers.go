package partition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// Bounds of the producer state.
const (
	// producerWindow is how many batches of a producer are remembered: clients keep at most five in flight.
	producerWindow = 5
	// maxRefused bounds the producers of which a refused first batch is remembered.
	maxRefused = 1024
	// refusedFor is how long it is remembered.
	refusedFor = 60_000 // ms
	// doubtFor is how long a later batch is put off when it is not known whether another leader has taken the first: longer than what was sent on a connection
	// that its client has given up since may lie on the way.
	doubtFor = 5_000 // ms
)

// rememberedBatch is one batch of a producer.
type rememberedBatch struct {
	first, last record.Sequence
	base, end   record.Offset
}

// producer is what is known of one producer id.
type producer struct {
	epoch  record.ProducerEpoch
	count  uint8
	lastMs int64 // wall clock of the newest append, or of a repeat here
	window [producerWindow]rememberedBatch
}

// newest is the newest remembered batch; count is at least 1.
func (p *producer) newest() *rememberedBatch { return &p.window[p.count-1] }

// remember adds a batch and forgets the oldest.
func (p *producer) remember(b rememberedBatch) {
	if p.count == producerWindow {
		copy(p.window[:], p.window[1:])
		p.count--
	}
	p.window[p.count] = b
	p.count++
}

// refusedBatch is a first batch that was refused on passing grounds: the same batch may be taken when it comes again.
type refusedBatch struct {
	epoch   record.ProducerEpoch
	first   record.Sequence
	leading record.LeaderEpoch // in which the leader that is here has refused it; NoEpoch when another led, and may have taken it since
	untilMs int64
	// doubted is the epoch in which the leader that is here has put a later batch off, doubtedMs since when; NoEpoch for none.
	doubted   record.LeaderEpoch
	doubtedMs int64
}

// Producers is the state that makes produce idempotent: per producer id its epoch and newest batches. Leaders decide by it; followers keep the same
// from the batches they copy, so that it is there when they lead.
type Producers struct {
	known map[record.ProducerID]*producer
	// refused remembers unknown producers whose batch was refused, so that the ones that follow it in flight do not slip in before its retry
	// (case 68), also when this replica has come to lead meanwhile. It is not part of the log's state: another leader lets them in, as Kafka does.
	refused map[record.ProducerID]refusedBatch
	undo    []undoProducer
}

// undoProducer is how a producer was before a batch that is not yet in the log.
type undoProducer struct {
	id    record.ProducerID
	known bool
	was   producer
}

func newProducers() *Producers {
	return &Producers{known: map[record.ProducerID]*producer{}, refused: map[record.ProducerID]refusedBatch{}}
}

// verdict is what a producer's state says about a batch.
type verdict struct {
	code cluster.Code
	// original, if not nil, is the same batch appended before.
	original *rememberedBatch
}

// check decides about a batch. A producer without state is let in with any sequence: its state expired, or retention took its records
// (KIP-360, case 70). leading is the epoch in which this replica leads.
func (t *Producers) check(b record.Head, leading record.LeaderEpoch, nowMs int64) verdict {
	if !b.HasProducer() {
		return verdict{}
	}
	p, known := t.known[b.ProducerID()]
	if !known {
		return t.checkUnknown(b, leading, nowMs)
	}
	first := b.BaseSequence()
	switch {
	case b.ProducerEpoch() < p.epoch:
		return verdict{code: cluster.CodeFencedProducer}
	case b.ProducerEpoch() > p.epoch:
		if first != 0 {
			return verdict{code: cluster.CodeOutOfOrderSequence}
		}
		return verdict{}
	}
	for i := range p.window[:p.count] {
		if w := &p.window[i]; w.first == first && w.last == b.LastSequence() {
			p.lastMs = max(p.lastMs, nowMs) // who repeats is not idle
			return verdict{original: w}
		}
	}
	expected := p.newest().last.Next(1)
	switch {
	case first == expected, planted.On(planted.SequenceGapAccepted) && !behind(first, expected):
		return verdict{}
	case behind(first, expected):
		return verdict{code: cluster.CodeDuplicateSequence}
	}
	return verdict{code: cluster.CodeOutOfOrderSequence}
}

// checkUnknown decides about a producer without state. Behind a batch that this leader has refused there is a gap. Behind one that was refused when another led,
// it cannot be told: that other may have taken it as a repeat of records that are deleted by now, of which nothing came here. So the producer is told to come
// again. One that waits for the first sends that one before all others, on every connection; so who still comes with the later one after doubtFor has nothing
// before it.
func (t *Producers) checkUnknown(b record.Head, leading record.LeaderEpoch, nowMs int64) verdict {
	r, ok := t.refused[b.ProducerID()]
	if !ok || r.epoch != b.ProducerEpoch() || r.first == b.BaseSequence() || nowMs >= r.untilMs || behind(b.BaseSequence(), r.first) {
		return verdict{}
	}
	if r.leading == leading {
		return verdict{code: cluster.CodeOutOfOrderSequence}
	}
	if r.doubted != leading || nowMs < r.doubtedMs { // wall clocks may go back
		r.doubted, r.doubtedMs = leading, nowMs
		t.refused[b.ProducerID()] = r
	}
	if nowMs-r.doubtedMs >= doubtFor {
		return verdict{}
	}
	return verdict{code: cluster.CodeNotLeader}
}

// behind reports whether sequence a lies before b on the circle of 2^31.
func behind(a, b record.Sequence) bool {
	return uint32(a-b)&0x7fffffff >= 1<<30
}

// noteRefused remembers that the batch of a producer without state was refused and will come again. leading is the epoch in which this replica led then, or
// NoEpoch.
func (t *Producers) noteRefused(b record.Head, leading record.LeaderEpoch, nowMs int64) {
	if !b.HasProducer() || t.known[b.ProducerID()] != nil || planted.On(planted.RefusedBatchForgotten) {
		return
	}
	id := b.ProducerID()
	if r, ok := t.refused[id]; ok && r.epoch == b.ProducerEpoch() && nowMs < r.untilMs && b.BaseSequence() != r.first && !behind(b.BaseSequence(), r.first) {
		return // an earlier one of the same row is remembered
	}
	if len(t.refused) >= maxRefused {
		clear(t.refused)
	}
	t.refused[id] = refusedBatch{epoch: b.ProducerEpoch(), first: b.BaseSequence(), leading: leading, untilMs: nowMs + refusedFor, doubted: record.NoEpoch}
}

// apply takes a batch that is in the log, or is about to be.
func (t *Producers) apply(b record.Head, nowMs int64) {
	if !b.HasProducer() {
		return
	}
	id := b.ProducerID()
	p := t.known[id]
	if p == nil {
		p = &producer{}
		t.known[id] = p
		delete(t.refused, id)
	}
	if b.ProducerEpoch() != p.epoch {
		p.count = 0
	}
	p.epoch = b.ProducerEpoch()
	p.lastMs = nowMs
	p.remember(rememberedBatch{first: b.BaseSequence(), last: b.LastSequence(), base: b.BaseOffset(), end: b.NextOffset()})
}

// applyTentatively is apply for a batch whose append may still be refused.
func (t *Producers) applyTentatively(b record.Head, nowMs int64) {
	if !b.HasProducer() {
		return
	}
	u := undoProducer{id: b.ProducerID()}
	if p := t.known[u.id]; p != nil {
		u.known, u.was = true, *p
	}
	t.undo = append(t.undo, u)
	t.apply(b, nowMs)
}

// settle keeps what was applied tentatively; revert takes it back.
func (t *Producers) settle() { t.undo = t.undo[:0] }

func (t *Producers) revert() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		if u := &t.undo[i]; u.known {
			*t.known[u.id] = u.was
		} else {
			delete(t.known, u.id)
		}
	}
	t.settle()
}

// expire forgets producers that have been idle since before a time.
func (t *Producers) expire(beforeMs int64) {
	for id, p := range t.known {
		if p.lastMs < beforeMs {
			delete(t.known, id)
		}
	}
}

// len is how many producers are known.
func (t *Producers) len() int { return len(t.known) }

// compare says what differs between this state and one that was told by the batches of the log from start on. What was before is not in the log.
func (t *Producers) compare(told *Producers, start record.Offset) error {
	for _, id := range slices.Sorted(maps.Keys(told.known)) {
		p := told.known[id]
		if have := t.known[id]; have == nil || have.epoch != p.epoch {
			return fmt.Errorf("partition: producer %d, epoch %d, is not known, and the log has %+v", id, p.epoch, p.since(start))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		p := t.known[id]
		have, want := p.since(start), []rememberedBatch(nil)
		if in := told.known[id]; in != nil {
			want = in.since(start)
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("partition: of producer %d, epoch %d, %+v is known, and the log has %+v", id, p.epoch, have, want)
		}
	}
	return nil
}

// below is the state as of an offset, as far as it is remembered. A batch that the offset lies in is not part of it: whoever goes on from there applies it.
func (t *Producers) below(at record.Offset) *Producers {
	out := newProducers()
	for id, p := range t.known {
		old := producer{epoch: p.epoch, lastMs: p.lastMs}
		for _, b := range p.window[:p.count] {
			if b.end <= at {
				old.remember(b)
			}
		}
		if old.count > 0 {
			out.known[id] = &old
		}
	}
	return out
}

// since lists the remembered batches that reach beyond start.
func (p *producer) since(start record.Offset) []rememberedBatch {
	return slices.DeleteFunc(slices.Clone(p.window[:p.count]), func(b rememberedBatch) bool { return b.end <= start })
}
