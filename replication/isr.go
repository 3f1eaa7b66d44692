package replication

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// proposal is an ISR change in flight.
type proposal struct {
	change  cluster.ISRChange
	members []cluster.BrokerID
	// unknown says that an attempt may still be decided, although its answer was lost.
	unknown bool
}

// leaderStateChanged takes newer metadata of the same leader epoch. A higher partition epoch decides every proposal made under a lower one.
func (r *Replica) leaderStateChanged(now time.Duration, old *cluster.Partition) {
	l := &r.leading
	if r.state.PartitionEpoch > old.PartitionEpoch {
		l.settleISR()
		r.countISRChange(old.ISR, r.state.ISR)
	}
	r.syncFollowers(now)
}

// settleISR forgets what is undecided: the partition epoch has moved on, or the leadership has ended.
func (l *leading) settleISR() {
	l.pending, l.retryAt = nil, 0
	l.doubtful, l.doubtUntil = nil, 0
}

// doubt keeps the members of a proposal counted although it was refused: an earlier attempt of it may yet be decided.
func (l *leading) doubt(now time.Duration, p *proposal) {
	l.doubtful = union(l.doubtful, p.members)
	l.doubtUntil = now + DoubtFor
}

// countISRChange counts who left and who came.
func (r *Replica) countISRChange(old, isr []cluster.BrokerID) {
	if slices.ContainsFunc(old, func(b cluster.BrokerID) bool { return !slices.Contains(isr, b) }) {
		r.counts.Shrinks++
	}
	if slices.ContainsFunc(isr, func(b cluster.BrokerID) bool { return !slices.Contains(old, b) }) {
		r.counts.Expands++
	}
}

// syncFollowers makes the followers those of the metadata, and forgets what an earlier life of a broker told.
func (r *Replica) syncFollowers(now time.Duration) {
	l := &r.leading
	old := l.followers
	l.followers = make([]Progress, 0, len(r.state.Replicas))
	for _, b := range r.state.Replicas {
		if b == r.config.Self {
			continue
		}
		i := slices.IndexFunc(old, func(f Progress) bool { return f.Broker == b })
		f := Progress{Broker: b, Epoch: cluster.NoBrokerEpoch}
		if i >= 0 {
			f = old[i]
			old[i].Subscribed = false // moved to f
		} else {
			f.forget()
			f.written.begin(r.logEnd, now)
			f.synced.begin(r.flushed, now)
		}
		peer := r.peer(b)
		f.Eligible = peer.Eligible
		if peer.Epoch != f.Epoch {
			f.Epoch = peer.Epoch
			if f.SubscribedEpoch < peer.Epoch {
				r.endSubscription(&f, cluster.CodeStaleBrokerEpoch)
				f.written.moved(f.LogEnd, r.logEnd, r.logEnd, now) // who was caught up has from now on to come back
				f.synced.moved(f.Flushed, r.flushed, r.flushed, now)
				f.forget()
			}
		}
		l.followers = append(l.followers, f)
	}
	for i := range old {
		r.endSubscription(&old[i], cluster.CodeIneligibleReplica)
	}
}

// peer is what the metadata says about a broker.
func (r *Replica) peer(b cluster.BrokerID) Peer {
	for _, p := range r.peers {
		if p.Broker == b {
			return p
		}
	}
	return Peer{Broker: b, Epoch: cluster.NoBrokerEpoch}
}

// follower finds the progress of a broker, nil when it holds no replica.
func (r *Replica) follower(b cluster.BrokerID) *Progress {
	for i := range r.leading.followers {
		if r.leading.followers[i].Broker == b {
			return &r.leading.followers[i]
		}
	}
	return nil
}

// inMaximalISR reports whether b is in the ISR or in any that a proposal in flight may make of it (KAFKA-12686: counting too few loses records,
// counting too many only waits).
func (r *Replica) inMaximalISR(b cluster.BrokerID) bool {
	l := &r.leading
	if planted.On(planted.NewISROnly) && l.pending != nil {
		return slices.Contains(l.pending.members, b)
	}
	return r.state.InISR(b) || slices.Contains(l.doubtful, b) || (l.pending != nil && slices.Contains(l.pending.members, b))
}

