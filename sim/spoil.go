package sim

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/segment"
)

// Bounds of what an operator does.
const (
	// repairLimit is how long the operator may take after healing until no damage is left.
	repairLimit = 20 * time.Second
	repairEvery = 300 * time.Millisecond
)

// spoiled says that what one broker's disk holds is not to be trusted: stored bytes were changed or lost. One broker at a time, from the damage until all
// of its replicas are whole again, so that every partition keeps a complete copy elsewhere: that is how much the promise survives (docs/guarantees.md).
type spoiled struct {
	b *broker
	// live says that bytes were changed under a running broker: what it had checked before may be served, and the client's CRC has to find it.
	live bool
	// back says that the broker has registered since.
	back bool
	// untold says that nothing on the disk tells of it: the broker registers as one that has everything.
	untold bool
	// mended says that what was damaged has been replaced.
	mended bool
}

// mayTake reports whether a fault may take what b's disk holds: no other disk is in trouble, and every partition that b holds survives it. An errand that is
// under way could change that, so there is none.
func (w *World) mayTake(b *broker) bool {
	return w.spoilt == nil && w.bereft == nil && w.errands == 0 && w.retiring == nil && b.disk.swapped == nil && !w.troubled(b) && w.dispensable(b)
}

// dispensable reports whether every partition that b holds survives without it: somebody else is on record as complete, and stays so whatever happens to
// it, which takes a min.insync.replicas of two, or that nothing happens any more.
func (w *World) dispensable(b *broker) bool {
	image := w.meta.state.Image()
	for _, tp := range w.partitions {
		p, ok := image.Partition(tp)
		if !ok || !p.HasReplica(b.id) {
			continue
		}
		topic, _ := image.Topic(tp.Topic)
		complete := slices.Concat(p.ISR, p.ELR)
		if !slices.ContainsFunc(complete, func(id cluster.BrokerID) bool { return id != b.id }) || w.faults && image.MinISR(topic, p) < 2 {
			return false
		}
	}
	return true
}

// troubled reports whether the disk of anybody but b fails, or has failed and was not looked after, or is full while a replica is yet to be made on it, or whether the
// report of that may still be on its way into the metadata, which counts the log as complete until then.
func (w *World) troubled(b *broker) bool {
	for _, o := range w.brokers {
		if o != b && (o.disk.failing || o.disk.swapped != nil || o.unsettled || o.up && (o.failed || len(o.damaged) > 0) || o.disk.full(w.now) && w.lacks(o)) {
			return true
		}
	}
	return false
}

// lacks reports whether a broker has still to make a replica that the metadata counts on.
func (w *World) lacks(b *broker) bool {
	for _, tp := range w.partitions {
		if p, ok := w.meta.state.Image().Partition(tp); ok && p.HasReplica(b.id) && b.replica(tp) == nil {
			return true
		}
	}
	return false
}

// mayFail reports whether b's disk may fail without changing what it holds: a log that goes offline for it leaves the ISR, so nobody else's copy
// may be spoilt then.
func (w *World) mayFail(b *broker) bool { return w.spoilt == nil || w.spoilt.b == b }

// spoil notes that what b's disk holds is not to be trusted from now on, and sends the operator.
func (w *World) spoil(b *broker, live bool) {
	w.spoilt = &spoiled{b: b, live: live}
	w.note("spoilt", int64(b.id))
	for key := range w.check.down {
		if key.id == b.id {
			delete(w.check.down, key) // what it had flushed is not promised any more
		}
	}
	w.after(w.between(time.Second, 4*time.Second), w.operate)
}

// fragile reports whether the metadata does not know yet what has become of a disk, or of a partition: what is created, or placed elsewhere, now could count on it.
func (w *World) fragile() bool {
	return w.spoilt != nil && !w.spoilt.back || w.bereft != nil && !w.bereft.elected
}

// isSpoilt reports whether b's disk is not to be trusted.
func (w *World) isSpoilt(b *broker) bool { return w.spoilt != nil && w.spoilt.b == b }

// toldBy reports whether the metadata has heard, from the broker's present life, of whatever its disk has lost: from then on it counts on nothing that is not there.
func (s *spoiled) toldBy(image *cluster.Image) bool {
	b, ok := image.Broker(s.b.id)
	return !s.untold && s.b.up && ok && b.Incarnation == s.b.incarnation()
}

// operate is a visit of the operator to the broker whose disk was spoilt: it is stopped, its logs are verified, and what is damaged is moved away, as
// docs/operations.md says. There are visits until everything is whole.
func (w *World) operate() {
	s := w.spoilt
	if s == nil {
		return
	}
	if s.mended && w.unwhole(s.b) == "" {
		w.note("whole", int64(s.b.id))
		w.spoilt = nil
		return
	}
	if !s.mended || s.b.up && len(s.b.damaged) > 0 {
		w.visit(s)
	}
	w.after(w.between(repairEvery, 2*repairEvery), w.operate)
}

