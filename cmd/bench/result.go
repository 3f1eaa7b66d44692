package main

import (
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// result is what a run found, and everything that is needed to repeat it.
type result struct {
	Command         string        `json:"command"`
	Version         string        `json:"version"`
	BrokerVersion   string        `json:"broker_version"`
	Go              string        `json:"go"`
	Platform        string        `json:"platform"`
	CPUs            int           `json:"cpus"`
	StartedMs       int64         `json:"started_ms"`
	Settings        *settings     `json:"settings"`
	TopicPartitions int32         `json:"topic_partitions"`
	Idempotent      bool          `json:"idempotent"`
	Seconds         float64       `json:"seconds"`
	Produce         *flowResult   `json:"produce,omitempty"`
	Consume         *flowResult   `json:"consume,omitempty"`
	Client          usageResult   `json:"client"`
	Brokers         []usageResult `json:"brokers"`
	// BrokersCPUSecondsPerGB is that of all brokers for 1,000,000,000 bytes of the figures above, both directions together. Absent without --broker-pids.
	BrokersCPUSecondsPerGB float64     `json:"brokers_cpu_seconds_per_gb,omitempty"`
	RecordsPerBatch        float64     `json:"records_per_batch,omitempty"` // where the client makes the batches, and says so
	Cold                   *coldResult `json:"cold_segments,omitempty"`
}

// coldResult says what was taken out of the page cache before reading.
type coldResult struct {
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	CachedBytes *int64 `json:"still_cached_bytes,omitempty"` // absent: the kernel does not say
}

// flowResult are the figures of one direction. Bytes are those of the batches as sent and stored; of keys and values with --api records.
type flowResult struct {
	Records            int64    `json:"records"`
	Bytes              int64    `json:"bytes"`
	RecordsPerSecond   float64  `json:"records_per_second"`
	MegabytesPerSecond float64  `json:"megabytes_per_second"` // of 1,000,000 bytes
	Errors             int64    `json:"errors"`
	FirstError         string   `json:"first_error,omitempty"`
	LatencyMs          *latency `json:"latency_ms,omitempty"` // of batches: to the acknowledgement, or from append to delivery
}

type latency struct {
	Batches int64   `json:"batches"`
	Mean    float64 `json:"mean"`
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Max     float64 `json:"max"`
}

// usageResult is CPU time within the measured time, and peak resident memory since the process started.
type usageResult struct {
	PID                 int     `json:"pid,omitempty"`
	CPUSeconds          float64 `json:"cpu_seconds"`
	MicrosecondsARecord float64 `json:"cpu_us_per_record"`
	RSSPeakBytes        int64   `json:"rss_peak_bytes"`
}

// fill computes the figures of the measured time.
func (w *watch) fill(r *result, p parts) {
	r.Seconds, r.Idempotent = w.to.at.Sub(w.from.at).Seconds(), w.settings.idempotent(p)
	var records, bytes int64
	if p.produce {
		r.Produce = flowFigures(w.produced, w.from.produced, w.to.produced, r.Seconds)
		records, bytes = records+r.Produce.Records, bytes+r.Produce.Bytes
	}
	if p.consume {
		r.Consume = flowFigures(w.consumed, w.from.consumed, w.to.consumed, r.Seconds)
		records, bytes = records+r.Consume.Records, bytes+r.Consume.Bytes
		if !p.produce && !w.settings.Tail {
			r.Consume.LatencyMs = nil // how old a backlog is says nothing
		}
	}
	r.Client = usageFigures(0, w.from.self, w.to.self, records)
	r.Brokers = []usageResult{}
	cpu := 0.0
	for i, pid := range w.settings.BrokerPIDs {
		r.Brokers = append(r.Brokers, usageFigures(pid, w.from.brokers[i], w.to.brokers[i], records))
		cpu += r.Brokers[i].CPUSeconds
	}
	if bytes > 0 {
		r.BrokersCPUSecondsPerGB = cpu / (float64(bytes) / 1e9)
	}
}

// countBatches says how full the batches were that the clients have made.
func (r *result) countBatches(doors []door) {
	var batches, records int64
	for _, d := range doors {
		b, n := d.writtenBatches()
		batches, records = batches+b, records+n
	}
	if batches > 0 {
		r.RecordsPerBatch = float64(records) / float64(batches)
	}
}

func flowFigures(f *flow, from, to [2]int64, seconds float64) *flowResult {
	r := &flowResult{Records: to[0] - from[0], Bytes: to[1] - from[1], Errors: f.errors.Load()}
	r.RecordsPerSecond, r.MegabytesPerSecond = float64(r.Records)/seconds, float64(r.Bytes)/seconds/1e6
	if first := f.firstError.Load(); first != nil {
		r.FirstError = (*first).Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latencies.TotalCount() > 0 {
		r.LatencyMs = percentiles(f.latencies)
	}
	return r
}

func percentiles(h *hdrhistogram.Histogram) *latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return &latency{
		Batches: h.TotalCount(), Mean: h.Mean() / 1000, P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)),
		P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max()),
	}
}

func usageFigures(pid int, from, to usage, records int64) usageResult {
	r := usageResult{PID: pid, CPUSeconds: to.cpuSeconds - from.cpuSeconds, RSSPeakBytes: to.peakBytes}
	if records > 0 {
		r.MicrosecondsARecord = r.CPUSeconds * 1e6 / float64(records)
	}
	return r
}

// printText prints for people.
func (r *result) printText(out io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format+"\n", args...)
		}
	}
	s := r.Settings
	line("bench %s  protocol %s, topic %s, %d partitions, %d connections, %.1f s", r.Command, s.Protocol, s.Topic, r.TopicPartitions, s.Connections, r.Seconds)
	if s.ProduceSettings != nil {
		line("batches of %d x %d B, acks=%s, %s, %d in flight", s.Batch, s.Size, s.Acks, s.Compression, s.InFlight)
	}
	for _, d := range []struct {
		name string
		flow *flowResult
	}{{"produce", r.Produce}, {"consume", r.Consume}} {
		if d.flow == nil {
			continue
		}
		line("%s  %.0f records/s  %.1f MB/s  %d records  %d errors %s", d.name, d.flow.RecordsPerSecond, d.flow.MegabytesPerSecond, d.flow.Records, d.flow.Errors, d.flow.FirstError)
		if l := d.flow.LatencyMs; l != nil {
			line("%s  latency of a batch: p50 %.2f ms  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f", d.name, l.P50, l.P90, l.P99, l.P999, l.Max)
		}
	}
	line("client   %.2f s CPU, %.3f us a record, %d MiB peak", r.Client.CPUSeconds, r.Client.MicrosecondsARecord, r.Client.RSSPeakBytes>>20)
	for _, b := range r.Brokers {
		line("broker %d  %.2f s CPU, %.3f us a record, %d MiB peak", b.PID, b.CPUSeconds, b.MicrosecondsARecord, b.RSSPeakBytes>>20)
	}
	if r.BrokersCPUSecondsPerGB > 0 {
		line("brokers  %.2f s CPU a GB", r.BrokersCPUSecondsPerGB)
	}
	return err
}
