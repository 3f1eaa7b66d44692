package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/driver"
	"github.com/moldau-log/moldau/controller/state"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
)

// Times of a broker, as the product has them.
const (
	heartbeatEvery = 250 * time.Millisecond
	contactLease   = time.Second
	alterTimeout   = time.Second
	confirmRetry   = time.Second
	roomRetry      = 500 * time.Millisecond // partition.RetryPause is longer than most of what happens here
	// flushPoll is how often somebody looks whether a flush or a turn is over.
	flushPoll = time.Millisecond
	// wallStartMs is the wall clock at the virtual time 0.
	wallStartMs = 1_700_000_000_000
	// eternity is a lease that does not end.
	eternity = time.Duration(1) << 60
)

// broker is one broker over all its lives. It does what package broker and the loops of package partition do: it opens logs, registers, beats, and
// carries metadata, streams and requests to the partitions.
type broker struct {
	w     *World
	id    cluster.BrokerID
	dir   cluster.DirectoryID
	disk  *disk
	clock clock

	up     bool
	life   int
	paused time.Duration // nothing is done before
	// applies is from when on new metadata is applied.
	applies time.Duration
	image   *cluster.Image
	heard   *cluster.Image      // applied, and not acted upon yet
	epoch   cluster.BrokerEpoch // registered in this life
	fs      vfs.FS              // of the present life
	// previous is what the clean-stop marker said when this life began.
	previous cleanStop
	// attempt numbers registrations, so that a late answer is told from the newest.
	attempt  int
	lease    time.Duration
	draining bool
	slowDisk bool
	retired  bool // is not to be started

	groups *groupShell      // coordinator of this life
	view   *state.GroupView // the groups as this broker has applied them

	early   *partition.EarlyRefusals
	opener  *partition.Opener
	planner *partition.Planner
	parts   []*replica // in key order
	// damaged have no replica that works, lost no directory; suspect is what the registration reports, rotten those of damaged that it has to report again.
	damaged, lost, suspect, rotten []cluster.TopicPartition
	// noRoom are those that could not be opened because the disk was full. They are tried again.
	noRoom []cluster.TopicPartition
	// reconciling says that a plan is being carried out; handled is the index up to which the broker acts on the metadata.
	reconciling bool
	planned     *cluster.Image // of the newest plan, nil before the first
	handled     uint64
	promises    []promise
	offline     []cluster.TopicPartition // to be reported
	online      []cluster.TopicPartition // to be reported, since they work again
	failed      bool                     // a log is offline
	// unsettled says that a log went offline in this life or an earlier one, and that no registration has followed: the metadata may be about to hear of it.
	unsettled bool
	in        []*incoming
	out       []*outgoing
	// hangUp tells clients whose connections end with this life.
	hangUp []func()
}

func newBroker(w *World, id cluster.BrokerID) *broker {
	return &broker{w: w, id: id, disk: newDisk(w.opts.Plant), clock: drawClock(w), image: cluster.EmptyImage(), epoch: cluster.NoBrokerEpoch}
}

func (b *broker) node() node { return node(b.id) }

// do runs something in the present life: at once, or when a pause is over.
func (b *broker) do(what func()) {
	life := b.life
	if b.w.now < b.paused {
		b.w.at(b.paused, func() {
			if b.up && b.life == life {
				b.do(what)
			}
		})
		return
	}
	if b.up {
		what()
	}
}

// later is do after a time of the broker's own clock.
func (b *broker) later(d time.Duration, what func()) {
	life := b.life
	b.w.after(b.clock.long(d), func() {
		if b.up && b.life == life {
			b.do(what)
		}
	})
}

// Now and WallMs implement partition.Clock.
func (b *broker) Now() time.Duration { return b.clock.local(b.w.now) }

// WallMs is not true: what depends on it must be content with a clock that is wrong.
func (b *broker) WallMs() int64 { return wallStartMs + (b.w.now + b.clock.skew).Milliseconds() }

