package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// Times and sizes of clients.
const (
	answerTimeout = 2 * time.Second
	maxFetchBytes = 8 << 10
	// maxReadBytes is what a consumer asks for: little enough for the broker to have the head of every batch at hand, and to look at it again (segment/DESIGN.md).
	maxReadBytes   = 2 << 10
	maxDecompress  = 1 << 20
	producersEach  = 2 // idempotent producers of each partition
	askersEach     = 4 // clients that ask for the latest offset of each partition
	maxRecordsEach = 3
)

// workload is the clients: producers that retry until they know, one that does not care, consumers, and some that ask for the latest offset.
type workload struct {
	w         *World
	producers []*producer
	pipelines []*pipeline
	consumers []*consumer
	stopping  bool
	clients   int
	nextPID   record.ProducerID
	admin     node
}

func newWorkload(w *World) *workload {
	l := &workload{w: w}
	l.admin = l.client()
	for _, tp := range w.live() {
		l.attend(tp)
	}
	return l
}

// attend sends clients to a partition: they have heard of it.
func (l *workload) attend(tp cluster.TopicPartition) {
	w := l.w
	start := func(what func()) { w.after(w.between(0, 100*time.Millisecond), what) }
	for i := range producersEach {
		if i > 0 && w.chance(500) && !w.opts.without(partPipelines) {
			start(l.newPipeline(tp).start)
			continue
		}
		start(l.newProducer(tp).next)
	}
	if !w.opts.without(partCareless) {
		p := &producer{careless: true}
		l.add(p, tp)
		start(p.next)
	}
	for i, part := range []string{partConsumers, partFollowers} {
		if w.opts.without(part) {
			continue
		}
		c := &consumer{l: l, node: l.client(), tp: tp, anyReplica: i > 0, lastEpoch: record.NoEpoch, to: l.route(tp)}
		l.consumers = append(l.consumers, c)
		start(c.fetch)
	}
	for range askersEach {
		if w.opts.without(partAskers) {
			break
		}
		a := &asker{l: l, node: l.client(), to: l.route(tp)}
		start(a.ask)
	}
}

// newProducer makes an idempotent producer with one batch in flight.
func (l *workload) newProducer(tp cluster.TopicPartition) *producer {
	l.nextPID++
	p := &producer{pid: l.nextPID, acks: partition.AcksISR, losses: l.w.check.ledgers[tp].decided(), behind: l.w.drawBehind()}
	l.add(p, tp)
	return p
}

// add takes a producer in.
func (l *workload) add(p *producer, tp cluster.TopicPartition) {
	p.l, p.node, p.tp, p.to = l, l.client(), tp, l.route(tp)
	l.producers = append(l.producers, p)
}

func (l *workload) client() node {
	l.clients++
	return clientNode + node(l.clients)
}

func (l *workload) nodes() []node {
	var out []node
	for i := range l.clients {
		out = append(out, clientNode+node(i+1))
	}
	return out
}

// unfinished says which producer still waits for the fate of a write, empty for none.
func (l *workload) unfinished() string {
	if !l.stopping {
		return "producers go on"
	}
	for _, p := range l.producers {
		if p.op != nil && !p.to.ended() {
			return fmt.Sprintf("producer %d waits for %s: %s", p.pid, l.w.named(p.tp), p.last)
		}
	}
	for _, p := range l.pipelines {
		if waits := p.waits(); waits != "" {
			return waits
		}
	}
	return ""
}

// behind says which consumer has not read everything, empty for none.
func (l *workload) behind() string {
	for _, c := range l.consumers {
		if c.to.ended() {
			continue
		}
		p, _ := l.w.meta.state.Image().Partition(c.tp)
		if r := l.w.brokers[p.Leader].replica(c.tp); c.position != r.at.HighWatermark {
			return fmt.Sprintf("a consumer of %s is at %d of %d", l.w.named(c.tp), c.position, r.at.HighWatermark)
		}
	}
	return ""
}

// route is what one client knows of a partition's leader. As clients do, it keeps what it knows until a request fails, and never goes back to an
// older leader epoch.
type route struct {
	l      *workload
	tp     cluster.TopicPartition
	leader *broker
	epoch  record.LeaderEpoch
}

func (l *workload) route(tp cluster.TopicPartition) route {
	return route{l: l, tp: tp, leader: l.w.brokers[0], epoch: record.NoEpoch}
}

// ledger is what everybody together knows of the partition.
func (r *route) ledger() *ledger { return r.l.w.check.ledgers[r.tp] }