// unwhole says why a broker is not whole yet: it serves, is in the ISR everywhere, and no log of it has failed. Empty for nothing.
func (w *World) unwhole(b *broker) string {
	if !b.up || b.failed || len(b.damaged) > 0 || b.epoch == cluster.NoBrokerEpoch {
		return fmt.Sprintf("up %t, a log has failed %t, %d damaged, registered as %d", b.up, b.failed, len(b.damaged), b.epoch)
	}
	image := w.meta.state.Image()
	for _, tp := range w.partitions {
		if p, ok := image.Partition(tp); ok && p.HasReplica(b.id) && (!p.InISR(b.id) || p.Leader == cluster.NoBroker || b.replica(tp) == nil) {
			return fmt.Sprintf("of %s the ISR is %v, the ELR %v: %s", w.named(tp), p.ISR, p.ELR, w.replicas(tp, p))
		}
	}
	return ""
}

// visit stops the broker and moves what is damaged away, also what the metadata holds to be complete, where another copy is: the broker reports it as missing.
func (w *World) visit(s *spoiled) {
	b := s.b
	if b.up {
		b.crash()
		w.restart(b)
	}
	bad, held := w.damagedDirectories(b)
	w.cov.Repairs++
	w.note("repair", int64(b.id), int64(len(bad)), flag(held))
	if !held || w.dispensable(b) {
		w.moveAway(b, bad)
		s.mended = true
	}
}

// moveAway takes directories out of a stopped broker's reach.
func (w *World) moveAway(b *broker, bad []string) {
	for _, dir := range bad {
		w.movedAway++
		w.check.must(b.disk.mem.Rename(dir, filepath.Join(dataRoot, fmt.Sprintf("moved-away-%d-%s", w.movedAway, filepath.Base(dir)))))
	}
	if len(bad) == 0 {
		return // there may be no directory of replicas yet
	}
	w.check.must(b.disk.mem.SyncDir(filepath.Join(dataRoot, partitionsDir)))
	w.check.must(b.disk.mem.SyncDir(dataRoot))
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// damagedDirectories verifies every log of a stopped broker. held says that the metadata counts one of the damaged ones as complete.
func (w *World) damagedDirectories(b *broker) (bad []string, held bool) {
	root := filepath.Join(dataRoot, partitionsDir)
	names, err := b.disk.mem.ReadDir(root)
	if err != nil {
		return nil, false // a new disk
	}
	image := w.meta.state.Image()
	for _, name := range names {
		dir := filepath.Join(root, name)
		findings, err := segment.Verify(b.disk.mem, dir)
		id, _ := segment.ReadIdentity(b.disk.mem, dir)
		right := (cluster.TopicPartition{Topic: id.TopicID, Partition: id.Partition}).String() == name
		if err == nil && right && !needsAPerson(findings) {
			continue
		}
		bad = append(bad, dir)
		for _, tp := range w.partitions {
			if p, ok := image.Partition(tp); ok && tp.String() == name && (p.InISR(b.id) || p.InELR(b.id)) {
				held = true
			}
		}
	}
	return bad, held
}

// needsAPerson reports whether opening the log does not mend what was found. What looks like a torn tail on a spoilt disk may be damage.
func needsAPerson(findings []segment.Finding) bool {
	for _, f := range findings {
		if f.Kind == segment.KindDamage || f.Kind == segment.KindIdentity || f.Kind == segment.KindTorn {
			return true
		}
	}
	return false
}

// healDisk ends what a disk suffers from, but not what it has done.
func (w *World) healDisk(b *broker) {
	b.disk.mem.SetCapacity(0)
	b.disk.fullTil, b.disk.failing = min(b.disk.fullTil, w.now+2*maintainEvery), false
	if b.up {
		b.disk.fail.Heal()
	}
	if o := b.disk.swapped; o != nil {
		w.swap(b, o)
	}
}

// repairAll lets the operator finish.
func (w *World) repairAll() {
	w.runUntil(w.now+repairLimit, func() bool { return w.check.failed() || w.spoilt == nil && w.bereft == nil })
	switch {
	case w.check.failed():
	case w.spoilt != nil:
		w.check.fail("I11: %s after healing broker %d, whose disk was spoilt, is not whole: %s", repairLimit, w.spoilt.b.id, w.unwhole(w.spoilt.b))
	case w.bereft != nil:
		w.check.fail("I11: %s after healing %s", repairLimit, w.unforced())
	}
}
