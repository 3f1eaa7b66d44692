package replication

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// Limits and delays.
const (
	// DefaultLagMax is replica.lag.time.max.
	DefaultLagMax = 10 * time.Second
	// MaxWaiting bounds the produce requests that wait in one partition, per acknowledgement level. Above it they are refused with CodeOverloaded.
	MaxWaiting = 10_000
	// AlterRetry is the pause before an ISR proposal of unknown or refused outcome is repeated.
	AlterRetry = 100 * time.Millisecond
	// DoubtFor bounds for how long a lost proposal is believed to be still on its way. Proposals are given up after seconds, and a broker that is no
	// longer the controller does not pass them on, so nothing survives this long.
	DoubtFor = 30 * time.Second
	// PredecessorLease is for how long a leader whose removal is committed may still answer from its lease: as long as leases are.
	PredecessorLease = time.Second
	// SubscribeRetry is the pause before a refused follower asks again.
	SubscribeRetry = 50 * time.Millisecond
)

// Config is what a Replica is told once.
type Config struct {
	Partition cluster.TopicPartition
	Self      cluster.BrokerID
	LagMax    time.Duration
}

// Opened is the state of the log after recovery.
type Opened struct {
	Epochs   []record.EpochStart
	LogStart record.Offset
	LogEnd   record.Offset
	Flushed  record.Offset
}

// Role is what a replica is at present.
type Role int8

// The roles.
const (
	Idle Role = iota // it knows of no leader
	Follower
	Leader
	Offline // its log has failed; for good
	Stopped
)

// String gives the lower-case name.
func (r Role) String() string {
	return [...]string{"idle", "follower", "leader", "offline", "stopped"}[r]
}

// Replica is the machine of one replica. Fields are changed by Step only.
type Replica struct {
	config  Config
	minISR  int
	relaxed bool
	lease   time.Duration

	role  Role
	state *cluster.Partition // newest known; nil before the first PartitionChanged
	peers []Peer             // of state.Replicas
	// former are the other brokers that have led within a PredecessorLease, as far as this one has heard, each once.
	former []formerLeader

	// The log. epochs is the one live copy of the epoch history.
	epochs     EpochHistory
	logStart   record.Offset
	logEnd     record.Offset
	flushed    record.Offset
	generation uint64 // rises with each truncation; tells flushes apart
	failure    error
	// highWatermark is the largest offset known to be committed, at most logEnd.
	highWatermark record.Offset

	leading   leading
	following following
	counts    Counts
	out       Effects
}

// Counts are totals since New, which the owner adds to its metrics.
type Counts struct {
	Stale       uint64 // inputs of another epoch, generation or subscription, ignored
	Truncations uint64
	Diverged    uint64 // subscriptions refused because the follower's log differs
	Shrinks     uint64 // accepted ISR changes that took members away
	Expands     uint64 // accepted ISR changes that added members
	Lost        uint64 // followers that came back with less than they had flushed
}

// New returns an idle replica of an opened log.
func New(config Config, log Opened) *Replica {
	if config.LagMax <= 0 {
		config.LagMax = DefaultLagMax
	}
	r := &Replica{
		config: config, minISR: 1,
		epochs: log.Epochs, logStart: log.LogStart, logEnd: log.LogEnd, flushed: log.Flushed,
		highWatermark: log.LogStart,
	}
	r.out.reset()
	return r
}

// Step applies one input. The effects are valid until the next Step.
func (r *Replica) Step(now time.Duration, in Input) *Effects {
	r.out.reset()
	if r.role == Offline || r.role == Stopped {
		r.stepDead(in)
		return &r.out
	}
	switch in := in.(type) {
	case *ProduceRequested:
		r.produce(now, in)
	case *Appended:
		r.appended(now, in)
	case *Flushed:
		r.flushDone(now, in)
	case *FollowerAck:
		r.followerAck(now, in)
	case *Delivered:
		r.delivered(in)
	case *PartitionChanged:
		r.metadataChanged(now, in)
	case *ConfigChanged:
		r.takeConfig(in)
		r.configTaken(now)
	case *ControllerContact:
		r.lease = max(r.lease, in.Until)
	case *Truncated:
		r.truncated(in)
	case *AppendRefused:
		r.appendRefused(now)
	case *AppendFailed:
		r.fail(in.Reason)
	case *FlushFailed:
		r.fail(in.Reason)
	case *LogStartMoved:
		r.logStartMoved(in.Start)
	case *SubscribeRequested:
		r.subscribe(now, in)
	case *Unsubscribed:
		r.unsubscribed(in)
	case *SubscribeRefused:
		r.refused(now, in)
	case *AlterPartitionResult:
		r.alterResult(now, in)
	case *Tick:
		r.tick(now)
	case *Stop:
		r.stop()
	}
	r.check()
	r.out.Deadline = r.Deadline()
	return &r.out
}

