package meter

import (
	"fmt"
	"slices"
)

// Kind is what a family holds.
type Kind int8

// The kinds of families.
const (
	KindCounter Kind = iota + 1
	KindGauge
	KindHistogram
)

// String is the word for the kind in Prometheus's text format.
func (k Kind) String() string {
	switch k {
	case KindCounter:
		return "counter"
	case KindGauge:
		return "gauge"
	case KindHistogram:
		return "histogram"
	}
	return fmt.Sprintf("kind(%d)", int8(k))
}

// Family is one metric name at one moment.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string
	Samples    []Sample
}

// Sample is one label set of a family.
type Sample struct {
	// LabelValues are in the order of Family.Labels. Two samples of a family never have the same.
	LabelValues []string
	// Value is that of a counter or a gauge.
	Value float64

	// Buckets, Counts, Sum and Count are those of a histogram. Counts are cumulative: Counts[i] observations do not exceed Buckets[i],
	// and Count counts all.
	Buckets []float64
	Counts  []int64
	Sum     float64
	Count   int64
}

// samples reads every series of a family with read, in order of label values. Where a label set is called Other by its own right, the
// overflow is added to it.
func samples[M any](v *vec[M], read func(*M, *Sample)) []Sample {
	all := v.all()
	out := make([]Sample, 0, len(all))
	for _, s := range all {
		sample := Sample{LabelValues: s.values}
		read(s.metric, &sample)
		out = append(out, sample)
	}
	slices.SortFunc(out, func(a, b Sample) int { return slices.Compare(a.LabelValues, b.LabelValues) })
	return mergeEqual(out)
}

// mergeEqual adds up neighbours with equal labels.
func mergeEqual(sorted []Sample) []Sample {
	out := sorted[:0]
	for _, next := range sorted {
		if last := len(out) - 1; last >= 0 && slices.Equal(out[last].LabelValues, next.LabelValues) {
			out[last].add(next)
			continue
		}
		out = append(out, next)
	}
	return out
}

// add merges a sample of the same family.
func (s *Sample) add(other Sample) {
	s.Value += other.Value
	s.Sum += other.Sum
	s.Count += other.Count
	for i := range s.Counts {
		s.Counts[i] += other.Counts[i]
	}
}
