package sim

import (
	"context"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// consumer reads one partition from its beginning on, without ever going back.
type consumer struct {
	l          *workload
	node       node
	tp         cluster.TopicPartition
	anyReplica bool // asks followers too
	position   record.Offset
	lastEpoch  record.LeaderEpoch // of the last batch read
	// epochs says where, of what was read since the beginning or the last reset, each leader epoch begins.
	epochs []record.EpochStart
	// losses is how many losses of the partition it has been told of, or has come past.
	losses  int
	to      route
	attempt int
	// held reports whether nothing is to be asked for now, and takes what to do once it is; nil for who is never held.
	held func(again func()) bool
}

// fetched is an answer as it travels.
type fetched struct {
	partition.ReadResult
	bytes  []byte
	asked  record.LeaderEpoch
	leader bool // the request was for leaders only
	// suspect says that bytes were changed under the running broker: the client has to find that.
	suspect bool
}

// fetch asks for more. Like a real client it names the leader epoch that it knows, so that a leader of an older one refuses.
func (c *consumer) fetch() {
	if c.held != nil && c.held(c.fetch) {
		return
	}
	w := c.l.w
	c.attempt++
	attempt := c.attempt
	b, epoch := c.to.leader, c.to.epoch
	req := partition.ReadRequest{Offset: c.position, MaxBytes: maxReadBytes, LeaderEpoch: epoch, LastEpoch: c.lastEpoch}
	if c.anyReplica {
		b = w.brokers[w.rng.IntN(len(w.brokers))]
		req.Follower, req.LastEpoch = true, record.NoEpoch
	}
	c.l.call(c.node, b, func() {
		res, ok := b.read(c.tp, req)
		if !ok {
			return
		}
		res.asked, res.leader = epoch, !c.anyReplica
		w.net.send(b.node(), c.node, func() {
			if c.attempt == attempt {
				c.answered(res)
				c.again(attempt)
			}
		})
	}, func() { c.failed(attempt) })
	w.after(answerTimeout, func() { c.failed(attempt) })
}

// failed asks anew, perhaps somebody else.
func (c *consumer) failed(attempt int) {
	if c.attempt == attempt {
		c.to.refresh()
		c.again(attempt)
	}
}

// again asks anew unless that was done.
func (c *consumer) again(attempt int) {
	if c.attempt != attempt {
		return
	}
	c.attempt++ // whatever comes for the old attempt is too late
	if c.to.ended() {
		return
	}
	pause := 60 * time.Millisecond
	if c.l.stopping {
		pause = 10 * time.Millisecond // the rest is read at once: small segments give little for each answer
	}
	c.l.w.after(c.l.w.between(2*time.Millisecond, pause), c.fetch)
}

// answered checks an answer and moves on.
func (c *consumer) answered(res fetched) {
	w := c.l.w
	if c.to.ended() {
		return
	}
	switch {
	case res.Code == cluster.CodeOffsetOutOfRange && c.position < c.to.ledger().start:
		c.reset(res.LogStart)
		return
	case res.Code == cluster.CodeOffsetOutOfRange && c.hasLost():
		c.back(res.LogEnd, record.NoEpoch)
		return
	case res.Code == cluster.CodeNone && res.Diverged && c.hasLost():
		c.back(c.parts(res.Divergence))
		return
	case res.Code == cluster.CodeOffsetOutOfRange && res.leader:
		w.check.fail("I1: the leader of %s in epoch %d ends at %d, %d was read", w.named(c.tp), res.asked, res.LogEnd, c.position)
		return
	case res.Code == cluster.CodeNone && res.Diverged:
		w.check.fail("I1: %s diverges at %+v from what was read up to %d of epoch %d", w.named(c.tp), res.Divergence, c.position, c.lastEpoch)
		return
	case res.Code != cluster.CodeNone:
		if res.Code == cluster.CodeCorrupt {
			w.cov.CorruptAnswers++
		}
		c.to.refresh()
		return
	case len(res.bytes) == 0:
		return
	}
	if res.suspect && !sound(res.bytes) {
		w.cov.CorruptReads++
		c.to.refresh()
		return
	}
	c.goesPast(res)
	w.cov.Reads++
	w.note("read", w.key(c.tp), int64(c.position), int64(len(res.bytes)))
	err := record.Split(res.bytes, func(b record.Batch) error {
		if err := b.VerifyCRC(); err != nil {
			w.check.fail("I10: %s at %d: %v", w.named(c.tp), b.BaseOffset(), err)
		}
		if b.BaseOffset() > c.position {
			w.check.fail("I1: a consumer of %s asks for %d and is given %d", w.named(c.tp), c.position, b.BaseOffset())
		}
		if b.NextOffset() > res.HighWatermark {
			w.check.fail("I6: %s: read to %d, the watermark is %d", w.named(c.tp), b.NextOffset(), res.HighWatermark)
		}
		w.check.committedBatch(c.tp, b, witness{"a consumer read", res.LeaderEpoch, res.leader})
		if len(c.epochs) == 0 || b.LeaderEpoch() > c.epochs[len(c.epochs)-1].Epoch {
			c.epochs = append(c.epochs, record.EpochStart{Epoch: b.LeaderEpoch(), Start: max(c.position, b.BaseOffset())})
		}
		c.position, c.lastEpoch = max(c.position, b.NextOffset()), b.LeaderEpoch()
		return nil
	})
	if err != nil {
		w.check.fail("I10: %s at %d: %v", w.named(c.tp), c.position, err)
	}
}

// reset goes to the log start, because the records at the position were deleted.
func (c *consumer) reset(start record.Offset) {
	w := c.l.w
	if start <= c.position || start > c.to.ledger().start {
		w.check.fail("I1: %s is said to start at %d; %d was asked for, and deleted is what lies below %d", w.named(c.tp), start, c.position, c.to.ledger().start)
		return
	}
	w.cov.OutOfRange++
	w.note("reset", w.key(c.tp), int64(c.position), int64(start))
	c.position, c.lastEpoch, c.epochs = start, record.NoEpoch, nil
}

// hasLost reports whether something that was read may have been lost since, of which this consumer has not been told.
func (c *consumer) hasLost() bool { return c.position > c.to.ledger().cutSince(c.losses) }

// parts says where what was read parts from a log that names a divergence, and the last leader epoch that was read before. A consumer that only has a committed offset
// cannot tell what it has of an epoch that is not there; where nothing says that records are missing it goes on.
func (c *consumer) parts(d cluster.EpochEnd) (record.Offset, record.LeaderEpoch) {
	to, last := min(d.End, c.position), record.NoEpoch
	for _, e := range c.epochs {
		if e.Epoch > d.Epoch {
			to = min(to, e.Start)
		}
	}
	for _, e := range c.epochs {
		if e.Start < to {
			last = e.Epoch
		}
	}
	return to, last
}

// back goes to where the log parts from what was read: the rest is lost.
func (c *consumer) back(to record.Offset, last record.LeaderEpoch) {
	w := c.l.w
	if to < c.position {
		w.cov.LossesTold++
	}
	w.note("sent back", w.key(c.tp), int64(c.position), int64(to))
	kept := slices.IndexFunc(c.epochs, func(e record.EpochStart) bool { return e.Start >= to })
	if kept >= 0 {
		c.epochs = c.epochs[:kept]
	}
	c.position, c.lastEpoch = to, last
}

// goesPast checks, before records of a leader are read, that nobody who can be told of a loss goes past it without (case 59). Where the log begins at the position
// there is nothing left before it that could differ.
func (c *consumer) goesPast(res fetched) {
	w, l := c.l.w, c.to.ledger()
	if !res.leader {
		return
	}
	for ; c.losses < len(l.losses) && res.LeaderEpoch >= l.losses[c.losses].epoch; c.losses++ {
		if x := l.losses[c.losses]; c.position > x.cut && c.position > res.LogStart && c.lastEpoch != record.NoEpoch && c.lastEpoch < x.epoch {
			w.check.fail("case 59: a consumer of %s that has read up to %d of epoch %d is given more by the leader of epoch %d, and was not told that everything from %d on is lost",
				w.named(c.tp), c.position, c.lastEpoch, res.LeaderEpoch, x.cut)
		}
	}
}

// sound is the client's check of what it has received.
func sound(bytes []byte) bool {
	return record.Split(bytes, func(b record.Batch) error { return b.VerifyCRC() }) == nil
}

// read is a broker's door for a fetch; false for no answer.
func (b *broker) read(tp cluster.TopicPartition, req partition.ReadRequest) (fetched, bool) {
	r := b.replica(tp)
	if r == nil {
		return fetched{ReadResult: partition.ReadResult{Code: cluster.CodeNotLeader}}, true
	}
	res := fetched{ReadResult: r.Read(req)}
	if res.Code != cluster.CodeNone {
		return res, true
	}
	var err error
	res.bytes, err = res.Slice.AppendTo(nil)
	res.Slice.Release()
	res.suspect = b.w.isSpoilt(b) && b.w.spoilt.live
	if b.w.opts.Plant == PlantReadsUncommitted && r.at.Role == partition.RoleLeader && len(res.bytes) == 0 && !res.Diverged {
		if slice, end, _, _, err := r.Reader().ReadReplica(req.Offset, req.MaxBytes); err == nil && slice != nil {
			res.bytes, err = slice.AppendTo(nil)
			res.HighWatermark = end
			return res, err == nil
		}
	}
	return res, err == nil
}

// asker asks a leader for the latest offset now and then.
type asker struct {
	l       *workload
	node    node
	to      route
	attempt int
}

// ask asks once. By then nobody may have been told of a higher offset (I9).
func (a *asker) ask() {
	w, tp := a.l.w, a.to.tp
	if a.to.ended() {
		return
	}
	a.attempt++
	if w.chance(40) {
		a.to.refresh()
	}
	attempt, floor, losses := a.attempt, a.to.ledger().latest, a.to.ledger().decided()
	b, epoch := a.to.leader, a.to.epoch
	failed := func() {
		if a.attempt == attempt {
			a.to.refresh()
		}
	}
	a.l.call(a.node, b, func() {
		r := b.replica(tp)
		if r == nil {
			w.net.send(b.node(), a.node, failed)
			return
		}
		res, err := r.ListOffset(context.Background(), partition.ListRequest{Kind: partition.ListLatest, LeaderEpoch: epoch})
		w.check.must(err)
		w.net.send(b.node(), a.node, func() {
			if res.Code != cluster.CodeNone || a.to.ended() {
				failed()
				return
			}
			if len(a.to.ledger().losses) > losses {
				return // before or after it: nobody knows
			}
			w.cov.Latest++
			w.note("latest", w.key(tp), int64(res.Offset))
			if res.Offset < floor {
				w.check.fail("I9: broker %d says that %s ends at %d in epoch %d, earlier it was %d", b.id, w.named(tp), res.Offset, epoch, floor)
			}
			a.to.ledger().latest = max(a.to.ledger().latest, res.Offset)
		})
	}, failed)
	w.after(w.between(20*time.Millisecond, 150*time.Millisecond), a.ask)
}
