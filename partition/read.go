package partition

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/segment"
)

// staleRetries is how often a read takes a new view when the log has changed under the one it had.
const staleRetries = 3

// read answers a consumer, or a tool, over one view: no lock, no waiting. A segment may be deleted before the view that says so is out; then the log
// itself is asked what it has now.
func (r *reader) read(req ReadRequest) ReadResult {
	v := r.view.Load()
	res := v.read(req, v.log, r.lease)
	for attempt := 0; errors.Is(res.Err, segment.ErrStaleView); attempt++ {
		if attempt == staleRetries {
			res.Code = cluster.CodeOffsetNotAvailable
			return res
		}
		res = r.view.Load().read(req, r.log.View(), r.lease)
	}
	r.report(res.Err)
	return res
}

// report passes damage on to the partition. A read of what is whole costs one comparison.
func (r *reader) report(err error) {
	var damage *segment.DamageError
	if err != nil && r.damage != nil && errors.As(err, &damage) {
		r.damage(damage)
	}
}

func (v *view) read(req ReadRequest, log *segment.View, leased func() bool) ReadResult {
	res := ReadResult{
		Code: v.fence(req.LeaderEpoch, req.Follower), HighWatermark: v.highWatermark, LastStable: v.highWatermark,
		LogStart: v.logStart, LogEnd: v.logEnd, Leader: v.leader, LeaderEpoch: v.leaderEpoch,
	}
	if res.Code != cluster.CodeNone {
		return res
	}
	if end, diverged := v.divergence(req); diverged {
		res.Diverged, res.Divergence = true, end
		return res
	}
	toCome := len(v.epochs) > 0 && req.LastEpoch > v.epochs.Last() // what the client has read last is not in this log
	switch {
	case req.LastEpoch > v.leaderEpoch && v.role == RoleLeader:
		res.Code = cluster.CodeUnknownLeaderEpoch // a newer leader has answered this client: this one is deposed and has not heard of it, and nothing is out of range for that
		return res
	case (req.Offset > v.logEnd || toCome) && (v.role != RoleLeader || !leased()):
		// Behind the leader, which alone knows what is out of range: nobody is to start over for that (case 31). A leader that has lost touch with the
		// controller may have a successor that has gone on.
		res.Code = cluster.CodeOffsetNotAvailable
		return res
	case req.Offset < v.logStart, req.Offset > v.logEnd, toCome:
		res.Code = cluster.CodeOffsetOutOfRange
		return res
	case req.Offset >= v.highWatermark && !planted.On(planted.ReadsUncommitted):
		return res // between the watermark and the end: nothing yet, and no reason to send anybody away (case 31)
	}
	limit := v.highWatermark
	if planted.On(planted.ReadsUncommitted) {
		limit = v.logEnd
	}
	slice, err := log.Read(req.Offset, req.MaxBytes, limit)
	if err != nil {
		res.Code, res.Err = readCode(err), err
		return res
	}
	if req.Strict && slice.Len() > req.MaxBytes {
		slice.Release()
		slice = Slice{}
	}
	res.Slice = slice
	return res
}

// divergence compares what the client has last read with this log (KIP-320).
func (v *view) divergence(req ReadRequest) (cluster.EpochEnd, bool) {
	if req.LastEpoch == record.NoEpoch {
		return cluster.EpochEnd{}, false
	}
	end, ok := v.epochs.End(req.LastEpoch, v.logEnd)
	if !ok {
		return cluster.EpochEnd{}, false
	}
	return end, end.Epoch < req.LastEpoch || end.End < req.Offset
}

// readCode says what a failed read means to a client.
func readCode(err error) cluster.Code {
	if errors.Is(err, segment.ErrOffsetOutOfRange) {
		return cluster.CodeOffsetOutOfRange
	}
	if errors.Is(err, segment.ErrDamaged) {
		return cluster.CodeCorrupt
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cluster.CodeTimedOut
	}
	return cluster.CodeStorage
}

