package partition

import (
	"errors"
	"log/slog"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
	"github.com/moldau-log/moldau/segment"
)

// environment is what all partitions of a broker share. It is set up before the first partition and then only read.
type environment struct {
	self    cluster.BrokerID
	outputs Outputs
	clock   Clock
	log     *slog.Logger
	retried *slog.Logger // log for what fails and is tried again, at a bounded rate
	meters  *meters
	lagMax  time.Duration
	expiry  time.Duration
	flight  int
	// snapshotBytes is Options.SnapshotBytes.
	snapshotBytes int64
	// lease is until when the controller's word holds.
	lease func() time.Duration
}

// Partition is one replica: the log, the machine that decides, the producer state and the requests that wait. It has no goroutine and no lock: its
// owner, a Runner or the simulator, calls it from one goroutine at a time, in turns: Begin, any number of inputs, Settle.
type Partition struct {
	env   *environment
	tp    cluster.TopicPartition
	topic string

	log       *segment.Log // nil when it could not be opened
	replica   *replication.Replica
	producers *Producers
	config    cluster.TopicConfig
	flusher   flusher
	slots     slots
	subs      []subscription
	flight    flight
	broken    error // an invariant broke or the log could not be opened: nothing is stepped any more

	now    time.Duration // of this turn
	wallMs int64

	gathered  []gathered
	gatherLen int // bytes
	buf       []byte
	producing record.Batch // of the Produce in progress
	arrived   []byte       // of the Deliver in progress

	queue   []replication.Input
	in      inputs
	changed bool // since the last view
	shown   *view
	counted replication.Counts
	readers *reader

	appendedSince int64         // bytes since the last producer snapshot
	snapshotAt    record.Offset // of the last producer snapshot
	checkpointed  record.Offset
	expiry        time.Duration // of idle producers
	startDue      record.Offset // where the log start is to be once there is room, 0 for nowhere
	lastDamage    record.Offset // one above the offset of the damage logged last, 0 for none
}

// inputs is memory for inputs that are stepped often.
type inputs struct {
	produce   replication.ProduceRequested
	appended  replication.Appended
	flushed   replication.Flushed
	truncated replication.Truncated
	moved     replication.LogStartMoved
	contact   replication.ControllerContact
	delivered replication.Delivered
	tick      replication.Tick
}

// subscription is one admitted follower.
type subscription struct {
	follower cluster.BrokerID
	epoch    cluster.BrokerEpoch
	id       session.SubscriptionID
	sink     fetcher.Sink
	admitted bool
}

// newPartition joins an opened log with a new machine. log is nil, and broken says why, for a replica that stays offline.
func newPartition(env *environment, tp cluster.TopicPartition, topic string, log *segment.Log, broken error, readers *reader) *Partition {
	p := &Partition{env: env, tp: tp, topic: topic, log: log, producers: newProducers(), config: cluster.DefaultTopicConfig(), broken: broken, readers: readers,
		expiry: env.expiry}
	p.flight.size = env.flight
	opened := replication.Opened{}
	if log != nil {
		opened = replication.Opened{Epochs: log.Epochs(), LogStart: log.Start(), LogEnd: log.End(), Flushed: log.Flushed()}
		p.checkpointed = log.End()
	}
	p.replica = replication.New(replication.Config{Partition: tp, Self: env.self, LagMax: env.lagMax}, opened)
	p.changed = true
	return p
}

// Begin starts a turn.
func (p *Partition) Begin(now time.Duration, wallMs int64) { p.now, p.wallMs = now, wallMs }

// Step feeds the machine one input and executes everything that follows.
func (p *Partition) Step(in replication.Input) {
	p.endGather()
	p.step(in)
}

// step queues an input. Those that arise while effects are executed come after the whole Effects is done.
func (p *Partition) step(in replication.Input) {
	p.queue = append(p.queue, in)
	if len(p.queue) > 1 {
		return // an outer step is at work
	}
	for i := 0; i < len(p.queue); i++ {
		next := p.queue[i]
		p.flight.note(p.now, next)
		effects := p.replica.Step(p.now, next)
		p.changed = true
		p.execute(effects)
	}
	p.queue = p.queue[:0]
}