// reviewISR proposes a new ISR when somebody is behind for too long or may join.
func (r *Replica) reviewISR(now time.Duration) {
	l := &r.leading
	if l.doubtUntil > 0 && now >= l.doubtUntil {
		l.doubtful, l.doubtUntil = nil, 0
		r.advance()
	}
	if r.role != Leader || now < l.retryAt {
		return
	}
	if l.pending != nil {
		if l.retryAt > 0 {
			// The very same proposal again: a different one under the same partition epoch would leave two that may win.
			l.retryAt = 0
			r.out.Alter = &l.pending.change
		}
		return
	}
	l.retryAt = 0
	isr := make([]cluster.BrokerID, 0, len(r.state.Replicas))
	isr = append(isr, r.config.Self)
	for i := range l.followers {
		f := &l.followers[i]
		if at := f.behindAt(r); at > 0 && now >= at {
			continue // behind for too long: out, or not in, since it would be out again at once (case 51)
		}
		if r.state.InISR(f.Broker) || r.mayJoin(f) {
			isr = append(isr, f.Broker)
		}
	}
	slices.Sort(isr)
	if slices.Equal(isr, r.state.ISR) {
		return
	}
	r.propose(isr)
}

// mayJoin reports whether a follower has everything that is committed and everything that was there when this leader epoch began, is known in
// its present life, and may be in an ISR.
func (r *Replica) mayJoin(f *Progress) bool {
	end := f.end(r)
	if planted.On(planted.NoBrokerEpoch) {
		return f.Eligible && end >= r.highWatermark && end >= r.leading.epochStart
	}
	if !f.Eligible || !f.Subscribed || f.Epoch == cluster.NoBrokerEpoch || f.SubscribedEpoch != f.Epoch {
		return false
	}
	if planted.On(planted.JoinBelowWatermark) {
		return end >= 0
	}
	if planted.On(planted.JoinUnflushed) {
		end = f.LogEnd
	}
	return end >= r.highWatermark && (end >= r.leading.epochStart || planted.On(planted.JoinBeforeEpochStart))
}

// propose sends an ISR to the controller. From here on the watermark counts the maximal ISR.
func (r *Replica) propose(isr []cluster.BrokerID) {
	p := &proposal{members: isr, change: cluster.ISRChange{
		Partition:      r.config.Partition,
		LeaderEpoch:    r.state.LeaderEpoch,
		PartitionEpoch: r.state.PartitionEpoch,
		ISR:            make([]cluster.ISRMember, 0, len(isr)),
	}}
	for _, b := range isr {
		p.change.ISR = append(p.change.ISR, cluster.ISRMember{Broker: b, Epoch: r.peer(b).Epoch})
	}
	r.leading.pending = p
	r.out.Alter = &p.change
}

// alterResult takes the controller's answer. One that belongs to another leadership or proposal says nothing about the present (case 34).
func (r *Replica) alterResult(now time.Duration, in *AlterPartitionResult) {
	l := &r.leading
	if planted.On(planted.LateAlterAccepted) && r.role == Leader && in.Code == cluster.CodeNone && in.State != nil {
		state := *r.state
		state.ISR = in.State.ISR
		r.state, l.pending = &state, nil
		r.advance()
		return
	}
	if r.role != Leader || l.pending == nil || in.LeaderEpoch != l.pending.change.LeaderEpoch || in.PartitionEpoch != l.pending.change.PartitionEpoch {
		r.counts.Stale++
		return
	}
	switch {
	case in.Code == cluster.CodeNone && in.State != nil && in.State.PartitionEpoch > r.state.PartitionEpoch:
		r.partitionChanged(now, in.State, nil)
	case in.Code == cluster.CodeNone && in.State != nil && in.State.PartitionEpoch == r.state.PartitionEpoch:
		l.pending = nil // accepted, and nothing was to be changed
	case in.Code != cluster.CodeNone && isVerdict(in.Code):
		// This attempt is dead. If an earlier one may be alive, or if somebody has changed the partition (perhaps that earlier one), its
		// members count until the partition epoch moves.
		if (l.pending.unknown || in.Code == cluster.CodeStalePartitionEpoch) && !planted.On(planted.LostProposalForgotten) {
			l.doubt(now, l.pending)
		}
		l.pending = nil
		l.retryAt = now + AlterRetry
		r.advance()
	default:
		l.pending.unknown = true
		l.retryAt = now + AlterRetry
	}
}

// isVerdict reports whether a code says that the controller has decided against a proposal, as opposed to not having been reached.
func isVerdict(code cluster.Code) bool {
	switch code {
	case cluster.CodeStalePartitionEpoch, cluster.CodeIneligibleReplica, cluster.CodeNotLeader, cluster.CodeFencedLeaderEpoch, cluster.CodeUnknownLeaderEpoch,
		cluster.CodeStaleBrokerEpoch, cluster.CodeUnknownBroker, cluster.CodeBrokerFenced, cluster.CodeUnknownTopic, cluster.CodeInvalidRequest:
		return true
	}
	return false
}

// union is the sorted union of two sets.
func union(a, b []cluster.BrokerID) []cluster.BrokerID {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}
