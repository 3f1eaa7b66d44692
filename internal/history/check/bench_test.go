package check

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// benchmarkEvents is how long the benchmark's history is.
const benchmarkEvents = 1_000_000

// longHistory is sends of eight producers to sixteen partitions, as often as they are read, in polls of ten records.
func longHistory(events int) []byte {
	var out []byte
	var ends [16]int64
	var unread []history.Record
	seqs := map[string]int64{}
	polls := int64(0)
	for n := 0; n < events; {
		client := "producer-" + string('0'+rune(n%8))
		seqs[client]++
		p := int32(n*7) % 16
		r := history.Record{Topic: "0191f0de-7c3a-7000-8000-000000000001", Partition: p, Offset: history.Unknown, Epoch: history.Unknown, Value: history.Value{Client: client, Seq: seqs[client]}.String()}
		e := history.Event{Time: int64(n+1) * 1000, Client: client, Op: seqs[client], Type: history.Invoke, Kind: history.Send, Records: []history.Record{r}}
		out = e.AppendJSON(out)
		e.Records[0].Offset = ends[p]
		ends[p]++
		e.Type, e.Time = history.OK, e.Time+500
		out = e.AppendJSON(out)
		n += 2
		e.Records[0].Epoch = 3
		if unread = append(unread, e.Records[0]); len(unread) == 10 {
			polls++
			poll := history.Event{Time: e.Time + 100, Client: "consumer", Op: polls, Type: history.OK, Kind: history.Poll, Records: unread}
			out = poll.AppendJSON(out)
			unread = unread[:0]
			n++
		}
	}
	return out
}

// BenchmarkMerge judges a million events. It reports what the checker holds for one event at its end.
func BenchmarkMerge(b *testing.B) {
	file := longHistory(benchmarkEvents)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := New(Options{})
		if err := c.Merge([]Source{NewSource("long", bytes.NewReader(file))}); err != nil {
			b.Fatal(err)
		}
		r := c.Report()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if !r.Clean() {
			b.Fatal("not clean")
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(r.Counts.Events), "held-B/event")
		runtime.KeepAlive(c)
	}
}
