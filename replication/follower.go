package replication

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// following is the state of a replica while it follows, begun anew in each leader epoch.
type following struct {
	// admitted says that the leader has sent data: this log is a prefix of the leader's, and will be for the rest of the leader epoch.
	admitted bool
	// incoming is the epoch history once the append in progress is done.
	incoming EpochHistory
	// watermark and logStart are the newest that the leader has told; they take effect up to this log's end.
	watermark record.Offset
	logStart  record.Offset
	// retryAt, if above 0, is when to subscribe again.
	retryAt time.Duration
}

// follow begins to follow. Nothing is cut here: only the leader can say what of this log is not its own (KIP-101, case 29).
func (r *Replica) follow() {
	r.role = Follower
	r.following = following{}
	if planted.On(planted.TruncateToWatermark) && r.highWatermark < r.logEnd {
		r.cut(r.highWatermark, false)
		return
	}
	r.out.Subscribe = true
	r.out.Flush = !r.relaxed && r.flushed < r.logEnd
}

// fromLeader reports whether something belongs to the leadership that is followed.
func (r *Replica) fromLeader(epoch record.LeaderEpoch) bool {
	if r.role == Follower && (epoch == r.state.LeaderEpoch || planted.On(planted.NoEpochFence)) {
		return true
	}
	r.counts.Stale++
	return false
}

// delivered takes data from the leader.
func (r *Replica) delivered(in *Delivered) {
	if !r.fromLeader(in.LeaderEpoch) {
		return
	}
	f := &r.following
	if !f.admitted && r.logEnd > 0 && max(in.LogStart, r.logStart) >= r.logEnd {
		// The leader has nothing of what this log holds, or a log start that the metadata told has left nothing here, so nobody has compared them: it may have
		// ended in records that are in no other log. They are below the log start for readers; what the owner remembers of them, producers' batches, it must
		// forget.
		r.cut(r.logEnd, true)
	}
	f.admitted = true
	f.watermark = max(f.watermark, in.HighWatermark)
	f.logStart = max(f.logStart, in.LogStart)
	switch {
	case in.First >= in.End:
		r.catchUp()
	case in.First > r.logEnd:
		r.out.Subscribe = true // something was left out in between: ask again from our end
	case in.First < r.logEnd && r.logStart == r.logEnd && in.End > r.logEnd:
		// The leader's records begin inside this batch: those before were deleted, and a batch is kept whole. So that it fits, a log that is empty
		// begins where the batch does; the log start follows with the append.
		r.cut(in.First, true)
		r.copyOver(in)
	case in.First < r.logEnd:
		r.counts.Stale++
	default:
		r.copyOver(in)
	}
}

// copyOver appends delivered data as it is.
func (r *Replica) copyOver(in *Delivered) {
	incoming, ok := r.extended(in)
	if !ok {
		// A leader that sends epochs which cannot be is no leader to copy from. Ask again, so that the histories are compared.
		r.out.Subscribe = true
		return
	}
	r.following.incoming = incoming
	r.out.Append = append(r.out.Append, Append{Base: in.First, Epoch: incoming.Last(), Verbatim: true})
}

// extended is the epoch history with that of the delivered data.
func (r *Replica) extended(in *Delivered) (EpochHistory, bool) {
	history := r.epochs
	at := in.First
	for _, e := range in.Epochs {
		if e.Start < at || e.Start >= in.End || e.Epoch < history.Last() || e.Epoch > r.state.LeaderEpoch {
			return nil, false
		}
		at = e.Start
		history = history.with(e)
	}
	return history, true
}

// followerAppended goes on after an append of the leader's data.
func (r *Replica) followerAppended() {
	f := &r.following
	if f.incoming != nil {
		r.epochs, f.incoming = f.incoming.cutEnd(r.logEnd), nil
	}
	r.out.Ack = true
	r.catchUp()
}

// catchUp lets what the leader has told take effect, as far as this log reaches.
func (r *Replica) catchUp() {
	f := &r.following
	if w := min(f.watermark, r.logEnd); w > r.highWatermark {
		r.highWatermark = w
		r.out.Watermark = true
	}
	if s := min(f.logStart, r.logEnd); s > r.logStart {
		r.out.MoveStart = s
	}
}

// refused reacts to the leader's refusal.
func (r *Replica) refused(now time.Duration, in *SubscribeRefused) {
	if !r.fromLeader(in.LeaderEpoch) {
		return
	}
	switch {
	case in.Diverged && r.following.admitted:
		r.counts.Stale++ // an answer to what was asked before this log was cut
	case in.Diverged:
		r.diverged(now, in.Divergence)
	case in.Code == cluster.CodeOffsetOutOfRange && in.LogStart >= 0 && (r.logEnd < in.LogStart || r.logStart == r.logEnd):
		// Everything here lies below what the leader still has, or there is nothing here.
		r.cut(in.LogStart, true)
	default:
		r.retrySubscription(now)
	}
}

// diverged cuts what the leader does not have. The leader names the largest epoch not above our last one and where it ends there; whatever
// we have above that epoch, or of that epoch above that end, is not the leader's (KIP-279).
func (r *Replica) diverged(now time.Duration, leader cluster.EpochEnd) {
	to := min(leader.End, r.epochs.endAtMost(leader.Epoch, r.logEnd))
	switch {
	case to >= r.logEnd:
		r.retrySubscription(now) // a stale answer: it was cut already
	case to < r.logStart:
		r.cut(max(to, 0), true)
	default:
		r.cut(to, false)
	}
}

// retrySubscription asks again after a pause: the leader is not yet, or no longer, the one that the metadata here says.
func (r *Replica) retrySubscription(now time.Duration) {
	r.following.retryAt = now + SubscribeRetry
}

// followerTick asks again when it is time.
func (r *Replica) followerTick(now time.Duration) {
	if f := &r.following; f.retryAt > 0 && now >= f.retryAt {
		f.retryAt = 0
		r.out.Subscribe = true
	}
}