// ended says that the topic was deleted: its clients go home. Until they notice, they try in vain.
func (r *route) ended() bool { return r.ledger().gone }

// refresh asks some broker for the metadata that it has, which may be old.
func (r *route) refresh() {
	w := r.l.w
	image := w.brokers[w.rng.IntN(len(w.brokers))].image
	if p, ok := image.Partition(r.tp); ok && p.Leader >= 0 && p.LeaderEpoch >= r.epoch {
		r.leader, r.epoch = w.brokers[p.Leader], p.LeaderEpoch
	}
}

// call takes a request to a broker and lets serve handle it there. lost is called when the client learns that its connection is gone; it does not
// always.
func (l *workload) call(from node, b *broker, serve, lost func()) {
	w := l.w
	w.cov.Operations++
	reset := func() {
		if w.chance(800) {
			w.net.send(b.node(), from, lost)
		}
	}
	w.net.send(from, b.node(), func() {
		if !b.up {
			reset()
			return
		}
		b.hangUp = append(b.hangUp, reset)
		b.do(serve)
	})
}

// producer writes to one partition, one batch at a time.
type producer struct {
	l        *workload
	node     node
	tp       cluster.TopicPartition
	pid      record.ProducerID // 0 for none
	seq      record.Sequence
	acks     partition.Acks
	careless bool // without idempotence, at any level, and never again
	to       route
	op       *operation
	last     string        // what the newest answer was
	losses   int           // of the partition, before it began
	over     bool          // another one has taken its place
	behind   time.Duration // that its timestamps lie in the past
	placed   order         // of its values, as far as the checker knows where they are
}

// operation is one batch until its fate is known.
type operation struct {
	first, count int64 // of its values
	batch        []byte
	floor        record.Offset // what was acknowledged before it was first sent lies below it, as far as that was not lost since
	losses       int           // of the partition, until then
	attempts     int
	opening      bool // is the first of a pipeline
}

// bound is below where nothing lies that was acknowledged before, and was not lost since.
func (o *operation) bound(l *ledger) record.Offset { return min(o.floor, l.cutSince(o.losses)) }

// next makes a batch and sends it.
func (p *producer) next() {
	if p.l.stopping || p.over || p.to.ended() {
		return
	}
	w := p.l.w
	if p.careless {
		p.acks = partition.Acks(w.rng.IntN(3))
	}
	p.op = &operation{count: 1 + w.rng.Int64N(maxRecordsEach), floor: p.to.ledger().acked, losses: p.to.ledger().decided()}
	p.op.first = w.check.newValues(p, p.op.count)
	p.op.batch = p.encode(p.op, p.seq)
	p.to.ledger().inFlight++
	op := p.op
	p.mayRepeat(op, func() bool { return p.op == op })
	p.send()
}

// encode makes the batch of an operation. The value of a record is its number, and padding.
func (p *producer) encode(op *operation, seq record.Sequence) []byte {
	w := p.l.w
	o := record.BuilderOptions{ProducerID: p.pid, BaseSequence: seq}
	if w.opts.Plant == PlantForgetsSequence {
		o = record.BuilderOptions{}
	}
	b := record.NewBuilder(o)
	for i := range op.count {
		value := strconv.FormatInt(op.first+i, 10) + ":" + strings.Repeat("x", w.rng.IntN(300))
		b.Append(p.timestamp(), nil, []byte(value), nil)
	}
	batch, err := b.Build()
	w.check.must(err)
	return batch.Bytes()
}

// timestamp is that of what the producer writes now.
func (p *producer) timestamp() int64 { return wallStartMs + (p.l.w.now - p.behind).Milliseconds() }

// send makes an attempt. An answer to an older one is not waited for any more.
func (p *producer) send() {
	w, op := p.l.w, p.op
	attempt := op.attempts
	current := func() bool { return p.op == op && op.attempts == attempt }
	b := p.to.leader
	deadline := w.between(300*time.Millisecond, answerTimeout)
	p.l.call(p.node, b, func() {
		b.produce(p.tp, append([]byte(nil), op.batch...), p.acks, b.Now()+deadline, func(res partition.ProduceResult) {
			w.net.send(b.node(), p.node, func() {
				if current() {
					p.answered(res)
				}
			})
		})
	}, func() {
		if current() {
			p.last = "connection lost"
			p.again()
		}
	})
	w.after(answerTimeout+500*time.Millisecond, func() {
		if current() {
			p.last = "no answer"
			p.again()
		}
	})
}