// start begins a life: recovery, then registration.
func (b *broker) start() {
	if b.up || b.retired {
		return
	}
	b.up, b.life = true, b.life+1
	b.paused, b.applies, b.heard = 0, 0, nil
	b.epoch, b.lease, b.draining, b.failed, b.slowDisk = cluster.NoBrokerEpoch, 0, false, false, false
	b.parts, b.in, b.out, b.offline, b.damaged, b.lost, b.suspect, b.rotten = nil, nil, nil, nil, nil, nil, nil, nil
	b.noRoom, b.online, b.planned = nil, nil, nil
	b.reconciling, b.handled, b.promises = false, 0, nil
	b.early = &partition.EarlyRefusals{}
	b.w.note("start", int64(b.id), int64(b.life))
	if !b.mount() {
		return
	}
	var err error
	b.opener, err = partition.NewOpener(partition.Options{FS: b.fs, Root: dataRoot, Broker: b.id, Directory: b.dir, Outputs: b, Clock: b,
		Meter: b.w.meters, LagMax: b.w.mix.lagMax, ProducerExpiry: b.w.mix.expiry, FlightInputs: -1, SnapshotBytes: b.snapshotBytes()},
		func() time.Duration { return b.lease })
	b.w.check.must(err)
	b.groups = newGroupShell(b)
	b.planner = partition.NewPlanner(b.id, b.dir)
	b.recoverAll()
	if me, ok := b.image.Broker(b.id); ok && b.w.opts.Plant == PlantEarlyStart {
		b.reconcile(b.image, me.Epoch)
	}
	b.later(b.w.between(5*time.Millisecond, 300*time.Millisecond), b.register)
	b.later(heartbeatEvery, b.beat)
	b.later(roomRetry, b.tryRoom)
}

// snapshotBytes is after how much log a replica of this broker writes a producer snapshot: some often, some now and then, some hardly ever. The product takes 64 MiB.
func (b *broker) snapshotBytes() int { return 512 << (3 * (int(b.id) % 3)) }

// replica finds a local replica, nil when there is none.
func (b *broker) replica(tp cluster.TopicPartition) *replica {
	for _, r := range b.parts {
		if r.tp == tp {
			return r
		}
	}
	return nil
}

// register asks for a broker epoch until there is an answer.
func (b *broker) register() {
	b.attempt++
	attempt, life := b.attempt, b.life
	cmd := cluster.RegisterBroker{
		Broker:        cluster.Broker{ID: b.id, Directory: b.dir, Incarnation: b.incarnation(), MinLevel: 1, MaxLevel: cluster.LevelNewest},
		PreviousEpoch: b.previous.Epoch, PreviousStarts: b.previous.Starts, Damaged: slices.Clone(b.suspect), LogsTold: true,
	}
	for _, r := range b.parts {
		cmd.Logs = append(cmd.Logs, cluster.ReplicaLog{Partition: r.tp, Log: r.at.Position()})
	}
	if b.epoch != cluster.NoBrokerEpoch {
		// This life goes on: there was no stop that a marker could speak of, and what has been copied since is complete.
		cmd.PreviousEpoch, cmd.PreviousStarts, cmd.Damaged = cluster.NoBrokerEpoch, nil, slices.Concat(b.rotten, b.lost)
		cmd.Logs, cmd.LogsTold = nil, false
	}
	cmd.Logs = append(cmd.Logs, b.unopened()...)
	b.w.net.send(b.node(), controllerNode, func() {
		b.w.meta.propose(cmd, func(res cluster.Result, failed bool) {
			if failed || res.Code != cluster.CodeNone {
				return
			}
			b.w.net.send(controllerNode, b.node(), func() {
				if b.up && b.life == life && b.attempt == attempt {
					b.do(func() { b.registered(attempt, res.BrokerEpoch) })
				}
			})
		})
	})
	b.later(b.w.between(400*time.Millisecond, 800*time.Millisecond), func() {
		if b.attempt == attempt {
			b.register()
		}
	})
}

// unopened tells of the replicas that do not work and may be complete that it is not known how far their logs go.
func (b *broker) unopened() (logs []cluster.ReplicaLog) {
	for _, tp := range b.Sorted() {
		r := b.replica(tp)
		if r == nil && !slices.Contains(b.suspect, tp) || r != nil && r.at.Role == partition.RoleOffline {
			logs = append(logs, cluster.ReplicaLog{Partition: tp, Log: cluster.UnknownLog})
		}
	}
	return logs
}

// incarnation names this life.
func (b *broker) incarnation() cluster.IncarnationID {
	return cluster.IncarnationID{2, byte(b.id + 1), byte(b.life), byte(b.life >> 8)}
}

