package check

import (
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// faultWindow is a fault from its beginning until it was healed.
type faultWindow struct {
	name   string
	client int32
	op     int64
	began  int64
	ended  int64 // 0: it was not
}

// Availability says how sends went on, over all and in each fault.
type Availability struct {
	// Seconds is how long the history is; Acknowledged are the acknowledgements of sends (a send to one partition is one).
	Seconds      float64 `json:"seconds"`
	Acknowledged int64   `json:"acknowledged"`
	PerSecond    float64 `json:"per_second"`
	// LongestGap is the longest time without an acknowledgement between the first and the last, in seconds; GapAt is when it began, in seconds from the start.
	LongestGap float64 `json:"longest_gap"`
	GapAt      float64 `json:"gap_at"`
	Faults     []Fault `json:"faults,omitempty"`
}

// Fault is what happened to sends in one fault. Times are in seconds.
type Fault struct {
	Name         string  `json:"name"`
	At           float64 `json:"at"`
	Seconds      float64 `json:"seconds"`
	Acknowledged int64   `json:"acknowledged"`
	LongestGap   float64 `json:"longest_gap"`
	// Recovery is how long after the fault was healed the slowest partition took to acknowledge a send that waited for it, or that began then; -1 if other faults
	// went on, or nothing was sent.
	Recovery float64 `json:"recovery"`
	// Slowest is that partition.
	Slowest string `json:"slowest,omitempty"`
}

func (c *Checker) healed(op *operation, e *history.Event) {
	if op != nil && e.Type == history.OK {
		c.faults[op.fault].ended = e.Time
	}
}

// availability measures the acknowledgements of sends and, where the options ask for it, judges them.
func (c *Checker) availability() Availability {
	var acked []int64
	for _, p := range c.parts {
		slices.Sort(p.begun)
		slices.Sort(p.acked)
		acked = append(acked, p.acked...)
	}
	slices.Sort(acked)
	a := Availability{Seconds: seconds(c.last - c.first), Acknowledged: int64(len(acked))}
	if a.Seconds > 0 {
		a.PerSecond = float64(len(acked)) / a.Seconds
	}
	if len(acked) > 0 {
		gap, at := longestGap(acked, acked[0], acked[len(acked)-1])
		a.LongestGap, a.GapAt = seconds(gap), seconds(at-c.first)
	}
	bounds := boundsOf(c.faults)
	for i := range c.faults {
		a.Faults = append(a.Faults, c.during(&c.faults[i], bounds, acked))
	}
	return a
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// longestGap is the longest time without one of the sorted times between two bounds, and when it begins.
func longestGap(times []int64, from, to int64) (gap, at int64) {
	first, _ := slices.BinarySearch(times, from)
	before := from
	for _, t := range times[first:] {
		t = min(t, to)
		if t-before > gap {
			gap, at = t-before, before
		}
		if before = t; t == to {
			return gap, at
		}
	}
	if to-before > gap {
		return to - before, before
	}
	return gap, at
}

func between(times []int64, from, to int64) int64 {
	first, _ := slices.BinarySearch(times, from)
	last, _ := slices.BinarySearch(times, to)
	return int64(last - first)
}

// during measures one fault.
func (c *Checker) during(w *faultWindow, bounds faultBounds, acked []int64) Fault {
	c.checked[Unavailable]++
	ended := w.ended
	if ended == 0 {
		ended = c.last
	}
	gap, at := longestGap(acked, w.began, ended)
	f := Fault{Name: w.name, At: seconds(w.began - c.first), Seconds: seconds(ended - w.began), Acknowledged: between(acked, w.began, ended), LongestGap: seconds(gap), Recovery: -1}
	if c.options.MaxGap > 0 && gap > c.options.MaxGap {
		c.unavailable(w, fmt.Sprintf("no send was acknowledged for %.3f s in %s, from %.3f s on", f.LongestGap, w.name, seconds(at-c.first)))
	}
	if w.ended == 0 || bounds.goesOn(w.ended) {
		return f
	}
	c.recovery(w, min(c.last, bounds.nextAfter(w.ended)), &f)
	return f
}

// faultBounds are the times at which faults began and were healed, each in order.
type faultBounds struct{ began, ended []int64 }

func boundsOf(faults []faultWindow) faultBounds {
	var b faultBounds
	for i := range faults {
		b.began = append(b.began, faults[i].began)
		if faults[i].ended != 0 {
			b.ended = append(b.ended, faults[i].ended)
		}
	}
	slices.Sort(b.began)
	slices.Sort(b.ended)
	return b
}

// goesOn says whether some fault goes on at a time. One that ends at that very time does not.
func (b faultBounds) goesOn(t int64) bool {
	began, _ := slices.BinarySearch(b.began, t+1)
	ended, _ := slices.BinarySearch(b.ended, t+1)
	return began > ended
}

// nextAfter is when the first fault begins at or after a time, never for none.
func (b faultBounds) nextAfter(t int64) int64 {
	if at, _ := slices.BinarySearch(b.began, t); at < len(b.began) {
		return b.began[at]
	}
	return never
}

// recovery finds the partition that took longest, after a fault was healed and no other was left, to acknowledge a send again; until the next fault begins, behind which
// nothing is said about this one.
func (c *Checker) recovery(w *faultWindow, until int64, f *Fault) {
	for _, p := range c.parts {
		if p.topic.gone() {
			continue
		}
		took, acked := p.recovered(w.ended, until)
		if c.options.MaxRecovery > 0 && took > c.options.MaxRecovery {
			c.unavailable(w, fmt.Sprintf("%s-%d: no send was acknowledged for %.3f s after %s was healed", p.topic.id, p.number, seconds(took), w.name))
		}
		if acked && seconds(took) > f.Recovery {
			f.Recovery, f.Slowest = seconds(took), fmt.Sprintf("%s-%d", p.topic.id, p.number)
		}
	}
}

// recovered is how long the first send that could be acknowledged after a time had to wait for it, from that time or from its own beginning; up to a bound, if none
// was acknowledged before; 0 if there was none to acknowledge. p.begun and p.acked are sorted.
func (p *part) recovered(from, until int64) (took int64, acked bool) {
	begun, ack := int64(never), int64(never)
	if i, _ := slices.BinarySearch(p.begun, from); i < len(p.begun) {
		begun = p.begun[i]
	}
	if i, _ := slices.BinarySearch(p.acked, from); i < len(p.acked) {
		ack = p.acked[i]
	}
	if ack < begun || p.stuck < from { // it was under way before
		begun = from
	}
	if begun >= until {
		return 0, false
	}
	return min(ack, until) - begun, ack <= until
}

func (c *Checker) unavailable(w *faultWindow, detail string) {
	c.foundAs(Unavailable, nil, -1, subject{more: int64(len(c.sightings))}, func(a *Anomaly) {
		a.Detail = detail
		a.Evidence = []Evidence{{What: w.name, Client: c.names.texts[w.client], Op: w.op, Began: w.began, Ended: w.ended}}
	})
}