// stepDead answers what still arrives at a replica that has failed or stopped.
func (r *Replica) stepDead(in Input) {
	code := cluster.CodeShuttingDown
	if r.role == Offline {
		code = cluster.CodeStorage
	}
	switch in := in.(type) {
	case *ProduceRequested:
		r.respond(in.Request, code, -1)
	case *SubscribeRequested:
		r.refuse(in, code)
	}
}

// check holds the invariants that everything else relies on.
func (r *Replica) check() {
	ok := r.logStart <= r.highWatermark && r.highWatermark <= r.logEnd && r.flushed <= r.logEnd
	if !ok {
		invariant.Check(false, "replica: start %d, watermark %d, flushed %d, end %d", r.logStart, r.highWatermark, r.flushed, r.logEnd)
	}
}

// metadataChanged takes state and settings of one image at once. A leader that took the settings first could commit by a minimum that belongs to a state in
// which it leads no more, or in which its ISR is another; one that took the state first, by a minimum that no longer holds.
func (r *Replica) metadataChanged(now time.Duration, in *PartitionChanged) {
	if in.Config == nil {
		r.partitionChanged(now, in.State, in.Peers)
		return
	}
	r.takeConfig(in.Config)
	if planted.On(planted.SettingsBeforeState) {
		r.configTaken(now)
	}
	r.partitionChanged(now, in.State, in.Peers)
	r.configTaken(now)
}

// partitionChanged takes newer metadata. Older one, which a slow answer or a replay may bring, is ignored.
func (r *Replica) partitionChanged(now time.Duration, state *cluster.Partition, peers []Peer) {
	old := r.state
	if old != nil && (state.PartitionEpoch < old.PartitionEpoch || state.LeaderEpoch < old.LeaderEpoch) {
		r.counts.Stale++
		return
	}
	r.state = state
	if peers != nil {
		r.peers = append(r.peers[:0], peers...)
	}
	if old != nil && old.Leader != cluster.NoBroker && old.Leader != r.config.Self && old.Leader != state.Leader {
		r.leaderLeft(now, old.Leader)
	}
	moved := old == nil || old.LeaderEpoch != state.LeaderEpoch || old.Leader != state.Leader
	if moved {
		r.changeRole(now)
	} else if r.role == Leader {
		r.leaderStateChanged(now, old)
	}
	if state.LogStart > r.logStart {
		r.takeLogStart(state.LogStart)
	}
	if r.role == Leader {
		r.awaitFormer(now)
		r.advance()
		r.reviewISR(now)
	}
}

// changeRole begins a leader epoch.
func (r *Replica) changeRole(now time.Duration) {
	r.leave(cluster.CodeNotLeader)
	r.out.RoleChanged = true
	switch leader := r.state.Leader; {
	case leader == r.config.Self && (r.state.LeaderEpoch > r.epochs.Last() || planted.On(planted.LeadsFormerEpoch)):
		r.lead(now)
	case leader == r.config.Self && r.epochs.Last() > r.state.LeaderEpoch:
		// Nobody has led in the epoch of the last records yet. It lies outside their checksum, and has rotted; another replica may be whole.
		r.fail(fmt.Errorf("replication: the log of %s has records of leader epoch %d, and the newest is %d", r.config.Partition, r.epochs.Last(), r.state.LeaderEpoch))
	case leader == r.config.Self:
		// The log holds this very epoch, written by an earlier life of this broker: somebody may have records of it that were lost here. The
		// registration of the present life raises the epoch; until then nobody leads (case 142).
		r.role = Idle
		r.counts.Stale++
	case leader == cluster.NoBroker || !r.state.HasReplica(r.config.Self):
		r.role = Idle
	default:
		r.follow()
	}
}

// leave ends the present role.
func (r *Replica) leave(code cluster.Code) {
	switch r.role {
	case Leader:
		r.resign(code)
	case Follower:
		r.out.Unsubscribe = true
		r.following = following{}
	}
}

// takeConfig takes the topic's settings; configTaken does what they mean.
func (r *Replica) takeConfig(in *ConfigChanged) {
	r.minISR = max(1, in.MinISR)
	r.relaxed = in.Relaxed
	if in.LagMax > 0 {
		r.config.LagMax = in.LagMax
	}
}

