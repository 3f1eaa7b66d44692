package partition

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication"
)

// statusTimeout is how long Status waits for a runner that is busy with its disk.
const statusTimeout = time.Second

// Status is a snapshot for administration and metrics. It waits for the runner, at most a second; then it tells what the view tells.
func (r *Runner) Status() Status {
	answer := make(chan Status, 1)
	if !r.put(message{kind: kindStatus, other: (chan<- Status)(answer)}, 0) {
		return r.lastStatus()
	}
	timer := time.NewTimer(statusTimeout)
	defer timer.Stop()
	select {
	case s := <-answer:
		return s
	case <-timer.C:
		return r.lastStatus()
	}
}

// Position is how far the log goes.
func (s *Status) Position() cluster.LogPosition {
	return cluster.LogPosition{LastEpoch: s.LastEpoch, LogStart: s.LogStart, LogEnd: s.LogEnd}
}

// lastStatus is what the view tells.
func (r *Runner) lastStatus() Status {
	v := r.reader.view.Load()
	s := Status{
		Partition: r.tp, Topic: r.topic, Role: v.role, LastEpoch: v.lastEpoch, Leader: v.leader, LeaderEpoch: v.leaderEpoch,
		LogStart: v.logStart, HighWatermark: v.highWatermark, LogEnd: v.logEnd, Flushed: v.flushed,
	}
	if v.reason != nil {
		s.Reason = v.reason.Error()
	}
	if v.state != nil {
		s.ISR, s.PartitionEpoch = v.state.ISR, v.state.PartitionEpoch
	}
	return s
}

// Status is a snapshot of the partition.
func (p *Partition) Status() Status {
	r := p.replica
	v := p.see()
	s := Status{
		Partition: p.tp, Topic: p.topic, Role: v.role, LastEpoch: v.lastEpoch, Leader: v.leader, LeaderEpoch: v.leaderEpoch,
		ISR: slices.Clone(r.ISR()), PendingISR: slices.Clone(r.PendingISR()), MinISR: r.MinISR(),
		LogStart: v.logStart, HighWatermark: v.highWatermark, LogEnd: v.logEnd, Flushed: v.flushed, Waiting: r.Waiting(),
	}
	if v.reason != nil {
		s.Reason = v.reason.Error()
	}
	if v.state != nil {
		s.PartitionEpoch = v.state.PartitionEpoch
	}
	if p.log != nil {
		s.SizeBytes = p.log.Size()
	}
	for _, f := range r.Followers(nil) {
		s.Followers = append(s.Followers, p.followerStatus(&f))
	}
	return s
}

func (p *Partition) followerStatus(f *replication.Progress) FollowerStatus {
	return FollowerStatus{
		Broker: f.Broker, BrokerEpoch: f.Epoch, Subscribed: f.Subscribed, InSync: slices.Contains(p.replica.ISR(), f.Broker),
		LogEnd: f.LogEnd, Flushed: f.Flushed, LagMs: p.replica.Lag(f, p.now).Milliseconds(),
	}
}
