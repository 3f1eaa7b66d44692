package sim

import "time"

// What clocks do at most. The monotonic clocks of two hosts may differ by a good deal more than real ones do: the promises of leases hold as long as a
// broker's lease of 1 s, by its own clock, is over before the controller's session of 1.5 s and a leader's lag limit of 1.1 s are, by theirs.
const (
	maxDrift = 30_000 // parts per million that a broker's monotonic clock is fast or slow
	maxSkew  = 5 * time.Second
	million  = 1_000_000
	maxJump  = time.Hour // of a wall clock, in one step; well within the day for which idle producers are remembered
)

// clock is what the clocks of a host show. The virtual time of the scheduler, by which the controller and the clients live, is true.
type clock struct {
	drift int64         // parts per million that the monotonic clock is fast
	skew  time.Duration // that the wall clock is ahead
}

// drawClock chooses a host's clocks: often right.
func drawClock(w *World) clock {
	s, c := w.scheduler, clock{}
	if s.chance(600) {
		c.drift = s.rng.Int64N(2*maxDrift+1) - maxDrift
	}
	if s.chance(600) {
		c.skew = s.between(-maxSkew, maxSkew)
	}
	if w.opts.without(partClocks) {
		return clock{}
	}
	if w.mix.expiry > 0 {
		c.skew = 0
	}
	return c
}

// local is what a monotonic clock shows.
func (c *clock) local(now time.Duration) time.Duration {
	return now + now*time.Duration(c.drift)/million
}

// long is how long a time of this clock takes in truth, rounded up: when it is over, the clock shows so.
func (c *clock) long(d time.Duration) time.Duration {
	if d <= 0 || d > time.Hour || c.drift == 0 {
		return d
	}
	return d - d*time.Duration(c.drift)/time.Duration(million+c.drift) + 2
}

// clockFaults are jumps of wall clocks.
func clockFaults() []faultKind {
	return []faultKind{{name: "clock-jump", do: (*World).jumpClock}}
}

// jumpClock sets a wall clock, forth or back, by seconds or by much more.
func (w *World) jumpClock(b *broker) {
	if w.mix.expiry > 0 {
		return
	}
	w.cov.ClockJumps++
	most := maxSkew
	if w.chance(300) {
		most = maxJump
	}
	b.clock.skew = min(max(b.clock.skew+w.between(-most, most), -maxJump), maxJump)
	w.wallLow = min(w.wallLow, b.clock.skew)
	w.note("clock", int64(b.id), int64(b.clock.skew))
}

// clockFloors is how much of it has to happen.
func clockFloors() []floor {
	return []floor{{"jumps of clocks", func(c *Coverage) int { return c.ClockJumps }, 30}}
}
