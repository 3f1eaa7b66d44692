package check

import (
	"runtime"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// TestSparseHistoriesTakeLittleMemory: numbers that are not dense, and partitions with a record each, cost a value or a partition of their own, and not much more.
func TestSparseHistoriesTakeLittleMemory(t *testing.T) {
	const values = 10_000
	for name, c := range map[string]struct {
		record func(i int64) history.Record
		most   uint64 // bytes for a value
	}{
		"numbers far apart": {func(i int64) history.Record {
			return history.Record{Topic: "t", Offset: i, Value: history.Value{Client: "p", Seq: i * 1000}.String()}
		}, 2048},
		"offsets far apart": {func(i int64) history.Record {
			return history.Record{Topic: "t", Offset: i * 1000, Value: history.Value{Client: "p", Seq: i}.String()}
		}, 2048},
		"many partitions": {func(i int64) history.Record {
			return history.Record{Topic: "t", Partition: int32(i), Value: history.Value{Client: "p", Seq: i}.String()}
		}, 3072},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			checker := New(Options{})
			for i := range int64(values) {
				e := history.Event{Time: 2 * i, Client: "p", Op: i, Kind: history.Send, Type: history.Invoke, Records: []history.Record{c.record(i)}}
				for _, e.Type = range []history.Type{history.Invoke, history.OK} {
					e.Time++
					if err := checker.Add(&e); err != nil {
						t.Fatal(err)
					}
				}
			}
			if r := checker.Report(); !r.Clean() {
				t.Fatal(text(t, r))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := (after.HeapAlloc - before.HeapAlloc) / values; held > c.most {
				t.Errorf("%d bytes for a value, at most %d are right", held, c.most)
			} else {
				t.Log(held, "bytes for a value")
			}
			runtime.KeepAlive(checker)
		})
	}
}
