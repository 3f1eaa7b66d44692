package replication

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Progress is the leader's view of one follower in the present leader epoch.
type Progress struct {
	Broker   cluster.BrokerID
	Epoch    cluster.BrokerEpoch // that the metadata knows
	Eligible bool
	// Subscribed says that a subscription was admitted and runs, under ID.
	Subscribed bool
	ID         session.SubscriptionID
	// SubscribedEpoch is the broker epoch of the newest admitted subscription. What it told counts only while it is the one that the metadata
	// knows: an earlier life may have lost it, a later one is not known to be the same disk.
	SubscribedEpoch cluster.BrokerEpoch
	// LogEnd and Flushed are what it last told, -1 before the first admitted subscription of this leader epoch.
	LogEnd, Flushed record.Offset
	// kept is the highest flushed end that any life of the broker told in this leader epoch: less than that means that its disk has lost something.
	kept record.Offset

	written, synced lag
}

// end is up to where the follower has the log, by the topic's measure; -1 when that is not known.
func (f *Progress) end(r *Replica) record.Offset {
	if f.SubscribedEpoch != f.Epoch && !planted.On(planted.NoBrokerEpoch) {
		return -1
	}
	return r.counted(f.LogEnd, f.Flushed)
}

// behindAt is when the follower will have been behind for too long, 0 while it is not behind.
func (f *Progress) behindAt(r *Replica) time.Duration {
	logEnd, flushed := f.LogEnd, f.Flushed
	if f.SubscribedEpoch != f.Epoch {
		logEnd, flushed = -1, -1
	}
	at := f.written.behindAt(logEnd, r.logEnd, r.config.LagMax)
	if !r.relaxed {
		at = sooner(at, f.synced.behindAt(flushed, r.flushed, r.config.LagMax))
	}
	return at
}

// tell takes ends that the follower reported.
func (f *Progress) tell(r *Replica, now time.Duration, logEnd, flushed record.Offset) {
	f.LogEnd, f.Flushed, f.kept = logEnd, flushed, max(f.kept, flushed)
	f.written.reached(logEnd, r.logEnd, now)
	f.synced.reached(flushed, r.flushed, now)
}

// forget drops what the follower told.
func (f *Progress) forget() {
	f.LogEnd, f.Flushed = -1, -1
	f.SubscribedEpoch = cluster.NoBrokerEpoch
}

// lag measures for how long a follower has not been where the leader was. It remembers one position of the leader and when the leader was
// there; reaching that position proves that the follower was caught up at that time.
type lag struct {
	target   record.Offset
	since    time.Duration
	caughtUp time.Duration
}

// begin starts the measure: the follower is given the benefit of the doubt.
func (l *lag) begin(leaderEnd record.Offset, now time.Duration) {
	*l = lag{target: leaderEnd, since: now, caughtUp: now}
}

// reached takes a report of the follower.
func (l *lag) reached(end, leaderEnd record.Offset, now time.Duration) {
	switch {
	case end >= leaderEnd:
		l.begin(leaderEnd, now)
	case end >= l.target:
		l.caughtUp = l.since
		l.target, l.since = leaderEnd, now
	}
}

// moved notes that the leader went on from old. A follower that was there is caught up until this moment.
func (l *lag) moved(end, old, leaderEnd record.Offset, now time.Duration) {
	if end >= old {
		l.begin(leaderEnd, now)
	}
}

// behindAt is when the follower will have been behind for too long, 0 while it is not behind.
func (l *lag) behindAt(end, leaderEnd record.Offset, limit time.Duration) time.Duration {
	if end >= leaderEnd {
		return 0
	}
	return max(1, l.caughtUp+limit)
}
