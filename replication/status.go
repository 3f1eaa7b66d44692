package replication

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Role is what the replica is at present.
func (r *Replica) Role() Role { return r.role }

// Leader is who leads, cluster.NoBroker when nobody does or nothing is known.
func (r *Replica) Leader() cluster.BrokerID {
	if r.state == nil {
		return cluster.NoBroker
	}
	return r.state.Leader
}

// LeaderEpoch is the newest leader epoch known, record.NoEpoch before the first PartitionChanged.
func (r *Replica) LeaderEpoch() record.LeaderEpoch {
	if r.state == nil {
		return record.NoEpoch
	}
	return r.state.LeaderEpoch
}

// State is the newest metadata, nil before the first PartitionChanged.
func (r *Replica) State() *cluster.Partition { return r.state }

// LogStart is the first offset.
func (r *Replica) LogStart() record.Offset { return r.logStart }

// LogEnd is the next offset to be appended.
func (r *Replica) LogEnd() record.Offset { return r.logEnd }

// Flushed is the next offset not known to be on disk.
func (r *Replica) Flushed() record.Offset { return r.flushed }

// Generation counts truncations. A flush carries the one in which it began.
func (r *Replica) Generation() uint64 { return r.generation }

// HighWatermark is the next offset not known to be committed.
func (r *Replica) HighWatermark() record.Offset { return r.highWatermark }

// Settled reports whether a leader's watermark is at least where its epoch began. Before that the previous leader may have told clients of
// higher offsets, so "latest" has no answer (KIP-207). Nor has it one while a previous leader that the watermark does not count may answer from its lease.
func (r *Replica) Settled() bool {
	return r.role == Leader && r.highWatermark >= r.leading.epochStart && r.leading.quietUntil == 0
}

// Lease is until when this broker may believe its metadata.
func (r *Replica) Lease() time.Duration { return r.lease }

// Epochs is the epoch history, immutable.
func (r *Replica) Epochs() EpochHistory { return r.epochs }

// Next is where the next admitted batch will begin.
func (r *Replica) Next() record.Offset {
	if r.role == Leader {
		return r.leading.next
	}
	return r.logEnd
}

// LastEpoch is the leader epoch of the last record, record.NoEpoch for an empty log.
func (r *Replica) LastEpoch() record.LeaderEpoch {
	if r.logStart == r.logEnd {
		return record.NoEpoch
	}
	return r.epochs.at(r.logEnd - 1)
}

// MinISR is the effective minimum.
func (r *Replica) MinISR() int { return r.minISR }

// Relaxed reports whether ends count when written.
func (r *Replica) Relaxed() bool { return r.relaxed }

// ISR is the agreed in-sync set, nil before the first PartitionChanged.
func (r *Replica) ISR() []cluster.BrokerID {
	if r.state == nil {
		return nil
	}
	return r.state.ISR
}

// PendingISR is the set that is proposed and not yet decided, nil for none.
func (r *Replica) PendingISR() []cluster.BrokerID {
	if r.role != Leader || r.leading.pending == nil {
		return nil
	}
	return r.leading.pending.members
}

// MaximalISR is every broker that the watermark counts.
func (r *Replica) MaximalISR() []cluster.BrokerID {
	out := slices.Clone(r.ISR())
	if r.role == Leader {
		out = union(union(out, r.PendingISR()), r.leading.doubtful)
	}
	return out
}

// Followers appends what the leader knows of its followers.
func (r *Replica) Followers(out []Progress) []Progress {
	if r.role != Leader {
		return out
	}
	return append(out, r.leading.followers...)
}

// Lag is for how long a follower has not been where this leader is, 0 while it is there.
func (r *Replica) Lag(f *Progress, now time.Duration) time.Duration {
	at := f.behindAt(r)
	if at == 0 {
		return 0
	}
	return max(0, now-(at-r.config.LagMax))
}

// Waiting is how many produce requests wait.
func (r *Replica) Waiting() int {
	l := &r.leading
	return l.isr.len() + l.local.len() + l.appends.len()
}

// Counts are totals since New.
func (r *Replica) Counts() Counts { return r.counts }

// Failure is why the replica is offline, nil otherwise.
func (r *Replica) Failure() error { return r.failure }