// execute does what the machine asks for, in the order of the fields.
func (p *Partition) execute(e *replication.Effects) {
	if e.Truncate.To >= 0 {
		p.truncate(e.Truncate)
	}
	if e.MoveStart >= 0 {
		p.moveStart(e.MoveStart)
	}
	for i := range e.Append {
		if a := &e.Append[i]; a.Verbatim {
			p.appendArrived()
		} else {
			p.gather(a)
		}
	}
	p.flusher.wanted = p.flusher.wanted || e.Flush
	if e.Watermark || e.RoleChanged {
		p.show() // before anybody is answered: who was told of a record may ask for it, and for the latest offset
	}
	if e.RoleChanged {
		p.roleChanged()
	}
	for i := range e.Respond {
		p.respond(&e.Respond[i])
	}
	for i := range e.Admit {
		p.admit(&e.Admit[i])
	}
	p.follow(e)
	if e.Alter != nil {
		p.env.outputs.Alter(*e.Alter)
	}
	if e.Offline != nil {
		p.offline(e.Offline)
	}
}

// truncate cuts the log and rebuilds the producer state of what is left.
func (p *Partition) truncate(t replication.Truncate) {
	before := p.log.End()
	var err error
	if t.Reset {
		err = p.log.ResetTo(t.To)
	} else {
		err = p.log.TruncateTo(t.To)
	}
	if err == nil && !planted.On(planted.SequencesOutliveTruncation) {
		err = p.loadProducers()
	}
	if err != nil {
		p.step(&replication.AppendFailed{Reason: err})
		return
	}
	p.env.log.Info("log truncated", p.attrs(slog.Int64("from", int64(before)), slog.Int64("to", int64(p.log.End())), slog.Bool("reset", t.Reset))...)
	p.in.truncated = replication.Truncated{End: p.log.End()}
	p.step(&p.in.truncated)
}

// moveStart removes records below an offset. On a full disk Maintain tries again.
func (p *Partition) moveStart(to record.Offset) {
	p.startDue = 0
	p.rememberBelow(to)
	if err := p.log.MoveStart(to); err != nil {
		p.startDue = to
		p.logError(err, "log start not moved")
		return
	}
	p.startMoved()
}

// startMoved tells the machine where the log begins now.
func (p *Partition) startMoved() {
	p.in.moved = replication.LogStartMoved{Start: p.log.Start()}
	p.step(&p.in.moved)
}

// logError takes the log offline unless the error left it as it was.
func (p *Partition) logError(err error, message string) {
	if errors.Is(err, segment.ErrOffline) {
		p.step(&replication.AppendFailed{Reason: err})
		return
	}
	p.env.retried.Warn(message, p.attrs(slog.Any("error", err))...)
}

// follow carries the effects of a follower outwards. The view goes first, because the fetcher asks for the position.
func (p *Partition) follow(e *replication.Effects) {
	r := p.replica
	if e.Subscribe || e.Ack {
		p.show()
	}
	switch {
	case e.Subscribe:
		p.env.outputs.Subscribe(p.tp, r.Leader(), r.LeaderEpoch())
	case e.Unsubscribe:
		p.env.outputs.Unsubscribe(p.tp, r.LeaderEpoch())
	}
	if e.Ack {
		p.env.outputs.Ack(p.tp, r.LeaderEpoch(), Progress{LogEnd: r.LogEnd(), Flushed: r.Flushed(), LogStart: r.LogStart()})
	}
}

// roleChanged logs the transition.
func (p *Partition) roleChanged() {
	r := p.replica
	p.env.log.Info("role changed", p.attrs(slog.String("role", r.Role().String()), slog.Int("leader", int(r.Leader())),
		slog.Int("leader_epoch", int(r.LeaderEpoch())), slog.Int64("log_end", int64(r.LogEnd())), slog.Int64("high_watermark", int64(r.HighWatermark())))...)
}

// offline reports that the log has failed.
func (p *Partition) offline(reason error) {
	p.env.log.Error("replica is offline", p.attrs(slog.Any("error", reason))...)
	p.env.outputs.Offline(p.tp, reason)
}