// configTaken acts on new settings. A lower minimum or a relaxed policy may commit at once what waits.
func (r *Replica) configTaken(now time.Duration) {
	if !r.relaxed && r.flushed < r.logEnd {
		r.out.Flush = true
	}
	if r.role == Leader {
		r.completeLocalAt(now)
		r.advance()
		r.reviewISR(now)
	}
}

// appended says that the log has grown, by this replica's own wish.
func (r *Replica) appended(now time.Duration, in *Appended) {
	if in.End <= r.logEnd {
		r.counts.Stale++
		return
	}
	old := r.logEnd
	r.logEnd = in.End
	r.out.Flush = !r.relaxed
	switch r.role {
	case Leader:
		r.leaderAppended(now, old)
	case Follower:
		r.followerAppended()
	}
}

// flushDone notes what is on disk, unless the log was cut since that flush began: then the same offsets are other records (case 144).
func (r *Replica) flushDone(now time.Duration, in *Flushed) {
	if in.Generation != r.generation && !planted.On(planted.StaleFlush) {
		r.counts.Stale++
		return
	}
	old := r.flushed
	r.flushed = max(r.flushed, min(in.End, r.logEnd))
	if r.flushed == old {
		return
	}
	switch r.role {
	case Leader:
		r.leaderFlushed(now, old)
	case Follower:
		r.out.Ack = true
	}
}

// takeLogStart follows a log start that the controller has committed or the leader has moved to.
func (r *Replica) takeLogStart(start record.Offset) {
	if start <= r.logEnd {
		r.out.MoveStart = start
	}
	// A follower that is so far behind is refused by the leader, and then begins anew at the leader's log start.
}

// logStartMoved notes a new log start. What is deleted was committed.
func (r *Replica) logStartMoved(start record.Offset) {
	if start <= r.logStart || start > r.logEnd {
		return
	}
	r.logStart = start
	r.epochs = r.epochs.cutStart(start)
	if start > r.highWatermark {
		r.highWatermark = start
		r.out.Watermark = true
		r.completeCommitted()
	}
	if r.role == Follower {
		r.out.Ack = true
	}
}

// cut truncates the log to an end, or empties it and begins at one.
func (r *Replica) cut(to record.Offset, reset bool) {
	r.out.Truncate = Truncate{To: to, Reset: reset}
	r.generation++
	r.counts.Truncations++
	r.logEnd = to
	if reset {
		r.logStart, r.flushed, r.highWatermark = to, to, to
		r.epochs = nil
		return
	}
	r.epochs = r.epochs.cutEnd(to)
	r.flushed = min(r.flushed, to)
	r.highWatermark = min(r.highWatermark, to)
}

// truncated goes on after a truncation. A log is cut between batches, so it may end below where it was asked to.
func (r *Replica) truncated(in *Truncated) {
	if in.End < r.logEnd {
		r.logEnd = in.End
		r.epochs = r.epochs.cutEnd(in.End)
		r.logStart = min(r.logStart, in.End)
		r.flushed = min(r.flushed, in.End)
		r.highWatermark = min(r.highWatermark, in.End)
	}
	if r.role == Follower {
		r.out.Subscribe = true
	}
}

// fail takes the replica offline, for good: what is on the disk is not known any more.
func (r *Replica) fail(reason error) {
	if reason == nil {
		reason = fmt.Errorf("replication: log of %s failed", r.config.Partition)
	}
	r.leave(cluster.CodeStorage)
	r.role = Offline
	r.failure = reason
	r.out.RoleChanged = true
	r.out.Offline = reason
}

// stop ends the replica in an orderly way.
func (r *Replica) stop() {
	r.leave(cluster.CodeShuttingDown)
	r.role = Stopped
	r.out.RoleChanged = true
}

// tick does what is due.
func (r *Replica) tick(now time.Duration) {
	switch r.role {
	case Leader:
		r.leaderTick(now)
	case Follower:
		r.followerTick(now)
	}
}

// Deadline is when something is next due, 0 for never.
func (r *Replica) Deadline() time.Duration {
	switch r.role {
	case Leader:
		return r.leaderDeadline()
	case Follower:
		return r.following.retryAt
	}
	return 0
}

// respond answers a request.
func (r *Replica) respond(request RequestID, code cluster.Code, base record.Offset) {
	r.out.Respond = append(r.out.Respond, Response{Request: request, Code: code, Base: base})
}
