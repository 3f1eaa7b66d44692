package meter

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/moldau-log/moldau/internal/invariant"
)

// Counter is a number that only rises.
type Counter struct{ n atomic.Int64 }

// Add raises the counter by n, which is not negative.
func (c *Counter) Add(n int64) {
	invariant.Check(n >= 0, "meter: counter lowered")
	c.n.Add(n)
}

// Inc raises the counter by one.
func (c *Counter) Inc() { c.n.Add(1) }

// Value is the count so far.
func (c *Counter) Value() int64 { return c.n.Load() }

// Gauge is a number that rises and falls.
type Gauge struct{ v atomicFloat }

// Set replaces the value.
func (g *Gauge) Set(v float64) { g.v.store(v) }

// Add changes the value by delta, which may be negative.
func (g *Gauge) Add(delta float64) { g.v.add(delta) }

// Value is the value now.
func (g *Gauge) Value() float64 { return g.v.load() }

// Histogram counts observations in buckets with fixed upper bounds.
type Histogram struct {
	bounds []float64 // inclusive upper bounds, rising; shared by the family and never written
	counts []atomic.Int64
	sum    atomicFloat
}

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Observe counts v, in the base unit that the family's name states. What exceeds the last bound is still counted and summed; NaN is not.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		return // one NaN would make the sum NaN for good
	}
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i].Add(1)
	h.sum.add(v)
}

// Count is the number of observations.
func (h *Histogram) Count() int64 {
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Sum is the sum of the observations.
func (h *Histogram) Sum() float64 { return h.sum.load() }

// cumulative gives, for each bound, how many observations do not exceed it, and the count of all.
func (h *Histogram) cumulative() (atMost []int64, count int64) {
	atMost = make([]int64, len(h.bounds))
	for i := range h.counts {
		count += h.counts[i].Load()
		if i < len(atMost) {
			atMost[i] = count
		}
	}
	return atMost, count
}

// DurationBuckets are bounds in seconds for requests, flushes and elections: from 100 us, below which nothing that syncs to a disk
// lies, to 30 s, doubling at first and coarser above a second.
func DurationBuckets() []float64 {
	return []float64{
		0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30,
	}
}

// atomicFloat is a float64 with atomic updates.
type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) store(v float64) { f.bits.Store(math.Float64bits(v)) }

func (f *atomicFloat) add(delta float64) {
	for {
		old := f.bits.Load()
		if f.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+delta)) {
			return
		}
	}
}
