package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

const (
	// maxInFlight is how many batches an idempotent producer may have in flight, as clients have.
	maxInFlight = 5
	// anewIn1000 is how often a producer that waits for nothing gives way to another one, of whom no broker knows anything yet.
	anewIn1000 = 40
	// openingOverrun is how many times as often the first batch of a producer finds a full inbox: what is in flight behind it must not be taken (case 68).
	openingOverrun = 10
)

// pipeline is an idempotent producer with several batches in flight on one connection (case 68). When one of them fails it gives the connection up, and
// sends everything that is not acknowledged again on another, in order.
type pipeline struct {
	producer
	depth int
	ops   []*operation // in the order of their sequences, from the first that is not acknowledged on
	conn  *connection  // nil while it waits to open another
	opens int
	sent  int // batches so far
}

// connection is a way to a broker and back that keeps the order. What was sent on one that the client has given up may still arrive.
type connection struct {
	to   *broker
	life int           // of the broker that has accepted it, 0 for none yet
	last time.Duration // arrival of the newest request
	back time.Duration // and of the newest answer: both ways keep their order
	full time.Duration // until when the broker takes nothing from it, because an inbox is full
	dead bool          // nothing comes through any more
}

// newPipeline makes a producer; some are near the end of the sequence numbers (case 71).
func (l *workload) newPipeline(tp cluster.TopicPartition) *pipeline {
	l.nextPID++
	p := &pipeline{producer: producer{l: l, node: l.client(), tp: tp, pid: l.nextPID, acks: partition.AcksISR, to: l.route(tp), losses: l.w.check.ledgers[tp].decided(),
		behind: l.w.drawBehind()},
		depth: 2 + l.w.rng.IntN(maxInFlight-1)}
	if l.w.chance(300) {
		p.seq = record.Sequence(math.MaxInt32 - l.w.rng.Int32N(60))
	}
	l.pipelines = append(l.pipelines, p)
	return p
}

// start opens the first connection and begins to produce.
func (p *pipeline) start() {
	p.open()
	p.next()
}

// next adds a batch, unless enough are in flight, and schedules the next.
func (p *pipeline) next() {
	w := p.l.w
	if p.l.stopping || p.over || p.to.ended() {
		return
	}
	w.after(p.silence(w.between(time.Millisecond, 40*time.Millisecond)), p.next)
	if p.conn == nil || len(p.ops) >= p.depth {
		return
	}
	if w.faults && len(p.ops) == 0 && w.chance(anewIn1000) {
		p.over, p.conn = true, nil
		p.l.newPipeline(p.tp).start()
		return
	}
	op := &operation{count: 1 + w.rng.Int64N(maxRecordsEach), floor: p.to.ledger().acked, losses: p.to.ledger().decided(), opening: p.sent == 0}
	p.sent++
	op.first = w.check.newValues(&p.producer, op.count)
	op.batch = p.encode(op, p.seq)
	was := p.seq
	if p.seq = was.Next(int32(op.count)); p.seq < was {
		w.cov.SequenceWraps++
	}
	p.ops = append(p.ops, op)
	if len(p.ops) > 1 {
		w.cov.Pipelined++
	}
	p.to.ledger().inFlight++
	p.mayRepeat(op, func() bool { return slices.Contains(p.ops, op) })
	p.send(op)
}

// open makes a connection to whom the producer takes for the leader and sends what is not acknowledged.
func (p *pipeline) open() {
	p.conn = &connection{to: p.to.leader}
	p.opens++
	for _, op := range p.ops {
		if op.attempts++; op.attempts > 1 {
			p.l.w.cov.Retries++
		}
		p.send(op)
	}
}

// send puts a batch onto the connection, behind everything that was sent on it before.
func (p *pipeline) send(op *operation) {
	w, conn := p.l.w, p.conn
	w.cov.Operations++
	way := direction{p.node, conn.to.node()}
	conn.dead = conn.dead || w.net.cut[way] || w.chance(w.net.loss)
	conn.last = max(conn.last+1, w.now+w.net.delay())
	deadline := w.between(300*time.Millisecond, answerTimeout)
	w.at(conn.last, func() {
		if conn.dead = conn.dead || w.net.cut[way]; !conn.dead {
			p.arrive(conn, op, deadline)
		}
	})
	w.after(answerTimeout+500*time.Millisecond, func() { p.failed(conn, op, "no answer") })
}

// arrive hands a batch to the broker. Where the inbox of the partition is full, it waits there until its deadline and is refused then, unless there is room
// before, and what comes behind it on the connection waits with it.
func (p *pipeline) arrive(conn *connection, op *operation, deadline time.Duration) {
	w, b := p.l.w, conn.to
	if w.now < conn.full {
		w.at(conn.full, func() { p.arrive(conn, op, deadline) })
		return
	}
	if conn.dead || !p.accepted(conn) {
		return
	}
	deliver := func() {
		b.produce(p.tp, append([]byte(nil), op.batch...), p.acks, b.Now()+deadline, func(res partition.ProduceResult) { p.answer(conn, op, res) })
	}
	overrun := w.mix.overrun
	if op.opening {
		overrun *= openingOverrun
	}
	if w.faults && w.chance(overrun) {
		w.cov.FullInboxes++
		room := w.between(0, 2*deadline)
		conn.full = w.now + min(room, deadline)
		if room > deadline {
			deliver = func() { b.overloaded(p.tp, op.batch, func(res partition.ProduceResult) { p.answer(conn, op, res) }) }
		}
		w.at(conn.full, func() {
			if !conn.dead && p.accepted(conn) {
				b.do(deliver)
			}
		})
		return
	}
	b.do(deliver)
}

