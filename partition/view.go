package partition

import (
	"sync/atomic"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/segment"
)

// view is what readers on other goroutines see of a partition: one moment, never changed.
type view struct {
	log           *segment.View // nil when the replica has no log
	role          Role
	reason        error
	leader        cluster.BrokerID
	leaderEpoch   record.LeaderEpoch
	state         *cluster.Partition
	epochs        replication.EpochHistory
	highWatermark record.Offset
	logStart      record.Offset
	logEnd        record.Offset
	flushed       record.Offset
	lastEpoch     record.LeaderEpoch
	settled       bool // the watermark of a leader has reached where its epoch began
}

// reader is what is shared between a partition and those who read it.
type reader struct {
	view    atomic.Pointer[view]
	log     *segment.Log // nil when it could not be opened; only View is called here
	waiters waiters
	lease   func() bool // the controller's word holds
	// damage tells the partition that a read has found damage; nil where nobody wants to know.
	damage func(*segment.DamageError)
}

// show publishes the present state if it has changed, and wakes those who wait for it.
func (p *Partition) show() {
	if !p.changed {
		return
	}
	p.changed = false
	old, v := p.shown, p.see()
	p.shown = v
	p.readers.view.Store(v)
	if old == nil {
		return
	}
	moved := old.role != v.role || old.leaderEpoch != v.leaderEpoch || old.logStart != v.logStart
	if moved || v.highWatermark > old.highWatermark {
		p.readers.waiters.wake(v.highWatermark, moved)
	}
	if moved || v.highWatermark > old.highWatermark || v.logEnd != old.logEnd {
		p.wakeFollowers()
	}
}

// see takes a picture of the present state.
func (p *Partition) see() *view {
	r := p.replica
	v := &view{
		leader: r.Leader(), leaderEpoch: r.LeaderEpoch(), state: r.State(), epochs: r.Epochs(),
		highWatermark: r.HighWatermark(), logStart: r.LogStart(), logEnd: r.LogEnd(), flushed: r.Flushed(),
		lastEpoch: r.LastEpoch(), settled: r.Settled(),
	}
	if p.log != nil {
		v.log = p.log.View()
	}
	switch r.Role() {
	case replication.Follower:
		v.role = RoleFollower
	case replication.Leader:
		v.role = RoleLeader
	case replication.Offline:
		v.role, v.reason = RoleOffline, r.Failure()
	}
	if p.broken != nil {
		v.role, v.reason = RoleOffline, p.broken
	}
	return v
}

// fence says whether a client with a leader epoch may be answered by this replica.
func (v *view) fence(epoch record.LeaderEpoch, follower bool) cluster.Code {
	switch {
	case v.role == RoleOffline:
		return cluster.CodeStorage
	case epoch != record.NoEpoch && epoch < v.leaderEpoch && !planted.On(planted.NoEpochFence):
		return cluster.CodeFencedLeaderEpoch
	case epoch != record.NoEpoch && epoch > v.leaderEpoch && !planted.On(planted.NoEpochFence):
		return cluster.CodeUnknownLeaderEpoch
	case v.role == RoleLeader || (follower && v.role == RoleFollower):
		return cluster.CodeNone
	}
	return cluster.CodeNotLeader
}
