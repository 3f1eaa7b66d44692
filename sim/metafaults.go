package sim

import "time"

// metaFaults lists what can go wrong with the metadata alone, while all else works.
func metaFaults() []faultKind {
	return []faultKind{
		{name: "slow-raft", do: func(w *World, _ *broker) { w.slowRaft() }},
		{name: "late-metadata", do: (*World).lateMetadata},
		{name: "late-drain", do: (*World).lateDrain},
		{name: "late-fence", do: func(w *World, _ *broker) { w.lateFence() }},
	}
}

// metaFloors are for them.
func metaFloors() []floor {
	return []floor{
		{"times without a commit", func(c *Coverage) int { return c.SlowRafts }, 40},
		{"brokers with old metadata", func(c *Coverage) int { return c.LateMetadata }, 40},
		{"brokers that drained with old metadata", func(c *Coverage) int { return c.LateDrains }, 15},
		{"brokers heard again while they were being fenced", func(c *Coverage) int { return c.LateFences }, 15},
	}
}

// slowRaft lets nothing be committed for a while, as slow disks of voters do: what is proposed waits, while heartbeats of brokers are answered.
func (w *World) slowRaft() {
	w.cov.SlowRafts++
	w.meta.stalled = w.now + w.between(300*time.Millisecond, 2500*time.Millisecond)
}

// lateMetadata lets a broker apply nothing for a while. It goes on by what it knows, and its heartbeats are answered.
func (w *World) lateMetadata(b *broker) {
	w.cov.LateMetadata++
	b.applies = w.now + w.between(200*time.Millisecond, 2500*time.Millisecond)
}

// lateDrain begins an orderly restart of a broker that comes to know late what has become of it: until then it takes itself for the leader that it was.
func (w *World) lateDrain(b *broker) {
	if !b.up || b.draining {
		return
	}
	w.cov.LateDrains++
	b.applies = w.now + w.between(300*time.Millisecond, 2500*time.Millisecond)
	w.drain(b)
}

// lateFence keeps the heartbeats of a broker from the controller for about a session, and the entry that fences it from the log for a little longer, so that it
// is heard again meanwhile; and it comes to know late what was decided (case 46).
func (w *World) lateFence() {
	b := w.leader()
	if w.chance(500) {
		b = w.groups.coordinatorBroker()
	}
	if b == nil || !b.up {
		return
	}
	w.cov.LateFences++
	way := direction{b.node(), controllerNode}
	silence := w.between(1300*time.Millisecond, 1800*time.Millisecond)
	w.net.sever(way)
	w.after(1200*time.Millisecond, func() {
		if w.faults {
			w.meta.stalled = max(w.meta.stalled, w.now+w.between(200*time.Millisecond, 1200*time.Millisecond))
			b.applies = max(b.applies, w.now+w.between(700*time.Millisecond, 2500*time.Millisecond))
		}
	})
	w.after(silence, func() { w.net.mend(way) })
}

// endMetaFaults ends both.
func (w *World) endMetaFaults() {
	w.meta.stalled = 0
	for _, b := range w.brokers {
		b.applies = 0
	}
}

// whenApplying does something with new metadata, at once or when the broker applies again.
func (b *broker) whenApplying(what func()) {
	if wait := b.applies - b.w.now; wait > 0 {
		b.later(wait, func() { b.whenApplying(what) })
		return
	}
	what()
}

// sometimesLate does something now, or later, in some histories often: it has lain in a queue.
func (w *World) sometimesLate(most time.Duration, what func()) {
	if w.faults && w.chance(w.mix.late) {
		w.after(w.between(0, most), what)
		return
	}
	what()
}
