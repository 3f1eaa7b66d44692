package partition

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
	"github.com/moldau-log/moldau/segment"
)

// Runner is one replica with the goroutine that owns it. The goroutine is parked while there are no inputs, and ends when a whole maintenance round has
// brought none, so that a partition which nobody uses costs its state and no stack. All inputs that have come since the last turn are taken together: requests of several connections go into the log with
// one write and are flushed with one fsync. Its methods may be called from any goroutine.
type Runner struct {
	manager *Manager
	tp      cluster.TopicPartition
	topic   string
	dir     string
	lost    bool // its directory is missing
	noRoom  bool // its log could not be opened because the disk was full
	told    bool // the operator, of what cut says; belongs to who informs
	// cut says that recovery has cut off a rotten end, and that nobody is known to have what was in it.
	cut    atomic.Bool
	reader reader

	mu      sync.Mutex // guards what follows, up to space
	inbox   []message
	acks    []replication.FollowerAck // the newest of each follower
	running bool                      // the goroutine exists
	parked  bool                      // and waits for wake
	closed  bool                      // nothing is taken any more
	// space is closed when a full inbox has been emptied; nil while nobody waits.
	space chan struct{}
	wake  chan struct{} // capacity 1; made with the runner

	// These belong to the goroutine.
	partition *Partition
	spare     []message
	spareAcks []replication.FollowerAck
	stopping  *stop
	quiet     bool          // nothing has come since the last maintenance
	idle      bool          // nor between it and the one before
	armed     time.Duration // for when a tick is set, 0 for none

}

// kind says what a message is.
type kind int8

const (
	kindProduce kind = iota
	kindRefused
	kindData
	kindSubscribe
	kindUnsubscribe
	kindInput // any other input of the machine
	kindInform
	kindFlushed
	kindDamage
	kindTick
	kindMaintain
	kindStatus
	kindProducers
	kindStop
)

// message is one input on its way to the partition.
type message struct {
	kind    kind
	produce ProduceRequest
	done    *Completion
	other   any // by kind: *delivery, *subscriber, *unsubscriber, replication.Input, *informed, *FlushJob, *segment.DamageError, chan<- Status, chan<- []ProducerStatus, *stop
}

type delivery struct {
	leaderEpoch record.LeaderEpoch
	data        session.Data
	recycle     func()
}

type subscriber struct {
	follower cluster.BrokerID
	epoch    cluster.BrokerEpoch
	request  session.Subscribe
	sink     fetcher.Sink
}

type unsubscriber struct {
	follower cluster.BrokerID
	epoch    cluster.BrokerEpoch
	id       session.SubscriptionID
}

// stop ends a runner. finish is what is done with the partition when no flush is under way any more.
type stop struct {
	finish func(*Partition) error
	done   chan error // capacity 1
}

// Partition names the partition.
func (r *Runner) Partition() cluster.TopicPartition { return r.tp }

// Topic is the topic's name.
func (r *Runner) Topic() string { return r.topic }

// LostEnd reports that the log's end was found damaged and cut off, here or in an earlier life, and that the partition has no other replica: records that were acknowledged may be
// lost. It is so until an operator has accepted that.
func (r *Runner) LostEnd() bool { return r.cut.Load() }

// Role is what the replica is at present.
func (r *Runner) Role() Role { return r.reader.view.Load().role }

// put hands a message over; false when limit messages wait already or the runner is closed. Messages of which there is naturally a bounded number
// come with no limit.
func (r *Runner) put(m message, limit int) bool {
	r.mu.Lock()
	if r.closed || (limit > 0 && len(r.inbox) >= limit) {
		r.mu.Unlock()
		return false
	}
	r.inbox = append(r.inbox, m)
	r.start()
	r.mu.Unlock()
	return true
}

// start makes sure that the goroutine is at work. The caller holds mu.
func (r *Runner) start() {
	switch {
	case !r.running:
		r.running = true
		go r.run()
	case r.parked:
		r.parked = false
		r.wake <- struct{}{}
	}
}

// run takes turns, and waits in between.
func (r *Runner) run() {
	for {
		r.mu.Lock()
		if len(r.inbox) == 0 && len(r.acks) == 0 {
			if r.idle || r.closed {
				r.running = false
				r.mu.Unlock()
				return
			}
			r.parked = true
			r.mu.Unlock()
			<-r.wake
			continue
		}
		batch, acks := r.inbox, r.acks
		r.inbox, r.acks = r.spare[:0], r.spareAcks[:0]
		if r.space != nil {
			close(r.space)
			r.space = nil
		}
		r.mu.Unlock()

		r.turn(batch, acks)
		clear(batch)
		r.spare, r.spareAcks = batch[:0], acks[:0]
	}
}