// overloaded refuses a batch for which the inbox of its partition had no room in time, as partition.Runner does.
func (b *broker) overloaded(tp cluster.TopicPartition, batch []byte, answer func(partition.ProduceResult)) {
	if r := b.replica(tp); r != nil {
		r.post(func() { r.NoteRefused(batch) })
	}
	answer(partition.ProduceResult{Code: cluster.CodeOverloaded, BaseOffset: -1})
}

// answer takes an answer back to the client. One that is lost takes the connection with it.
func (p *pipeline) answer(conn *connection, op *operation, res partition.ProduceResult) {
	w := p.l.w
	way := direction{conn.to.node(), p.node}
	conn.dead = conn.dead || w.net.cut[way] || w.chance(w.net.loss)
	conn.back = max(conn.back+1, w.now+w.net.delay())
	w.at(conn.back, func() {
		if conn.dead = conn.dead || w.net.cut[way]; !conn.dead {
			p.answeredOn(conn, op, res)
		}
	})
}

// accepted reports whether the broker has, or now takes, the connection.
func (p *pipeline) accepted(conn *connection) bool {
	w, b := p.l.w, conn.to
	reset := func() {
		conn.dead = true
		if w.chance(800) {
			w.net.send(b.node(), p.node, func() { p.broken(conn, "connection lost") })
		}
	}
	switch {
	case !b.up || conn.life != 0 && conn.life != b.life:
		reset()
		return false
	case conn.life == 0:
		conn.life = b.life
		b.hangUp = append(b.hangUp, reset)
	}
	return true
}

// failed gives the connection up if that batch is still waited for on it.
func (p *pipeline) failed(conn *connection, op *operation, why string) {
	if slices.Contains(p.ops, op) {
		p.broken(conn, why)
	}
}

// broken gives a connection up and opens another one soon.
func (p *pipeline) broken(conn *connection, why string) {
	if p.conn != conn {
		return
	}
	w := p.l.w
	p.conn, p.last = nil, why
	p.to.refresh()
	w.after(w.between(20*time.Millisecond, 150*time.Millisecond), func() {
		if !p.to.ended() {
			p.open()
		}
	})
}

// answeredOn takes the answer to a batch.
func (p *pipeline) answeredOn(conn *connection, op *operation, res partition.ProduceResult) {
	w := p.l.w
	at := slices.Index(p.ops, op)
	if p.conn != conn || at < 0 || p.to.ended() {
		return
	}
	w.note("pipelined", int64(p.pid), w.key(p.tp), op.first, int64(res.Code), int64(res.BaseOffset))
	deleted := res.Code == cluster.CodeDuplicateSequence && at == 0 && p.to.ledger().start > op.bound(p.to.ledger()) // it was stored, and trimmed since
	if res.Code == cluster.CodeNone || deleted {
		if !deleted {
			p.op = op
			p.acknowledged(res.BaseOffset, res.LeaderEpoch)
			p.op = nil
		}
		p.to.ledger().inFlight--
		p.ops = slices.Delete(p.ops, at, at+1)
		return
	}
	if at == 0 && (p.gap(res.Code) || p.forgotten(op, res.Code)) {
		p.over, p.conn = true, nil
		p.to.ledger().inFlight -= len(p.ops)
		p.ops = nil
		p.l.newPipeline(p.tp).start()
		return
	}
	if !retriable(res.Code) && at == 0 {
		// Everything before it is acknowledged, so a gap means that something of that is gone, and a duplicate that something behind it came first.
		w.check.fail("I1: pipelined producer %d of %s is answered %s for %d, the first that is not acknowledged", p.pid, w.named(p.tp), res.Code, op.first)
		return
	}
	p.broken(conn, res.Code.String())
}

// waits says what a producer still waits for, empty for nothing.
func (p *pipeline) waits() string {
	if len(p.ops) == 0 || p.to.ended() {
		return ""
	}
	return fmt.Sprintf("pipelined producer %d waits for %s: %s", p.pid, p.l.w.named(p.tp), p.last)
}

// pipelineFloors are the floors of what producers with several batches in flight do.
func pipelineFloors() []floor {
	return []floor{
		{"batches behind others in flight", func(c *Coverage) int { return c.Pipelined }, 4000},
		{"full inboxes", func(c *Coverage) int { return c.FullInboxes }, 15},
		{"wraps of sequence numbers", func(c *Coverage) int { return c.SequenceWraps }, 20},
	}
}