func (b *broker) registered(attempt int, epoch cluster.BrokerEpoch) {
	if b.attempt != attempt {
		return
	}
	b.attempt++ // no more answers are waited for
	if err := dropCleanStop(b.fs); err != nil {
		b.w.check.closed(b, err)
		b.crash()
		b.w.restart(b)
		return
	}
	b.epoch, b.unsettled = epoch, b.failed
	for _, tp := range slices.Concat(b.damaged, b.noRoom) {
		b.reportOffline(tp)
	}
	if b.w.isSpoilt(b) {
		b.w.spoilt.back = true
	}
	for _, tp := range b.suspect {
		b.w.check.closed(b, b.opener.SettleDoubt(tp))
	}
	b.w.note("registered", int64(b.id), int64(epoch))
	b.learn(b.image)
	for _, in := range b.in {
		in.pumpSoon()
	}
}

// beat sends a heartbeat now and then.
func (b *broker) beat() {
	b.later(heartbeatEvery, b.beat)
	if b.epoch == cluster.NoBrokerEpoch {
		return
	}
	sent, epoch, life := b.Now(), b.epoch, b.life
	hb := driver.Heartbeat{Broker: b.id, Epoch: epoch, Applied: b.handled, WantDrain: b.draining, Offline: slices.Clone(b.offline), Online: slices.Clone(b.online)}
	b.w.net.send(b.node(), controllerNode, func() {
		b.w.meta.heartbeat(hb, func(reply driver.HeartbeatReply) {
			applied := b.w.meta.state.Image().Index()
			b.w.net.send(controllerNode, b.node(), func() {
				if b.up && b.life == life {
					b.do(func() { b.answered(sent, &hb, applied, reply) })
				}
			})
		})
	})
}

// answered takes the answer to a heartbeat, given by a controller that had applied so much.
func (b *broker) answered(sent time.Duration, told *driver.Heartbeat, applied uint64, reply driver.HeartbeatReply) {
	if told.Epoch != b.epoch {
		return
	}
	if reply.Code != cluster.CodeNone {
		b.register()
		return
	}
	b.offline = slices.DeleteFunc(b.offline, func(tp cluster.TopicPartition) bool { return slices.Contains(told.Offline, tp) })
	b.online = slices.DeleteFunc(b.online, func(tp cluster.TopicPartition) bool { return slices.Contains(told.Online, tp) })
	if !reply.Fenced {
		b.promises = append(b.promises, promise{until: sent + contactLease, index: applied})
		b.takeLease()
	}
	if b.w.opts.Plant == PlantEternalLease {
		b.lease = eternity
	}
	if b.draining && reply.MayShutDown {
		b.shutDown()
	}
}

// promise is a lease for a broker that acts on the metadata up to an index, as controller.Session has it.
type promise struct {
	until time.Duration
	index uint64
}

// takeLease takes the leases that were promised for what the broker has come to act on.
func (b *broker) takeLease() {
	b.promises = slices.DeleteFunc(b.promises, func(p promise) bool {
		if p.index > b.handled {
			return p.until < b.w.now
		}
		b.lease = max(b.lease, p.until)
		return true
	})
}

// hear takes metadata that was applied. The broker acts on the newest only: of what came at once, after a pause say, it sees no more than how it ends.
func (b *broker) hear(image *cluster.Image) {
	if b.heard == nil {
		b.later(0, func() {
			newest := b.heard
			b.heard = nil
			b.learn(newest)
		})
	}
	if b.heard == nil || image.Index() >= b.heard.Index() {
		b.heard = image
	}
}

// learn takes a newer image, or looks again at the present one.
func (b *broker) learn(image *cluster.Image) {
	if image.Index() < b.image.Index() {
		return
	}
	b.image = image
	b.reconcile(image, b.epoch) // nothing, until the image has the present registration
	if me, ok := image.Broker(b.id); ok && me.Epoch == b.epoch {
		b.groups.learn(image)
	}
}

// crash ends a life without any mark.
func (b *broker) crash() {
	b.w.note("crash", int64(b.id), int64(b.life))
	b.up = false
	b.w.check.leaves(b)
	for _, r := range b.parts {
		r.Abandon()
	}
	b.dropStreams()
}

func (b *broker) dropStreams() {
	b.groups.stop()
	for _, in := range b.in {
		if in.conn != nil {
			in.conn.breakUp()
		}
	}
	for _, out := range slices.Clone(b.out) {
		out.conn.breakUp()
	}
	for _, tell := range b.hangUp {
		tell()
	}
	b.hangUp = nil
}

