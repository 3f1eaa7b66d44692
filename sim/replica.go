package sim

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/replication"
)

// maintainEvery is how often a replica is maintained, at most. The product takes a minute.
const maintainEvery = 600 * time.Millisecond

// replica is one open partition with the loop around it: an inbox whose inputs are taken in turns, the deadline, and the flush under way. It stands
// in for partition.Runner.
type replica struct {
	*partition.Standalone
	b  *broker
	tp cluster.TopicPartition

	inbox   []func()
	acks    []replication.FollowerAck // the newest of each follower
	turning bool
	armed   time.Duration // for when a tick is scheduled, 0 for none
	// told is what the metadata last said here, images where it said so: in the turn before, and in this one.
	told   *cluster.Partition
	images []*cluster.Image
	// granted is what the controller has made of this replica's proposals, as far as it has answered in this turn: metadata that is newer may follow at once.
	granted []*cluster.Partition
	// led says that it led in some moment of this turn.
	led bool
	// halted replicas take part in nothing any more: they are about to be closed, and then closed.
	halted, closed bool

	at   partition.Status // after the last turn
	cuts int              // turns after which the log was shorter than before
	// seen is up to where the checker has compared this replica with what is committed.
	seen int64
}

// post puts something into the inbox. All that has come by the next turn is taken together.
func (r *replica) post(what func()) {
	if r.closed {
		return
	}
	r.inbox = append(r.inbox, what)
	r.wake()
}

// step posts an input of the machine.
func (r *replica) step(in replication.Input) { r.post(func() { r.Step(in) }) }

func (r *replica) wake() {
	if !r.turning && !r.closed {
		r.turning = true
		r.b.later(r.b.w.between(0, 200*time.Microsecond), r.turn)
	}
}

// ack keeps the newest acknowledgement of each follower, as the product's inbox does.
func (r *replica) ack(a replication.FollowerAck) {
	r.wake()
	for i := range r.acks {
		if r.acks[i].Follower == a.Follower {
			r.acks[i] = a
			return
		}
	}
	r.acks = append(r.acks, a)
}

// grant posts the answer to a proposal.
func (r *replica) grant(in *replication.AlterPartitionResult) {
	r.post(func() {
		if in.Code == cluster.CodeNone && in.State != nil {
			r.granted = append(r.granted, in.State)
		}
		r.Step(in)
	})
}

// inform posts what the metadata says about the partition.
func (r *replica) inform(image *cluster.Image) {
	r.post(func() {
		if state, ok := image.Partition(r.tp); ok {
			r.told, r.images = state, append(r.images, image)
		}
		r.Inform(image)
		r.led = r.led || r.Status().Role == partition.RoleLeader
	})
}

// maintainLater schedules retention, the expiry of producers and a checkpoint, again and again.
func (r *replica) maintainLater() {
	r.b.later(r.b.w.between(maintainEvery/2, maintainEvery), func() {
		if !r.halted {
			r.post(r.Maintain)
			r.maintainLater()
		}
	})
}

// halt ends the replica's part in replication: whoever waits is answered. Flushes may still be under way.
func (r *replica) halt() {
	r.post(func() {
		r.Stop()
		r.halted = true
	})
}

// atRest reports whether a halted replica may be closed.
func (r *replica) atRest() bool { return r.halted && !r.turning && !r.Flushing() }

// turn takes everything from the inbox.
func (r *replica) turn() {
	r.turning = false
	r.images, r.led = r.images[max(0, len(r.images)-1):], r.at.Role == partition.RoleLeader
	r.granted = nil
	inbox, acks := r.inbox, r.acks
	r.inbox, r.acks = nil, nil
	r.Begin(r.b.Now(), r.b.WallMs())
	for _, what := range inbox {
		what()
	}
	for i := range acks {
		r.Step(&acks[i])
	}
	s := r.Settle()
	if s.Flush != nil {
		r.flush(s.Flush)
	}
	if s.Deadline > 0 && (r.armed == 0 || s.Deadline < r.armed) {
		r.armed = s.Deadline
		at := s.Deadline
		r.b.later(max(0, at-r.b.Now()), func() {
			if r.armed == at {
				r.armed = 0
				r.step(&replication.Tick{})
			}
		})
	}
	before := r.at
	if r.at = r.Status(); r.at.LogEnd < before.LogEnd {
		r.cuts++
	}
	r.b.w.check.turned(r, &before)
}

// flush runs an fsync. When the data reaches the disk within it is up to chance: at its begin, so that what is written meanwhile is not covered, or
// at its end.
func (r *replica) flush(job *partition.FlushJob) {
	w, cuts := r.b.w, r.cuts
	d := w.between(100*time.Microsecond, w.mix.flushTime[r.b.id])
	switch {
	case r.b.slowDisk:
		d = w.between(20*time.Millisecond, 1500*time.Millisecond)
	case w.chance(30):
		d = w.between(5*time.Millisecond, 80*time.Millisecond)
	}
	if w.chance(500) {
		err := job.Sync()
		r.b.later(d, func() { r.post(func() { r.flushed(job, err, cuts) }) })
		return
	}
	r.b.later(d, func() {
		err := job.Sync()
		r.post(func() { r.flushed(job, err, cuts) })
	})
}

// flushed tells the replica of the end of a flush, before which it had been cut so many times.
func (r *replica) flushed(job *partition.FlushJob, err error, cuts int) {
	before := r.ProducerSnapshot()
	r.FlushDone(job, err)
	if r.ProducerSnapshot() > before {
		r.b.w.cov.ProducerSnapshots++
	}
	if cuts != r.cuts {
		r.b.w.check.remembers(r)
	}
}