// list answers an offset question over one view. ctx ends a search.
func (r *reader) list(ctx context.Context, req ListRequest) (ListResult, error) {
	v := r.view.Load()
	res := ListResult{Code: v.fence(req.LeaderEpoch, req.Follower), Offset: -1, TimestampMs: -1, LeaderEpoch: record.NoEpoch}
	if res.Code != cluster.CodeNone {
		return res, nil
	}
	switch req.Kind {
	case ListEarliest:
		res.Offset, res.LeaderEpoch = v.logStart, v.epochAt(v.logStart)
	case ListLatest:
		if v.role == RoleLeader && (!v.settled && !planted.On(planted.LatestBeforeSettled) || !r.lease() && !planted.On(planted.LeaseIgnoredByLatest)) {
			// Before the watermark has settled, or when another leader may be at work, "latest" could go back (KIP-207).
			res.Code = cluster.CodeOffsetNotAvailable
			return res, nil
		}
		res.Offset, res.LeaderEpoch = v.highWatermark, v.epochAt(v.highWatermark-1)
	default:
		return v.search(ctx, req, res)
	}
	return res, nil
}

// search looks for a timestamp below the watermark.
func (v *view) search(ctx context.Context, req ListRequest, res ListResult) (ListResult, error) {
	var found bool
	var err error
	if req.Kind == ListMaxTimestamp {
		res.Offset, res.TimestampMs, found, err = v.log.MaxTimestamp(ctx, v.highWatermark, req.Memory)
	} else {
		res.Offset, res.TimestampMs, found, err = v.log.OffsetForTimestamp(ctx, req.TimestampMs, v.highWatermark, req.Memory)
	}
	switch {
	case err != nil:
		res.Code, res.Offset, res.TimestampMs = readCode(err), -1, -1
		return res, fmt.Errorf("partition: search by timestamp: %w", err)
	case !found:
		res.Offset, res.TimestampMs = -1, -1
	default:
		res.LeaderEpoch = v.epochAt(res.Offset)
	}
	return res, nil
}

// epochAt is the leader epoch of the record at an offset, record.NoEpoch where the history does not say.
func (v *view) epochAt(o record.Offset) record.LeaderEpoch {
	epoch := record.NoEpoch
	for _, e := range v.epochs {
		if e.Start > o {
			break
		}
		epoch = e.Epoch
	}
	return epoch
}

// epochEnd answers OffsetForLeaderEpoch.
func (r *reader) epochEnd(current, asked record.LeaderEpoch) EpochEndResult {
	v := r.view.Load()
	res := EpochEndResult{Code: v.fence(current, false), EpochEnd: cluster.EpochEnd{Epoch: record.NoEpoch, End: -1}}
	if res.Code != cluster.CodeNone {
		return res
	}
	if end, ok := v.epochs.End(asked, v.logEnd); ok {
		res.EpochEnd = end
	}
	return res
}

// replicaReader reads a leader's log for a follower, up to the log end.
type replicaReader struct {
	p     *reader
	epoch record.LeaderEpoch
	// begun says that something was read. A follower that has refused what it was sent asks again: what it is sent first is checked once more (case 63).
	begun atomic.Bool
}

var _ fetcher.Reader = (*replicaReader)(nil)

// ReadReplica implements fetcher.Reader. It ends with an error when this is no longer the leadership that admitted the follower.
func (r *replicaReader) ReadReplica(from record.Offset, max int) (out fetcher.Range, end, highWatermark, logStart record.Offset, err error) {
	for attempt := 0; ; attempt++ {
		v := r.p.view.Load()
		if v.role != RoleLeader || v.leaderEpoch != r.epoch {
			return nil, 0, 0, 0, cluster.Refuse(cluster.CodeNotLeader, "the replica does not lead under that epoch any more")
		}
		log := v.log
		if attempt > 0 {
			log = r.p.log.View()
		}
		read := log.Read
		if !r.begun.Load() {
			read = log.ReadAgain
		}
		slice, err := read(from, max, v.logEnd)
		if errors.Is(err, segment.ErrStaleView) && attempt < staleRetries {
			continue
		}
		if err != nil {
			r.p.report(err)
			return nil, 0, 0, 0, &replicaReadError{code: readCode(err), err: err}
		}
		if slice.Len() == 0 {
			return nil, from, v.highWatermark, v.logStart, nil
		}
		r.begun.Store(true)
		return slice, slice.Next(), v.highWatermark, v.logStart, nil
	}
}

// replicaReadError says why a follower cannot be served, with a code for it.
type replicaReadError struct {
	code cluster.Code
	err  error
}

func (e *replicaReadError) Error() string { return "partition: read for a follower: " + e.err.Error() }

func (e *replicaReadError) Unwrap() []error {
	return []error{e.err, cluster.Refuse(e.code, e.err.Error())}
}