// shutDown ends a life in order: every log is closed with its clean mark.
func (b *broker) shutDown() {
	for _, r := range b.parts {
		if r.Flushing() {
			b.later(time.Millisecond, b.shutDown)
			return
		}
	}
	b.w.note("stop", int64(b.id), int64(b.life))
	b.w.cov.CleanStops++
	whole := true
	for _, r := range b.parts {
		r.Begin(b.Now(), b.WallMs())
		r.Stop()
		if s := r.Settle(); s.Flush != nil {
			r.FlushDone(s.Flush, s.Flush.Sync())
		}
		err := r.Close()
		b.w.check.closed(b, err)
		whole = whole && err == nil
	}
	if whole {
		b.w.check.leaves(b)
		b.markCleanStop()
	}
	b.up = false
	b.dropStreams()
	b.w.after(b.w.between(50*time.Millisecond, time.Second), b.start)
}

// Subscribe implements partition.Outputs.
func (b *broker) Subscribe(tp cluster.TopicPartition, leader cluster.BrokerID, epoch record.LeaderEpoch) {
	for _, in := range b.in {
		if in.leader != leader {
			in.unfollow(tp, epoch)
		}
	}
	b.incoming(leader).follow(tp, epoch)
}

// Unsubscribe implements partition.Outputs.
func (b *broker) Unsubscribe(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	for _, in := range b.in {
		in.unfollow(tp, epoch)
	}
}

// Ack implements partition.Outputs.
func (b *broker) Ack(tp cluster.TopicPartition, epoch record.LeaderEpoch, p partition.Progress) {
	for _, in := range b.in {
		in.acknowledge(tp, epoch, p)
	}
}

// Alter implements partition.Outputs: the proposal goes to the controller; its answer, or that there is none in time, comes back once.
func (b *broker) Alter(change cluster.ISRChange) {
	change.ISR = slices.Clone(change.ISR)
	b.w.note("alter", int64(b.id), b.w.key(change.Partition), int64(change.PartitionEpoch), int64(len(change.ISR)))
	answered := false
	answer := func(item cluster.ItemResult) {
		if answered {
			return
		}
		answered = true
		if r := b.replica(change.Partition); r != nil {
			r.grant(&replication.AlterPartitionResult{LeaderEpoch: change.LeaderEpoch, PartitionEpoch: change.PartitionEpoch, Code: item.Code, State: item.Partition})
		}
	}
	cmd, life := cluster.AlterPartition{Leader: b.id, LeaderBroker: b.epoch, Changes: []cluster.ISRChange{change}}, b.life
	propose := func() {
		b.w.meta.alter(cmd, func(res cluster.Result, failed bool) {
			item := cluster.ItemResult{Code: res.Code}
			switch {
			case failed:
				item.Code = cluster.CodeTimedOut
			case len(res.Items) > 0:
				item = res.Items[0]
			}
			b.w.net.send(controllerNode, b.node(), func() {
				b.w.sometimesLate(alterTimeout, func() {
					if b.up && b.life == life {
						b.do(func() { answer(item) })
					}
				})
			})
		})
	}
	b.w.net.send(b.node(), controllerNode, func() {
		b.w.sometimesLate(2*alterTimeout, propose)
		if b.w.faults && b.w.chance(20) { // who forwards a request may have sent it before its connection broke
			b.w.after(b.w.between(0, 2*alterTimeout), propose)
		}
	})
	b.later(alterTimeout, func() {
		if !answered {
			b.w.cov.AltersUnknown++
		}
		answer(cluster.ItemResult{Code: cluster.CodeTimedOut})
	})
}

// Offline implements partition.Outputs.
func (b *broker) Offline(tp cluster.TopicPartition, reason error) {
	b.w.note("offline: "+reason.Error(), int64(b.id), b.w.key(tp))
	if strings.Contains(reason.Error(), "invariant") {
		b.w.check.fail("broker %d: %v", b.id, reason)
	}
	b.failed = true
	b.reportOffline(tp)
}

func (b *broker) reportOffline(tp cluster.TopicPartition) {
	b.unsettled = true
	b.online = without(b.online, tp)
	b.offline = append(without(b.offline, tp), tp)
}

// Online implements partition.Outputs.
func (b *broker) Online(tp cluster.TopicPartition) {
	b.w.note("online", int64(b.id), b.w.key(tp))
	b.offline = without(b.offline, tp)
	b.online = append(without(b.online, tp), tp)
}

// without is list without tp; list is not to be used any more.
func without(list []cluster.TopicPartition, tp cluster.TopicPartition) []cluster.TopicPartition {
	return slices.DeleteFunc(list, func(t cluster.TopicPartition) bool { return t == tp })
}
