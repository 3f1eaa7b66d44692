package meter

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/internal/invariant"
)

// text prints a snapshot, one sample a line.
func text(families []Family) string {
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "%s %s %q\n", f.Name, f.Kind, f.Help)
		for _, s := range f.Samples {
			b.WriteString(" ")
			for i, value := range s.LabelValues {
				fmt.Fprintf(&b, " %s=%q", f.Labels[i], value)
			}
			if f.Kind == KindHistogram {
				fmt.Fprintf(&b, " buckets=%v counts=%v sum=%v count=%d\n", s.Buckets, s.Counts, s.Sum, s.Count)
				continue
			}
			fmt.Fprintf(&b, " %v\n", s.Value)
		}
	}
	return b.String()
}

func check(t *testing.T, s *Set, want string) {
	t.Helper()
	if got := text(s.Snapshot()); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("snapshot\n%s\nwant\n%s", got, want)
	}
}

func TestSnapshot_IsSortedAndComplete(t *testing.T) {
	s := NewSet()
	requests := s.Counter("requests_total", "Requests.", "api", "error")
	requests.With("produce", "none").Add(3)
	requests.With("fetch", "none").Inc()
	requests.With("fetch", "not_leader").Inc()
	s.Gauge("connections", "Connections.").With().Set(4)
	s.Gauge("connections", "Connections.").With().Add(-1.5)
	h := s.Histogram("delay_seconds", "Delay.", []float64{0.1, 1}, "api").With("fetch")
	for _, v := range []float64{0, 0.1, 0.11, 1, 7, math.NaN()} {
		h.Observe(v)
	}
	s.Counter("unused_total", "Never counted.", "topic")
	s.GaugeFunc("partitions", "Partitions.", []string{"state"}, func(emit func(float64, ...string)) {
		emit(1, "online")
		emit(1, "offline")
		emit(1, "online")
	})
	check(t, s, `
connections gauge "Connections."
  2.5
delay_seconds histogram "Delay."
  api="fetch" buckets=[0.1 1] counts=[2 4] sum=8.21 count=5
partitions gauge "Partitions."
  state="offline" 1
  state="online" 2
requests_total counter "Requests."
  api="fetch" error="none" 1
  api="fetch" error="not_leader" 1
  api="produce" error="none" 3
unused_total counter "Never counted."
`)
	if h.Count() != 5 || requests.With("produce", "none").Value() != 3 {
		t.Errorf("histogram count %d, counter %d", h.Count(), requests.With("produce", "none").Value())
	}
}

func TestNilSet_CountsWithoutExport(t *testing.T) {
	var s *Set
	c := s.Counter("a_total", "", "topic")
	c.With("x").Add(2)
	c.With("x").Inc()
	g := s.Gauge("b", "").With()
	g.Set(1)
	h := s.Histogram("c", "", DurationBuckets()).With()
	h.Observe(0.5)
	s.GaugeFunc("d", "", nil, func(func(float64, ...string)) { t.Error("collected") })
	if c.With("x").Value() != 3 || g.Value() != 1 || h.Sum() != 0.5 {
		t.Errorf("values %d, %v, %v", c.With("x").Value(), g.Value(), h.Sum())
	}
	if got := s.Snapshot(); got != nil {
		t.Errorf("exported %v", got)
	}
}

func TestRegister_TwiceGivesTheSameFamily(t *testing.T) {
	s := NewSet()
	s.Counter("a_total", "first", "x").With("1").Inc()
	s.Counter("a_total", "second", "x").With("1").Inc()
	check(t, s, `a_total counter "first"`+"\n"+`  x="1" 2`)

	collector := func(v float64) func(emit func(float64, ...string)) {
		return func(emit func(float64, ...string)) { emit(v) }
	}
	s.GaugeFunc("b", "", nil, collector(1))
	s.GaugeFunc("b", "", nil, collector(2)) // a component that was started again
	check(t, s, "a_total counter \"first\"\n  x=\"1\" 2\nb gauge \"\"\n  2")
}

func TestMisuse_IsAViolation(t *testing.T) {
	s := NewSet()
	c := s.Counter("a_total", "", "x")
	s.GaugeFunc("b", "", nil, func(func(float64, ...string)) {})
	for name, f := range map[string]func(){
		"other kind":                     func() { s.Gauge("a_total", "", "x") },
		"other labels":                   func() { s.Counter("a_total", "", "y") },
		"gauge over a func":              func() { s.Gauge("b", "") },
		"func over a counter":            func() { s.GaugeFunc("a_total", "", []string{"x"}, nil) },
		"func with other labels":         func() { s.GaugeFunc("b", "", []string{"x"}, nil) },
		"too few values":                 func() { c.With() },
		"too many values":                func() { c.With("1", "2") },
		"too many values for Delete":     func() { c.Delete("1", "2") },
		"counter lowered":                func() { c.With("1").Add(-1) },
		"buckets that do not rise":       func() { s.Histogram("h", "", []float64{1, 1}) },
		"buckets with an unordered pair": func() { s.Histogram("h", "", []float64{2, 1, 3}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := invariant.Recovered(recover()); !ok {
					t.Error("no violation")
				}
			}()
			f()
		})
	}
}

func TestBound_FurtherLabelSetsShareOther(t *testing.T) {
	s := NewSet()
	c := s.Counter("a_total", "", "topic", "partition")
	c.limit = 2
	for i := range 5 {
		c.With(fmt.Sprint("t", i), "0").Inc()
	}
	c.With("t0", "0").Inc()
	check(t, s, `
a_total counter ""
  topic="other" partition="other" 3
  topic="t0" partition="0" 2
  topic="t1" partition="0" 1
`)
	c.Delete("t0", "0") // makes room for one more
	c.With("t7", "0").Inc()
	c.With("t8", "0").Inc()
	c.Delete("never", "there")
	check(t, s, `
a_total counter ""
  topic="other" partition="other" 4
  topic="t1" partition="0" 1
  topic="t7" partition="0" 1
`)
}

