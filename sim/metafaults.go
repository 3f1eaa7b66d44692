package sim

import "time"

// metaFaults lists what can go wrong with the metadata alone, while all else works.
func metaFaults() []faultKind {
	return []faultKind{
		{name: "slow-raft", do: func(w *World, _ *broker) { w.slowRaft() }},
		{name: "late-metadata", do: (*World).lateMetadata},
	}
}

// metaFloors are for them.
func metaFloors() []floor {
	return []floor{
		{"times without a commit", func(c *Coverage) int { return c.SlowRafts }, 40},
		{"brokers with old metadata", func(c *Coverage) int { return c.LateMetadata }, 40},
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

// sometimesLate does something now, or seldom later: it has lain in a queue.
func (w *World) sometimesLate(most time.Duration, what func()) {
	if w.faults && w.chance(30) {
		w.after(w.between(0, most), what)
		return
	}
	what()
}
