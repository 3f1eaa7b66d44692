package replication

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// leading is the state of a replica while it leads, begun anew in each leader epoch.
type leading struct {
	// epochStart is where this leader's epoch begins: its log end at the election.
	epochStart record.Offset
	// next is where the next admitted batch will begin: logEnd plus what was admitted and is not yet appended.
	next      record.Offset
	followers []Progress

	// quietUntil, if above 0, is until when "latest" has no answer: a former leader has left the replicas, is not waited for by the watermark, and may
	// answer from its lease until then.
	quietUntil time.Duration

	// pending is the ISR proposal in flight, nil for none. retryAt, if above 0, is when it may be sent again, or the ISR looked at anew.
	pending *proposal
	retryAt time.Duration
	// doubtful are members proposed under the present partition epoch by proposals of unknown fate: they may yet become the ISR, so the watermark
	// counts them until the partition epoch moves on, or doubtUntil.
	doubtful   []cluster.BrokerID
	doubtUntil time.Duration

	isr, local, appends waitQueue
}

// formerLeader is a broker that does not lead any more, and until when it may answer from its lease without knowing that.
type formerLeader struct {
	broker cluster.BrokerID
	until  time.Duration
}

// leaderLeft notes that another broker has led until this step.
func (r *Replica) leaderLeft(now time.Duration, id cluster.BrokerID) {
	r.former = slices.DeleteFunc(r.former, func(f formerLeader) bool { return f.until <= now || f.broker == id })
	r.former = append(r.former, formerLeader{broker: id, until: now + PredecessorLease})
}

// awaitFormer keeps "latest" back as long as a former leader that is no replica any more may answer. One that is a replica is waited for by the watermark: it
// is in the ISR, or was taken out when its lease was over.
func (r *Replica) awaitFormer(now time.Duration) {
	for _, f := range r.former {
		if f.until > now && !r.state.HasReplica(f.broker) && !planted.On(planted.FormerLeaderNotAwaited) {
			r.leading.quietUntil = max(r.leading.quietUntil, f.until)
		}
	}
}

// lead begins to lead.
func (r *Replica) lead(now time.Duration) {
	if r.state.LogStart > r.logEnd {
		// Records were deleted above this log's end, so they were committed and this replica should have them: an unclean election. The deletion stands (case 65).
		r.cut(r.state.LogStart, true)
	}
	r.role = Leader
	l := &r.leading
	*l = leading{
		epochStart: r.logEnd, next: r.logEnd, followers: l.followers[:0],
		isr: waitQueue{items: l.isr.items[:0]}, local: waitQueue{items: l.local.items[:0]}, appends: waitQueue{items: l.appends.items[:0]},
	}
	r.epochs = r.epochs.with(record.EpochStart{Epoch: r.state.LeaderEpoch, Start: r.logEnd})
	if planted.On(planted.LeaderTrustsItsLog) {
		r.highWatermark = r.logEnd
	}
	r.syncFollowers(now)
	r.out.Flush = !r.relaxed && r.flushed < r.logEnd
}

// resign stops leading: everybody who waits is told, and asks the next leader.
func (r *Replica) resign(code cluster.Code) {
	l := &r.leading
	r.out.Respond = l.appends.fail(code, r.out.Respond)
	r.out.Respond = l.local.fail(code, r.out.Respond)
	r.out.Respond = l.isr.fail(code, r.out.Respond)
	for i := range l.followers {
		if l.followers[i].Subscribed {
			r.endSubscription(&l.followers[i], code)
		}
	}
	l.settleISR()
	// An epoch in which nothing was appended leaves no trace in the log, nor here.
	r.epochs = r.epochs.cutEnd(r.logEnd)
}

// produce admits or refuses a batch.
func (r *Replica) produce(now time.Duration, in *ProduceRequested) {
	if in.Offsets <= 0 { // checked by hand, because the arguments of Check would be allocated for every batch
		invariant.Check(false, "replica: batch of %d offsets", in.Offsets)
	}
	if code := r.admission(now, in); code != cluster.CodeNone {
		r.respond(in.Request, code, -1)
		return
	}
	l := &r.leading
	w := waiting{request: in.Request, base: l.next, end: l.next + record.Offset(in.Offsets), deadline: in.Deadline}
	if in.DuplicateEnd > 0 {
		w.base, w.end = in.DuplicateBase, in.DuplicateEnd
	} else {
		l.next = w.end
		r.out.Append = append(r.out.Append, Append{Request: in.Request, Base: w.base, Epoch: r.state.LeaderEpoch})
	}
	if r.satisfied(in.Acks, w.end) || planted.On(planted.DuplicateAnsweredEarly) && in.DuplicateEnd > 0 {
		r.respond(w.request, cluster.CodeNone, w.base) // a duplicate of something that is safe already
		return
	}
	r.queue(in.Acks).add(w)
}

// admission says whether a batch may be appended now.
func (r *Replica) admission(now time.Duration, in *ProduceRequested) cluster.Code {
	if code := r.fence(in.LeaderEpoch); code != cluster.CodeNone {
		return code
	}
	switch {
	case r.role != Leader:
		return cluster.CodeNotLeader
	case in.Acks == AcksISR && len(r.state.ISR) < r.minISR:
		return cluster.CodeNotEnoughReplicas
	case in.Acks != AcksISR && now >= r.lease && !planted.On(planted.LeaseIgnoredByAcksLeader):
		// Without the controller another leader may have been elected. acks=isr finds that out by itself, the others would not.
		return cluster.CodeNotLeader
	case r.queue(in.Acks).len() >= MaxWaiting:
		return cluster.CodeOverloaded
	}
	return cluster.CodeNone
}