// turn handles a batch of inputs.
func (r *Runner) turn(batch []message, acks []replication.FollowerAck) {
	clock := r.manager.options.Clock
	r.partition.Begin(clock.Now(), clock.WallMs())
	for next := 0; next < len(batch); {
		next = r.handleFrom(batch, next)
	}
	for next := 0; next < len(acks); {
		next = r.acksFrom(acks, next)
	}
	r.settle()
	r.rest(batch, acks)
}

// rest notes whether the partition is in use. Two rounds of maintenance with nothing but questions in between say that it is not.
func (r *Runner) rest(batch []message, acks []replication.FollowerAck) {
	used, maintained := len(acks) > 0, false
	for i := range batch {
		maintained = maintained || batch[i].kind == kindMaintain
		used = used || (batch[i].kind != kindMaintain && batch[i].kind != kindStatus && batch[i].kind != kindProducers)
	}
	switch {
	case used:
		r.quiet, r.idle = false, false
	case maintained:
		r.quiet, r.idle = true, r.quiet
	}
}

// handleFrom handles messages until one breaks an invariant, and returns which comes next.
func (r *Runner) handleFrom(batch []message, next int) (reached int) {
	reached = next
	defer func() { r.recover(recover()) }()
	for reached < len(batch) {
		m := &batch[reached]
		reached++
		r.handle(m)
	}
	return reached
}

func (r *Runner) acksFrom(acks []replication.FollowerAck, next int) (reached int) {
	reached = next
	defer func() { r.recover(recover()) }()
	for reached < len(acks) {
		ack := &acks[reached]
		reached++
		if r.partition.broken == nil {
			r.partition.Step(ack)
		}
	}
	return reached
}

// recover takes the partition offline when an invariant broke. Any other panic is a bug of another kind and goes on.
func (r *Runner) recover(value any) {
	if value == nil {
		return
	}
	violation, ok := invariant.Recovered(value)
	if !ok {
		panic(value)
	}
	r.manager.env.meters.violations.Inc()
	r.partition.Break(violation)
}

// handle executes one message.
func (r *Runner) handle(m *message) {
	p := r.partition
	switch m.kind {
	case kindProduce:
		p.Produce(m.produce, m.done)
	case kindRefused:
		p.NoteRefused(m.produce.Batch)
	case kindData:
		d := m.other.(*delivery)
		p.Deliver(d.leaderEpoch, d.data, d.recycle)
	case kindSubscribe:
		s := m.other.(*subscriber)
		p.Subscribe(s.follower, s.epoch, s.request, s.sink)
	case kindUnsubscribe:
		u := m.other.(*unsubscriber)
		p.Unsubscribe(u.follower, u.epoch, u.id)
	case kindInput:
		if p.broken == nil {
			p.Step(m.other.(replication.Input))
		}
	case kindInform:
		i := m.other.(*informed)
		p.Inform(i.settings, i.change)
	case kindFlushed:
		j := m.other.(*FlushJob)
		p.FlushDone(j, j.err)
	case kindDamage:
		p.Damaged(m.other.(*segment.DamageError))
	case kindTick:
		r.armed = 0
		if p.broken == nil {
			p.Step(&p.in.tick)
		}
	case kindMaintain:
		p.Maintain()
	case kindStatus:
		p.endGather()
		p.show() // who has seen a status may read what it says
		m.other.(chan<- Status) <- p.Status()
	case kindProducers:
		m.other.(chan<- []ProducerStatus) <- p.producers.list()
	case kindStop:
		p.Stop()
		r.stopping = m.other.(*stop)
	}
}

// settle ends a turn.
func (r *Runner) settle() {
	var s Settled
	func() {
		defer func() { r.recover(recover()) }()
		s = r.partition.Settle()
	}()
	if r.partition.changed { // an invariant broke in Settle
		r.partition.show()
	}
	if s.Flush != nil {
		r.manager.pool.submit(r, s.Flush)
	}
	if s.Deadline > 0 && (r.armed == 0 || s.Deadline < r.armed) {
		r.armed = s.Deadline
		r.manager.deadlines.set(r, s.Deadline)
	}
	if r.stopping != nil && !r.partition.Flushing() {
		r.finish()
	}
}

// finish closes or removes the log and refuses what is still in the inbox.
func (r *Runner) finish() {
	err := r.stopping.finish(r.partition)
	r.mu.Lock()
	r.closed = true
	left := r.inbox
	r.inbox, r.acks = nil, nil
	if r.space != nil {
		close(r.space)
		r.space = nil
	}
	r.mu.Unlock()
	r.reader.waiters.close()
	for i := range left {
		left[i].refuse(r)
	}
	r.manager.deadlines.drop(r)
	r.stopping.done <- err
	r.stopping = nil
}

