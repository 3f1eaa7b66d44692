package meter

import (
	"slices"
	"strings"
	"sync"

	"github.com/moldau-log/moldau/internal/invariant"
)

// Set is a collection of families, each under its name. A nil Set hands out families that count and are not exported.
type Set struct {
	mu       sync.Mutex // guards families
	families map[string]*family
}

// family is one registered name.
type family struct {
	name, help string
	kind       Kind
	labels     []string

	// source is the *CounterVec, *GaugeVec or *HistogramVec that was handed out; nil for a GaugeFunc.
	source any
	// collect appends the samples of now.
	collect func() []Sample
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{families: map[string]*family{}} }

// Counter registers a family of counters, or returns the one that is registered. Names are Prometheus names and end in _total. The same
// name with another kind or other labels is a bug and panics.
func (s *Set) Counter(name, help string, labels ...string) *CounterVec {
	return register(s, family{name: name, help: help, kind: KindCounter, labels: labels}, func(f *family) *CounterVec {
		v := new(CounterVec)
		v.init(f.labels, func() *Counter { return new(Counter) })
		f.collect = func() []Sample {
			return samples(&v.vec, func(c *Counter, out *Sample) { out.Value = float64(c.Value()) })
		}
		return v
	})
}

// Gauge registers a family of gauges, as Counter does.
func (s *Set) Gauge(name, help string, labels ...string) *GaugeVec {
	return register(s, family{name: name, help: help, kind: KindGauge, labels: labels}, func(f *family) *GaugeVec {
		v := new(GaugeVec)
		v.init(f.labels, func() *Gauge { return new(Gauge) })
		f.collect = func() []Sample {
			return samples(&v.vec, func(g *Gauge, out *Sample) { out.Value = g.Value() })
		}
		return v
	})
}

// Histogram registers a family of histograms, as Counter does. buckets are inclusive upper bounds and rise strictly; the bucket above
// the last is implied. A second registration keeps the first one's buckets.
func (s *Set) Histogram(name, help string, buckets []float64, labels ...string) *HistogramVec {
	bounds := slices.Clone(buckets)
	for i := 1; i < len(bounds); i++ {
		invariant.Check(bounds[i-1] < bounds[i], "meter: the buckets of %s do not rise: %v", name, bounds)
	}
	return register(s, family{name: name, help: help, kind: KindHistogram, labels: labels}, func(f *family) *HistogramVec {
		v := new(HistogramVec)
		v.init(f.labels, func() *Histogram { return newHistogram(bounds) })
		f.collect = func() []Sample {
			return samples(&v.vec, func(h *Histogram, out *Sample) {
				out.Buckets = h.bounds
				out.Counts, out.Count = h.cumulative()
				out.Sum = h.Sum()
			})
		}
		return v
	})
}

// GaugeFunc registers gauges whose values are asked for at each Snapshot: collect calls emit once for each label set. Values emitted for
// the same label set add up, so that collect may walk partitions and emit 1 for each; beyond MaxSeries label sets they add up under
// Other. collect runs on the goroutine of the snapshot and must not block. A second GaugeFunc of the name takes the place of the
// first, so that a component that is started again reports its own state.
func (s *Set) GaugeFunc(name, help string, labels []string, collect func(emit func(value float64, labelValues ...string))) {
	if s == nil {
		return
	}
	f := &family{name: name, help: help, kind: KindGauge, labels: slices.Clone(labels)}
	f.collect = func() []Sample {
		var v GaugeVec // a fresh one each time: what is no longer emitted is gone
		v.init(f.labels, func() *Gauge { return new(Gauge) })
		collect(func(value float64, labelValues ...string) { v.with(labelValues).Add(value) })
		return samples(&v.vec, func(g *Gauge, out *Sample) { out.Value = g.Value() })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.families[name]; old != nil {
		invariant.Check(old.kind == KindGauge && old.source == nil && slices.Equal(old.labels, labels),
			"meter: %s is registered as another family", name)
	}
	s.families[name] = f
}

// register adds a family that build completes, or returns the equal one that is there.
func register[V any](s *Set, f family, build func(*family) *V) *V {
	f.labels = slices.Clone(f.labels)
	if s == nil {
		return build(&f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.families[f.name]; old != nil {
		source, same := old.source.(*V)
		invariant.Check(same && slices.Equal(old.labels, f.labels), "meter: %s is registered as another family", f.name)
		return source
	}
	v := build(&f)
	f.source = v
	s.families[f.name] = &f
	return v
}

// Snapshot reads every family, in order of name, its samples in order of label values. The result is the caller's, but for the bounds in
// Sample.Buckets, which nobody writes. A nil Set gives nothing.
func (s *Set) Snapshot() []Family {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	list := make([]*family, 0, len(s.families))
	for _, f := range s.families {
		list = append(list, f)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *family) int { return strings.Compare(a.name, b.name) })

	out := make([]Family, len(list))
	for i, f := range list { // collectors run without the lock: they may register
		out[i] = Family{Name: f.name, Help: f.help, Kind: f.kind, Labels: f.labels, Samples: f.collect()}
	}
	return out
}