// fence compares a client's leader epoch with ours.
func (r *Replica) fence(epoch record.LeaderEpoch) cluster.Code {
	switch {
	case epoch == record.NoEpoch || r.state == nil || epoch == r.state.LeaderEpoch:
		return cluster.CodeNone
	case epoch < r.state.LeaderEpoch:
		return cluster.CodeFencedLeaderEpoch
	}
	return cluster.CodeUnknownLeaderEpoch
}

// queue is where requests of a level wait.
func (r *Replica) queue(acks Acks) *waitQueue {
	switch acks {
	case AcksISR:
		return &r.leading.isr
	case AcksLeader:
		return &r.leading.local
	}
	return &r.leading.appends
}

// satisfied reports whether what ends at end is acknowledged at a level.
func (r *Replica) satisfied(acks Acks, end record.Offset) bool {
	switch acks {
	case AcksISR:
		return end <= r.highWatermark
	case AcksLeader:
		return end <= r.counted(r.logEnd, r.flushed)
	}
	return end <= r.logEnd
}

// counted is the end that counts: what is flushed, or what is written when the topic is relaxed.
func (r *Replica) counted(logEnd, flushed record.Offset) record.Offset {
	if r.relaxed || planted.On(planted.CountUnflushed) {
		return logEnd
	}
	return flushed
}

// leaderAppended goes on after an append of the leader's own.
func (r *Replica) leaderAppended(now time.Duration, old record.Offset) {
	l := &r.leading
	if r.logEnd != l.next {
		invariant.Check(false, "replica: appended to %d, admitted to %d", r.logEnd, l.next)
	}
	r.out.Respond = l.appends.complete(r.logEnd, cluster.CodeNone, r.out.Respond)
	for i := range l.followers {
		f := &l.followers[i]
		f.written.moved(f.LogEnd, old, r.logEnd, now)
	}
	if r.relaxed || planted.On(planted.CountUnflushed) {
		r.completeLocalAt(now)
		r.advance()
	}
}

// leaderFlushed goes on after a flush of the leader's own.
func (r *Replica) leaderFlushed(now time.Duration, old record.Offset) {
	for i := range r.leading.followers {
		f := &r.leading.followers[i]
		f.synced.moved(f.Flushed, old, r.flushed, now)
	}
	r.completeLocalAt(now)
	r.advance()
}

// appendRefused goes on when the log took nothing.
func (r *Replica) appendRefused(now time.Duration) {
	switch r.role {
	case Leader:
		l := &r.leading
		l.next = r.logEnd
		r.out.Respond = l.appends.refuse(r.logEnd, cluster.CodeStorage, r.out.Respond)
		r.out.Respond = l.local.refuse(r.logEnd, cluster.CodeStorage, r.out.Respond)
		r.out.Respond = l.isr.refuse(r.logEnd, cluster.CodeStorage, r.out.Respond)
	case Follower:
		r.retrySubscription(now)
	}
}

// completeLocalAt answers acks=leader. Past the lease somebody else may lead, so that the answer would promise too much.
func (r *Replica) completeLocalAt(now time.Duration) {
	code := cluster.CodeNone
	if now >= r.lease {
		code = cluster.CodeTimedOut
	}
	r.out.Respond = r.leading.local.complete(r.counted(r.logEnd, r.flushed), code, r.out.Respond)
}

// completeCommitted answers acks=isr.
func (r *Replica) completeCommitted() {
	if r.role == Leader {
		r.out.Respond = r.leading.isr.complete(r.highWatermark, cluster.CodeNone, r.out.Respond)
	}
}

// advance raises the watermark to what every member of the maximal ISR has. Below the minimum it stands still, whatever acks=leader appends
// (KIP-966, case 39).
func (r *Replica) advance() {
	if len(r.state.ISR) < r.minISR && !planted.On(planted.WatermarkBelowMinISR) {
		return
	}
	low := r.counted(r.logEnd, r.flushed)
	for i := range r.leading.followers {
		f := &r.leading.followers[i]
		if r.inMaximalISR(f.Broker) {
			low = min(low, f.end(r))
		}
	}
	if low <= r.highWatermark {
		return
	}
	r.highWatermark = low
	r.out.Watermark = true
	r.completeCommitted()
}

// leaderTick does what is due at a leader.
func (r *Replica) leaderTick(now time.Duration) {
	l := &r.leading
	if now >= l.quietUntil {
		l.quietUntil = 0
	}
	code := cluster.CodeTimedOut
	r.out.Respond = l.appends.expire(now, code, r.out.Respond)
	r.out.Respond = l.local.expire(now, code, r.out.Respond)
	if len(r.state.ISR) < r.minISR {
		code = cluster.CodeNotEnoughReplicasAfter
	}
	r.out.Respond = l.isr.expire(now, code, r.out.Respond)
	r.reviewISR(now)
}

// leaderDeadline is when a leader has something to do.
func (r *Replica) leaderDeadline() time.Duration {
	l := &r.leading
	at := sooner(sooner(l.retryAt, l.doubtUntil), l.quietUntil)
	for _, q := range [...]*waitQueue{&l.isr, &l.local, &l.appends} {
		if q.len() > 0 {
			at = sooner(at, q.earliest)
		}
	}
	if l.pending != nil || l.retryAt > 0 {
		return at
	}
	for i := range l.followers {
		f := &l.followers[i]
		if r.state.InISR(f.Broker) {
			at = sooner(at, f.behindAt(r))
		}
	}
	return at
}

// sooner is the smaller of two times of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