// refuse answers a message that comes too late.
func (m *message) refuse(r *Runner) {
	switch m.kind {
	case kindProduce:
		m.refuseProduce(cluster.CodeShuttingDown)
	case kindData:
		m.other.(*delivery).recycle()
	case kindSubscribe:
		s := m.other.(*subscriber)
		s.sink.Refused(session.Refused{ID: s.request.ID, Code: cluster.CodeShuttingDown, LeaderEpoch: record.NoEpoch, LogStart: -1})
	case kindStatus:
		m.other.(chan<- Status) <- r.lastStatus()
	case kindProducers:
		m.other.(chan<- []ProducerStatus) <- nil
	case kindStop:
		m.other.(*stop).done <- nil
	}
}

func (m *message) refuseProduce(code cluster.Code) {
	if m.produce.Release != nil {
		m.produce.Release()
	}
	m.done.complete(ProduceResult{Code: code, BaseOffset: -1, LogStart: -1, AppendTimeMs: -1, Leader: cluster.NoBroker, LeaderEpoch: record.NoEpoch})
}

// Produce hands a batch to the partition. It blocks only while the inbox is full, at most until the request's deadline. The answer comes
// through done, perhaps before Produce returns.
func (r *Runner) Produce(req ProduceRequest, done *Completion) {
	m := message{kind: kindProduce, produce: req, done: done}
	if !r.put(m, r.manager.options.InboxSize) {
		r.produceSlowly(m)
	}
}

// produceSlowly waits for room in the inbox.
func (r *Runner) produceSlowly(m message) {
	clock := r.manager.options.Clock
	timer := time.NewTimer(max(0, m.produce.Deadline-clock.Now()))
	defer timer.Stop()
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			m.refuseProduce(cluster.CodeShuttingDown)
			return
		}
		if len(r.inbox) < r.manager.options.InboxSize {
			r.inbox = append(r.inbox, m)
			r.start()
			r.mu.Unlock()
			return
		}
		if r.space == nil {
			r.space = make(chan struct{})
		}
		space := r.space
		r.mu.Unlock()
		select {
		case <-space:
		case <-timer.C:
			r.NoteRefused(m.produce.Batch)
			m.refuseProduce(cluster.CodeOverloaded)
			return
		}
	}
}

// NoteRefused says that the caller has refused a batch for a reason that may pass, instead of handing it to Produce. Batches that the same caller hands
// over afterwards are not let in before it, should their producer be unknown here. It keeps nothing of batch, and never blocks: an inbox with twice as
// much in it as Produce waits for forgets it.
func (r *Runner) NoteRefused(batch []byte) {
	if len(batch) < record.HeaderSize {
		return
	}
	head := append([]byte(nil), batch[:record.HeaderSize]...)
	r.put(message{kind: kindRefused, produce: ProduceRequest{Batch: head}}, 2*r.manager.options.InboxSize)
}

// Read returns committed records over an atomic view, without waiting.
func (r *Runner) Read(req ReadRequest) ReadResult { return r.reader.read(req) }

// Wait registers w: wake receives a value, without blocking, once the high watermark is above the given offset, or at any other change that
// a parked fetch wants to know of. If that is already so, it wakes at once. It returns false when the partition has too many waiters or is closed.
func (r *Runner) Wait(w *Waiter, above record.Offset, wake chan<- struct{}) bool {
	w.Cancel()
	before := r.reader.view.Load()
	w.above, w.wake = above, wake
	if !r.reader.waiters.add(w) {
		return false
	}
	// What happened before the registration woke nobody.
	if now := r.reader.view.Load(); now.highWatermark > above || now.role != before.role || now.leaderEpoch != before.leaderEpoch {
		w.Cancel()
		w.fire()
	}
	return true
}

// ListOffset answers a ListRequest over an atomic view. Kinds that search by time read indexes and records from disk.
func (r *Runner) ListOffset(ctx context.Context, req ListRequest) (ListResult, error) {
	return r.reader.list(ctx, req)
}

// EpochEnd says where a leader epoch ends; current fences the request (record.NoEpoch: not).
func (r *Runner) EpochEnd(current, asked record.LeaderEpoch) EpochEndResult {
	return r.reader.epochEnd(current, asked)
}

// halt stops the runner and does finish with its partition; it returns what finish returned.
func (r *Runner) halt(finish func(*Partition) error) <-chan error {
	s := &stop{finish: finish, done: make(chan error, 1)}
	if !r.put(message{kind: kindStop, other: s}, 0) {
		s.done <- nil
	}
	return s.done
}

// String names the runner in logs.
func (r *Runner) String() string { return fmt.Sprintf("%s-%d", r.topic, r.tp.Partition) }
