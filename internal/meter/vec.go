package meter

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/moldau-log/moldau/internal/invariant"
)

// MaxSeries is how many label sets one family holds. Further ones share one series whose label values are all Other: a flood of topic
// names may blur a metric, it may not fill the memory.
const MaxSeries = 16384

// Other is the label value of the series that takes what exceeds MaxSeries.
const Other = "other"

// CounterVec is a family of counters, one for each set of label values.
type CounterVec struct{ vec[Counter] }

// GaugeVec is a family of gauges.
type GaugeVec struct{ vec[Gauge] }

// HistogramVec is a family of histograms that share their buckets.
type HistogramVec struct{ vec[Histogram] }

// With gives the counter of these label values, in the order of the family's labels, and makes it at 0 if need be. Keep the result where
// it is used often.
func (v *CounterVec) With(values ...string) *Counter { return v.with(values) }

// With gives the gauge of these label values, as CounterVec.With does.
func (v *GaugeVec) With(values ...string) *Gauge { return v.with(values) }

// With gives the histogram of these label values, as CounterVec.With does.
func (v *HistogramVec) With(values ...string) *Histogram { return v.with(values) }

// vec maps label values to metrics of one kind.
type vec[M any] struct {
	labels    []string
	newMetric func() *M
	limit     int // MaxSeries but in tests

	mu       sync.RWMutex // guards series and overflow
	series   map[string]*series[M]
	overflow *series[M] // nil until needed
}

// series is one member of a family.
type series[M any] struct {
	values []string
	metric *M
}

// init prepares a vec that is part of a larger struct.
func (v *vec[M]) init(labels []string, newMetric func() *M) {
	v.labels, v.newMetric, v.limit = labels, newMetric, MaxSeries
	v.series = map[string]*series[M]{}
}

// keySize is the stack space for a key: several long names fit, and longer ones cost an allocation.
const keySize = 256

func (v *vec[M]) with(values []string) *M {
	v.checkValues(values)
	var space [keySize]byte
	key := appendKey(space[:0], values)
	v.mu.RLock()
	found := v.series[string(key)]
	v.mu.RUnlock()
	if found != nil {
		return found.metric
	}
	return v.insert(string(key), values)
}

// insert adds a series, or finds the one that somebody added meanwhile.
func (v *vec[M]) insert(key string, values []string) *M {
	v.mu.Lock()
	defer v.mu.Unlock()
	if found := v.series[key]; found != nil {
		return found.metric
	}
	if len(v.series) >= v.limit {
		if v.overflow == nil {
			v.overflow = &series[M]{values: others(len(values)), metric: v.newMetric()}
		}
		return v.overflow.metric
	}
	added := &series[M]{values: make([]string, len(values)), metric: v.newMetric()}
	for i, value := range values {
		added.values[i] = strings.Clone(value) // it may alias a request's buffer
	}
	v.series[key] = added
	return added.metric
}

// Delete drops a label set, for example that of a deleted topic. Who still holds its metric may go on counting without effect. The
// shared series of the overflow stays.
func (v *vec[M]) Delete(values ...string) {
	v.checkValues(values)
	var space [keySize]byte
	key := appendKey(space[:0], values)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.series, string(key))
}

// all lists the series in no order. Their values are never written again.
func (v *vec[M]) all() []*series[M] {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make([]*series[M], 0, len(v.series)+1)
	for _, s := range v.series {
		list = append(list, s)
	}
	if v.overflow != nil {
		list = append(list, v.overflow)
	}
	return list
}

func (v *vec[M]) checkValues(values []string) {
	if len(values) != len(v.labels) { // tested here so that the arguments are boxed only on failure
		invariant.Check(false, "meter: %d values for labels %v", len(values), v.labels)
	}
}

// others is n label values of the overflow.
func others(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = Other
	}
	return values
}

// appendKey joins label values so that no two lists give the same key.
func appendKey(key []byte, values []string) []byte {
	for _, value := range values {
		key = binary.AppendUvarint(key, uint64(len(value)))
		key = append(key, value...)
	}
	return key
}