// Break ends the partition after an invariant broke: what the machine says is not to be trusted any more. Everybody who waits is answered.
func (p *Partition) Break(reason error) {
	if p.broken != nil {
		return
	}
	p.broken = reason
	p.queue = p.queue[:0]
	p.gathered, p.gatherLen = p.gathered[:0], 0
	p.changed = true
	p.env.log.Error("invariant broken; the last inputs follow", p.attrs(slog.Any("error", reason), slog.String("flight_record", p.flight.String()))...)
	for i := range p.slots.all {
		if s := &p.slots.all[i]; s.used {
			p.answer(replication.RequestID(i), ProduceResult{Code: cluster.CodeStorage, BaseOffset: s.base, AppendTimeMs: -1})
		}
	}
	for _, s := range p.subs {
		s.sink.Refused(session.Refused{ID: s.id, Code: cluster.CodeStorage, LeaderEpoch: record.NoEpoch, LogStart: -1})
	}
	p.subs = nil
	p.env.outputs.Unsubscribe(p.tp, p.replica.LeaderEpoch())
	p.env.outputs.Offline(p.tp, reason)
}

// Settings are what a partition takes from configuration: its topic's and its broker's, as they are in effect.
type Settings struct {
	Topic  cluster.TopicConfig
	MinISR int // effective
	// LagMax is replica.lag.time.max; ProducerExpiry is how long an idle producer is remembered. 0 keeps what it was.
	LagMax, ProducerExpiry time.Duration
}

// Inform takes what one image of the metadata says: the settings and the partition's state. They count together: a machine that had the settings of one image
// with the state of another could commit what it must not.
func (p *Partition) Inform(s Settings, change replication.PartitionChanged) {
	if p.broken != nil {
		return
	}
	p.endGather()
	p.config = s.Topic
	if s.ProducerExpiry > 0 {
		p.expiry = s.ProducerExpiry
	}
	p.log.SetConfig(segmentConfig(s.Topic))
	change.Config = &replication.ConfigChanged{MinISR: s.MinISR, LagMax: s.LagMax, Relaxed: s.Topic.FlushPolicy != cluster.FlushAlways}
	p.Step(&change)
}

// segmentConfig is what a topic's configuration means for its segments, within what segments can do.
func segmentConfig(c cluster.TopicConfig) segment.Config {
	s := segment.DefaultConfig()
	s.SegmentBytes = max(1<<10, min(c.SegmentBytes, segment.MaxSegmentBytes))
	s.SegmentAge = max(time.Millisecond, c.SegmentAge)
	s.IndexIntervalBytes = int(max(0, min(c.IndexIntervalBytes, segment.MaxSegmentBytes)))
	s.MaxBatchBytes = int(max(1, min(c.MaxMessageBytes, segment.MaxSegmentBytes)))
	s.RetentionBytes, s.RetentionAge = max(segment.NoLimit, c.RetentionBytes), max(segment.NoLimit, c.RetentionAge)
	if !c.Delete {
		s.RetentionBytes, s.RetentionAge = segment.NoLimit, segment.NoLimit
	}
	invariant.Check(s.Validate() == nil, "partition: segment config %+v", s)
	return s
}

// Settled is what a turn leaves to be done.
type Settled struct {
	// Deadline is when the next Tick is wanted, 0 for never.
	Deadline time.Duration
	// Flush, if not nil, is to be run on any goroutine, and its end told with FlushDone.
	Flush *FlushJob
}

// Settle ends a turn: appends what was gathered, shows the new state to readers, wakes them, and says what comes next.
func (p *Partition) Settle() Settled {
	p.endGather()
	var out Settled
	if p.broken == nil {
		out.Flush, out.Deadline = p.nextFlush()
		out.Deadline = sooner(out.Deadline, p.replica.Deadline())
		p.count()
	}
	p.show()
	return out
}

// count adds the machine's counts to the metrics.
func (p *Partition) count() {
	now, was := p.replica.Counts(), p.counted
	if now == was {
		return
	}
	p.counted = now
	m := p.env.meters
	m.shrinks.Add(int64(now.Shrinks - was.Shrinks))
	m.expands.Add(int64(now.Expands - was.Expands))
	m.stale.Add(int64(now.Stale - was.Stale))
	m.truncations.Add(int64(now.Truncations - was.Truncations))
	m.lost.Add(int64(now.Lost - was.Lost))
}

// sooner is the smaller of two times of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// attrs are the log attributes that name the partition.
func (p *Partition) attrs(more ...any) []any {
	return append([]any{slog.String("topic", p.topic), slog.Int("partition", int(p.tp.Partition))}, more...)
}