func TestBound_ATopicCalledOtherIsAddedToTheOverflow(t *testing.T) {
	s := NewSet()
	h := s.Histogram("h", "", []float64{1}, "topic")
	h.limit = 1
	h.With(Other).Observe(0.5)
	h.With("x").Observe(3)
	check(t, s, "h histogram \"\"\n  topic=\"other\" buckets=[1] counts=[1] sum=3.5 count=2")
}

func TestBound_GaugeFunc(t *testing.T) {
	s := NewSet()
	s.GaugeFunc("g", "", []string{"n"}, func(emit func(float64, ...string)) {
		for i := range MaxSeries + 3 {
			emit(1, fmt.Sprint(i))
		}
	})
	all := s.Snapshot()[0].Samples
	i := slices.IndexFunc(all, func(x Sample) bool { return x.LabelValues[0] == Other })
	if len(all) != MaxSeries+1 || i < 0 || all[i].Value != 3 {
		t.Errorf("%d samples, other at %d", len(all), i)
	}
}

func TestDelete_StartsAgainAtZero(t *testing.T) {
	s := NewSet()
	c := s.Counter("a_total", "", "topic")
	held := c.With("x")
	held.Add(5)
	c.Delete("x")
	held.Inc()
	check(t, s, `a_total counter ""`)
	c.With("x").Inc()
	check(t, s, `a_total counter ""`+"\n"+`  topic="x" 1`)
}

func TestWith_LabelValuesDoNotRunTogether(t *testing.T) {
	c := NewSet().Counter("a_total", "", "x", "y")
	pairs := [][2]string{{"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", ""}, {"a\x01b", "c"}, {"a", "\x01bc"}, {strings.Repeat("a", 300), "b"}}
	for i, p := range pairs {
		c.With(p[0], p[1]).Add(int64(i + 1))
	}
	for i, p := range pairs {
		if got := c.With(p[0], p[1]).Value(); got != int64(i+1) {
			t.Errorf("%q counts %d, want %d", p, got, i+1)
		}
	}
}

func TestHotPath_AllocatesNothing(t *testing.T) {
	s := NewSet()
	c := s.Counter("a_total", "", "topic", "partition")
	h := s.Histogram("h", "", DurationBuckets()).With()
	g := s.Gauge("g", "").With()
	topic := strings.Repeat("t", 100)
	c.With(topic, "1")
	if n := testing.AllocsPerRun(100, func() {
		c.With(topic, "1").Inc()
		h.Observe(0.003)
		g.Add(1)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestDurationBuckets_Rise(t *testing.T) {
	b := DurationBuckets()
	if !slices.IsSorted(b) || b[0] <= 0 || b[len(b)-1] < 10 {
		t.Errorf("buckets %v", b)
	}
	b[0] = 99 // the caller's own
	if DurationBuckets()[0] == 99 {
		t.Error("callers share the buckets")
	}
}

// Many goroutines count, register, delete and read at once. Nothing is lost, and a histogram's count is always that of its buckets.
func TestConcurrency_NothingIsLost(t *testing.T) {
	const workers, rounds = 8, 500
	s := NewSet()
	var work, reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		last := map[string]float64{}
		for {
			for _, f := range s.Snapshot() {
				for _, sample := range f.Samples {
					if f.Kind == KindHistogram && sample.Counts[len(sample.Counts)-1] > sample.Count {
						t.Errorf("counts %v, count %d", sample.Counts, sample.Count)
					}
					key := f.Name + strings.Join(sample.LabelValues, ",")
					if f.Name == "kept_total" && sample.Value < last[key] {
						t.Errorf("%s fell from %v to %v", key, last[key], sample.Value)
					}
					last[key] = sample.Value
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range workers {
		work.Go(func() {
			for i := range rounds {
				s.Counter("kept_total", "", "n").With(fmt.Sprint(i % 10)).Inc()
				s.Gauge("gauge", "").With().Add(1)
				s.Histogram("h", "", []float64{1, 10, 1e9}).With().Observe(float64(i))
				churn := s.Counter("churn_total", "", "n")
				churn.With(fmt.Sprint(w)).Inc()
				churn.Delete(fmt.Sprint(w))
			}
		})
	}
	work.Wait()
	close(stop)
	reading.Wait()

	var total int64
	for i := range 10 {
		total += s.Counter("kept_total", "", "n").With(fmt.Sprint(i)).Value()
	}
	h := s.Histogram("h", "", []float64{1, 10, 1e9}).With()
	wantSum := float64(workers * rounds * (rounds - 1) / 2)
	if total != workers*rounds || s.Gauge("gauge", "").With().Value() != workers*rounds || h.Count() != workers*rounds || h.Sum() != wantSum {
		t.Errorf("counter %d, gauge %v, histogram %d with sum %v", total, s.Gauge("gauge", "").With().Value(), h.Count(), h.Sum())
	}
}

func BenchmarkWith(b *testing.B) {
	c := NewSet().Counter("a_total", "", "topic", "partition")
	b.ReportAllocs()
	for b.Loop() {
		c.With("orders", "3").Inc()
	}
}

func BenchmarkObserve(b *testing.B) {
	h := NewSet().Histogram("h", "", DurationBuckets()).With()
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(0.004)
	}
}
