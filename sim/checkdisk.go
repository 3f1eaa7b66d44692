package sim

import (
	"errors"
	"syscall"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Checks of what brokers make of disks that fail.

// injected reports whether an error is one that this package has made a disk give.
func injected(err error) bool {
	return errors.Is(err, errDisk) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC)
}

// damaged is for a log that cannot be opened. A disk that is in order loses what was not synced, and never anything else.
func (c *checker) damaged(b *broker, tp cluster.TopicPartition, err error) {
	if c.w.isSpoilt(b) || injected(err) {
		c.w.cov.DamagedLogs++
		c.w.note("damaged log: "+err.Error(), int64(b.id), c.w.key(tp))
		return
	}
	c.fail("I1: broker %d cannot open its log of %s: %v", b.id, c.w.named(tp), err)
}

// missing is for a replica whose directory is not there any more. Nothing but somebody who has taken it away may cause that where it counts.
func (c *checker) missing(b *broker, tp cluster.TopicPartition) {
	c.w.cov.MissingReplicas++
	c.w.note("missing", int64(b.id), c.w.key(tp))
	p, ok := c.w.meta.state.Image().Partition(tp)
	if ok && (p.InISR(b.id) || p.InELR(b.id)) && !c.w.isSpoilt(b) && !c.w.isTaken(b, tp) {
		c.fail("I1: broker %d misses the directory of %s, which nobody has taken away", b.id, c.w.named(tp))
	}
}

// closed is for the end of a log in an orderly stop.
func (c *checker) closed(b *broker, err error) {
	if err != nil && !injected(err) {
		c.fail("unexpected: broker %d cannot close a log: %v", b.id, err)
	}
}

// reaches checks that a leader whose disk was spoilt at least ends where what is committed ends (I1): its records may be unreadable, but it must not be
// elected without them.
func (c *checker) reaches(r *replica) {
	end := record.Offset(0)
	for at, s := range c.ledgers[r.tp].slots {
		if s.known {
			end = record.Offset(at) + 1
		}
	}
	if r.at.LogEnd < end {
		c.fail("I1: leader %d of epoch %d of %s ends at %d, and %d is committed", r.b.id, r.at.LeaderEpoch, c.w.named(r.tp), r.at.LogEnd, end)
	}
}
