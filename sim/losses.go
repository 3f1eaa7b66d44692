package sim

import (
	"math"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// loss is what a forced election has taken from a partition: everything that was known from cut on, which the elected replica lacks (case 59).
type loss struct {
	// epoch is the leader epoch that began with it.
	epoch record.LeaderEpoch
	// cut is the first offset at which the elected replica has not what was committed, or its end; -1 until it leads.
	cut record.Offset
	// has is what the elected replica had from there on, by offset: the sums of batches.
	has map[record.Offset]uint64
}

// losing notes that an election was forced in which records may be lost. Only who has nothing else left may do that.
func (c *checker) losing(l *ledger, old, now *cluster.Partition) {
	if !now.UncleanLast || now.LeaderEpoch == old.LeaderEpoch || !c.w.hopeless(l.tp, old) {
		return
	}
	c.w.bereft.elected = true
	c.w.cov.UncleanElections++
	l.losses = append(l.losses, loss{epoch: now.LeaderEpoch, cut: -1})
}

// undecided reports whether an election was forced of which it is not known yet what it has taken.
func (l *ledger) undecided() bool { return len(l.losses) > 0 && l.losses[len(l.losses)-1].cut < 0 }

// awaits reports whether the last forced election was that of a leader epoch, and nobody has led in it or since. Who was elected then may be deposed by the time it
// comes to lead, and commits what it has all the same.
func (l *ledger) awaits(epoch record.LeaderEpoch) bool {
	return l.undecided() && l.losses[len(l.losses)-1].epoch == epoch
}

// decided is how many losses there were of which it is known what they have taken.
func (l *ledger) decided() int {
	if i := slices.IndexFunc(l.losses, func(x loss) bool { return x.cut < 0 }); i >= 0 {
		return i
	}
	return len(l.losses)
}

// accept makes what a leader has what is committed, after an election that was forced: has is its log. Whatever it lacks is lost, and may come again.
func (c *checker) accept(r *replica, has map[record.Offset]slot) {
	l := c.ledgers[r.tp]
	at := r.at.LogEnd
	for o := range min(record.Offset(len(l.slots)), at) {
		got, there := has[o]
		switch {
		case l.slots[o].agrees(got):
		case o >= r.at.LogStart:
			at = min(at, o)
		case there: // of the batch in which the log starts
			c.displace(l, o)
		}
	}
	lost := 0
	for o := at; int(o) < len(l.slots); o++ {
		if l.slots[o].known && o >= l.start {
			lost++
		}
		c.displace(l, o)
	}
	c.w.cov.RecordsLost += lost
	c.w.note("lost", c.w.key(r.tp), int64(at), int64(lost))
	l.slots = l.slots[:min(int(at), len(l.slots))]
	for i := range l.losses {
		if l.losses[i].cut < 0 {
			l.losses[i].cut, l.losses[i].has = at, sumsFrom(has, at)
		}
	}
	l.deleted = max(l.deleted, l.start)
	l.start = max(r.told.LogStart, min(l.start, at))
	l.latest, l.acked = min(l.latest, at), min(l.acked, at)
}

// displace takes back that something is known to be committed at an offset.
func (c *checker) displace(l *ledger, at record.Offset) {
	s := &l.slots[at]
	if v := &c.values[s.value]; s.known && v.at == at {
		v.placed = false
	}
	*s = slot{}
}

// sumsFrom is what a log has from an offset on.
func sumsFrom(has map[record.Offset]slot, from record.Offset) map[record.Offset]uint64 {
	out := map[record.Offset]uint64{}
	for at, s := range has { // the order does not matter
		if at >= from {
			out[at] = s.sum
		}
	}
	return out
}

// agrees reports whether what a log has at an offset is what is known to be committed there, as far as that is known.
func (s *slot) agrees(got slot) bool {
	return !s.known || got.known && got.value == s.value && (s.sum == 0 || got.sum == s.sum)
}

// outdated reports whether what somebody says, who speaks as of a leader epoch, of records up to end is from before a loss that has taken them.
func (l *ledger) outdated(epoch record.LeaderEpoch, end record.Offset) bool {
	for _, x := range l.losses {
		if epoch < x.epoch && x.cut >= 0 && end > x.cut {
			return true
		}
	}
	return false
}

// forgotten reports whether a batch that a follower has is one that a loss has taken: until it has heard from the new leader where their logs part, it gives that to
// who reads from followers.
func (l *ledger) forgotten(b record.Batch) bool {
	for _, x := range l.losses {
		if last := b.NextOffset() - 1; b.LeaderEpoch() < x.epoch && x.cut >= 0 && last >= x.cut && x.has[last] != sumOf(b.Bytes()) {
			return true
		}
	}
	return false
}

// cutSince is below where nothing was lost since there were so many losses.
func (l *ledger) cutSince(losses int) record.Offset {
	cut := record.Offset(math.MaxInt64)
	for _, x := range l.losses[losses:] {
		cut = min(cut, x.cut)
	}
	return cut
}

// cutBy is below where nobody who knows a leader epoch may have cut committed records off.
func (l *ledger) cutBy(epoch record.LeaderEpoch) record.Offset {
	cut := record.Offset(math.MaxInt64)
	for _, x := range l.losses {
		if x.epoch <= epoch && x.cut >= 0 {
			cut = min(cut, x.cut)
		}
	}
	return cut
}
