package httpapi

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/moldau-log/moldau/internal/meter"
)

// exporter shows sets as Prometheus metrics. It is an unchecked collector: families come and go with what packages register.
type exporter struct{ sets []*meter.Set }

// Describe tells nothing, which is how an unchecked collector says that its metrics are not known beforehand.
func (e *exporter) Describe(chan<- *prometheus.Desc) {}

// Collect takes a snapshot of every set and joins families of one name.
func (e *exporter) Collect(out chan<- prometheus.Metric) {
	for _, f := range join(e.sets) {
		desc := prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
		for i := range f.Samples {
			out <- metric(desc, f.Kind, &f.Samples[i])
		}
	}
}

// join puts families of the same name together and adds samples of the same labels. A later family that contradicts the first of its name
// in kind or labels is left out: one odd package must not cost the scrape.
func join(sets []*meter.Set) []meter.Family {
	var out []meter.Family
	index := map[string]int{}
	for _, set := range sets {
		for _, f := range set.Snapshot() {
			i, seen := index[f.Name]
			if !seen {
				index[f.Name] = len(out)
				out = append(out, f)
				continue
			}
			first := &out[i]
			if first.Kind != f.Kind || !slices.Equal(first.Labels, f.Labels) {
				continue
			}
			for _, s := range f.Samples {
				addSample(first, s)
			}
		}
	}
	return out
}

func addSample(f *meter.Family, s meter.Sample) {
	i := slices.IndexFunc(f.Samples, func(have meter.Sample) bool { return slices.Equal(have.LabelValues, s.LabelValues) })
	if i < 0 {
		f.Samples = append(f.Samples, s)
		return
	}
	have := &f.Samples[i]
	have.Value += s.Value
	if slices.Equal(have.Buckets, s.Buckets) {
		have.Counts = slices.Clone(have.Counts)
		for k := range have.Counts {
			have.Counts[k] += s.Counts[k]
		}
		have.Sum += s.Sum
		have.Count += s.Count
	}
}

// metric is one sample in Prometheus's form. A sample that cannot be one is reported in the scrape.
func metric(desc *prometheus.Desc, kind meter.Kind, s *meter.Sample) prometheus.Metric {
	var m prometheus.Metric
	var err error
	switch kind {
	case meter.KindHistogram:
		buckets := make(map[float64]uint64, len(s.Buckets))
		for i, upper := range s.Buckets {
			buckets[upper] = uint64(s.Counts[i])
		}
		m, err = prometheus.NewConstHistogram(desc, uint64(s.Count), s.Sum, buckets, s.LabelValues...)
	case meter.KindCounter:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, s.LabelValues...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, s.LabelValues...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}

// buildInfo is the metric that tells which software runs.
func buildInfo(cfg Config) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "moldau_build_info", Help: "1, with the software's version in its labels.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "revision": cfg.Revision, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
}
