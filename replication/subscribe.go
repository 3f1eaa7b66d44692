package replication

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// subscribe admits or refuses a follower. An admitted follower's log is a prefix of this one, and stays so for the rest of the leader epoch.
func (r *Replica) subscribe(now time.Duration, in *SubscribeRequested) {
	if code := r.subscriptionFence(in); code != cluster.CodeNone {
		r.refuse(in, code)
		return
	}
	f := r.follower(in.Follower)
	lost := r.lost(f, in)
	r.admit(now, f, in)
	r.out.Admit[len(r.out.Admit)-1].Lost = lost
}

// lost notices that a new life of a follower has less than an earlier one had flushed, once. That such a log is shorter than the leader's would not show it.
func (r *Replica) lost(f *Progress, in *SubscribeRequested) *Lost {
	if in.Epoch == f.SubscribedEpoch || in.LogEnd >= f.kept || r.relaxed {
		return nil
	}
	r.counts.Lost++
	out := &Lost{Flushed: f.kept, LogEnd: in.LogEnd}
	f.kept = in.LogEnd
	return out
}

// admit answers a follower that may subscribe, once.
func (r *Replica) admit(now time.Duration, f *Progress, in *SubscribeRequested) {
	f.Subscribed = false // a second one replaces the first, which the sender has ended
	if in.LogEnd < r.logStart || (in.LastEpoch == record.NoEpoch && in.LogEnd > r.logEnd) {
		r.refuse(in, cluster.CodeOffsetOutOfRange)
		return
	}
	if end, diverged := r.divergence(in); diverged {
		r.counts.Diverged++
		r.out.Admit = append(r.out.Admit, Admission{Follower: in.Follower, Refused: session.Refused{
			ID: in.ID, Code: cluster.CodeOffsetOutOfRange, LeaderEpoch: r.state.LeaderEpoch,
			Diverged: true, Divergence: end, LogStart: r.logStart,
		}})
		return
	}
	if f.SubscribedEpoch != in.Epoch {
		f.LogEnd, f.Flushed = -1, -1
	}
	f.Subscribed, f.ID, f.SubscribedEpoch = true, in.ID, in.Epoch
	// Within one life and one leader epoch a follower's log does not shrink (the controller begins a new epoch when it takes a replica away), so a position
	// read a little early takes nothing back.
	f.tell(r, now, max(f.LogEnd, in.LogEnd), max(f.Flushed, min(in.Flushed, in.LogEnd)))
	r.out.Admit = append(r.out.Admit, Admission{Follower: in.Follower, Accepted: true, Refused: session.Refused{ID: in.ID}})
	r.followerMoved(now, f)
}

// subscriptionFence refuses who may not subscribe here and now.
func (r *Replica) subscriptionFence(in *SubscribeRequested) cluster.Code {
	if r.role != Leader {
		return cluster.CodeNotLeader
	}
	if !planted.On(planted.NoEpochFence) {
		if in.LeaderEpoch < r.state.LeaderEpoch {
			return cluster.CodeFencedLeaderEpoch
		}
		if in.LeaderEpoch > r.state.LeaderEpoch {
			return cluster.CodeUnknownLeaderEpoch
		}
	}
	switch f := r.follower(in.Follower); {
	case f == nil:
		return cluster.CodeIneligibleReplica
	case in.Epoch < f.Epoch && !planted.On(planted.NoBrokerEpoch):
		return cluster.CodeStaleBrokerEpoch
	}
	return cluster.CodeNone
}

// divergence compares the end of the follower's log with where its last epoch ends here.
func (r *Replica) divergence(in *SubscribeRequested) (cluster.EpochEnd, bool) {
	if in.LastEpoch == record.NoEpoch || planted.On(planted.NoDivergenceCheck) {
		return cluster.EpochEnd{}, false
	}
	end, ok := r.epochs.End(in.LastEpoch, r.logEnd)
	if !ok {
		// The follower has an epoch newer than the one it asks under: it has heard of a leader after us.
		return cluster.EpochEnd{Epoch: r.epochs.Last(), End: r.logEnd}, true
	}
	return end, end.Epoch < in.LastEpoch || end.End < in.LogEnd
}

// refuse answers a subscription request with a code.
func (r *Replica) refuse(in *SubscribeRequested, code cluster.Code) {
	epoch := record.NoEpoch
	if r.role == Leader {
		epoch = r.state.LeaderEpoch
	}
	r.out.Admit = append(r.out.Admit, Admission{Follower: in.Follower, Refused: session.Refused{
		ID: in.ID, Code: code, LeaderEpoch: epoch, LogStart: r.logStart,
	}})
}

// endSubscription refuses a running subscription.
func (r *Replica) endSubscription(f *Progress, code cluster.Code) {
	if !f.Subscribed {
		return
	}
	f.Subscribed = false
	r.out.Admit = append(r.out.Admit, Admission{Follower: f.Broker, Refused: session.Refused{
		ID: f.ID, Code: code, LeaderEpoch: record.NoEpoch, LogStart: r.logStart,
	}})
}

// unsubscribed notes that a subscription has ended. What the follower told still counts: it is on its disk.
func (r *Replica) unsubscribed(in *Unsubscribed) {
	if r.role != Leader {
		return
	}
	if f := r.follower(in.Follower); f != nil && f.Subscribed && f.ID == in.ID && f.SubscribedEpoch == in.Epoch {
		f.Subscribed = false
	}
}

// followerAck takes a follower's report. It counts only under an admitted subscription of this leader epoch, from the life of the broker that
// subscribed: otherwise nothing is known about what lies below those offsets.
func (r *Replica) followerAck(now time.Duration, in *FollowerAck) {
	if r.role != Leader {
		r.counts.Stale++
		return
	}
	f := r.follower(in.Follower)
	known := f != nil && f.Subscribed && in.ID == f.ID && in.LeaderEpoch == r.state.LeaderEpoch && in.Epoch == f.SubscribedEpoch && in.LogEnd <= r.logEnd
	if f != nil && in.LogEnd <= r.logEnd {
		known = known || planted.On(planted.NoEpochFence) || (planted.On(planted.NoBrokerEpoch) && in.LeaderEpoch == r.state.LeaderEpoch)
	}
	if !known {
		r.counts.Stale++
		return
	}
	f.tell(r, now, max(f.LogEnd, in.LogEnd), max(f.Flushed, min(in.Flushed, in.LogEnd)))
	r.followerMoved(now, f)
}

// followerMoved goes on after a follower has told something new.
func (r *Replica) followerMoved(now time.Duration, f *Progress) {
	if r.inMaximalISR(f.Broker) {
		r.advance()
		return
	}
	r.reviewISR(now)
}