// again retries, or gives up without knowing.
func (p *producer) again() {
	w, op := p.l.w, p.op
	p.to.refresh()
	if p.careless || p.to.ended() {
		p.done()
		return
	}
	op.attempts++ // whatever comes for the old attempt is too late
	w.cov.Retries++
	attempt := op.attempts
	w.after(w.between(20*time.Millisecond, 150*time.Millisecond), func() {
		if p.op == op && op.attempts == attempt {
			p.send()
		}
	})
}

// done ends the operation and thinks about the next.
func (p *producer) done() {
	p.op = nil
	p.to.ledger().inFlight--
	p.l.w.after(p.silence(p.l.w.between(time.Millisecond, 80*time.Millisecond)), p.next)
}

// answered takes the answer of a broker.
func (p *producer) answered(res partition.ProduceResult) {
	w, op := p.l.w, p.op
	w.note("produced", int64(p.pid), w.key(p.tp), op.first, int64(res.Code), int64(res.BaseOffset), int64(res.LeaderEpoch))
	p.last = res.Code.String()
	switch {
	case res.Code == cluster.CodeNone:
		p.acknowledged(res.BaseOffset, res.LeaderEpoch)
		if p.pid > 0 {
			p.seq = p.seq.Next(int32(op.count))
		}
		p.done()
	case retriable(res.Code):
		if p.careless && res.BaseOffset < 0 {
			w.check.refused(op.first, op.count)
		}
		p.again()
	case p.gap(res.Code):
		p.over = true
		p.done()
		p.l.newProducer(p.tp).next()
	default:
		// With one batch in flight, and every earlier one acknowledged, a gap or an unknown producer means that something acknowledged is gone.
		w.check.fail("I1: producer %d of %s is answered %s for sequence %d", p.pid, w.named(p.tp), res.Code, p.seq)
	}
}

// gap reports whether a producer is told that something before a batch is missing, and is right to go on as another one: records of it may have been lost.
func (p *producer) gap(code cluster.Code) bool {
	if code != cluster.CodeOutOfOrderSequence || len(p.to.ledger().losses) == p.losses {
		return false
	}
	p.l.w.cov.ProducersRenewed++
	return true
}

// retriable reports whether a client asks again after that answer.
func retriable(code cluster.Code) bool {
	switch code {
	case cluster.CodeNotLeader, cluster.CodeFencedLeaderEpoch, cluster.CodeUnknownLeaderEpoch, cluster.CodeNotEnoughReplicas, cluster.CodeNotEnoughReplicasAfter,
		cluster.CodeTimedOut, cluster.CodeStorage, cluster.CodeOverloaded, cluster.CodeShuttingDown, cluster.CodeUnknownTopic:
		return true
	}
	return false
}

func (p *producer) acknowledged(base record.Offset, epoch record.LeaderEpoch) {
	w, op := p.l.w, p.op
	if p.acks != partition.AcksISR {
		return // such a record may be lost
	}
	w.cov.Acknowledged++
	p.to.epoch = max(p.to.epoch, epoch) // metadata of a former leader comes too late from here on
	l, end := p.to.ledger(), base+record.Offset(op.count)
	if l.outdated(epoch, end) {
		return // it was lost on the way of the answer
	}
	if floor := op.bound(l); base < floor {
		w.check.fail("I3: %d of %s is at %d, below %d that was acknowledged before it was sent", op.first, w.named(p.tp), base, floor)
	}
	w.check.acknowledged(p.tp, base, op.first, op.count)
	l.acked = max(l.acked, end)
}

// produce is a broker's door for a batch. A broker without the replica does not lead it.
func (b *broker) produce(tp cluster.TopicPartition, batch []byte, acks partition.Acks, deadline time.Duration, answer func(partition.ProduceResult)) {
	r := b.replica(tp)
	if r == nil {
		b.early.Note(tp, batch)
		answer(partition.ProduceResult{Code: cluster.CodeNotLeader, BaseOffset: -1})
		return
	}
	if b.nearlyFull() {
		r.post(func() { r.NoteRefused(batch) })
		answer(partition.ProduceResult{Code: cluster.CodeStorage, BaseOffset: -1})
		return
	}
	r.post(func() {
		r.Produce(partition.ProduceRequest{LeaderEpoch: record.NoEpoch, Batch: batch, Acks: acks, Deadline: deadline}, partition.NewCompletion(answer))
	})
}
