package check

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
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

// shapes are histories in which a check that looks at everything again for each event would not come to an end: n events, or n times two.
var shapes = map[string]func(n int, add func(history.Event)){
	"assigns": func(n int, add func(history.Event)) { // each by another member that keeps its session
		for i := range n {
			add(history.Event{Client: fmt.Sprint("m", i), Kind: history.Assign, Type: history.OK, Group: "g", Member: fmt.Sprint("m", i), Generation: int32(i + 1), Records: []history.Record{{Topic: "t", Partition: int32(i % 50)}}})
		}
	},
	"fetches": func(n int, add func(history.Event)) { // that end in the order against their beginning
		commit := history.Event{Client: "m", Kind: history.Commit, Group: "g", Generation: 1, Records: []history.Record{{Topic: "t", Offset: 5}}}
		for _, commit.Type = range []history.Type{history.Invoke, history.OK} {
			add(commit)
		}
		for i := range n {
			add(history.Event{Client: fmt.Sprint("f", i), Kind: history.Committed, Type: history.Invoke, Group: "g"})
		}
		for i := n - 1; i >= 0; i-- {
			add(history.Event{Client: fmt.Sprint("f", i), Kind: history.Committed, Type: history.OK, Group: "g", Records: commit.Records})
		}
	},
	"gaps": func(n int, add func(history.Event)) { // over records that only one replica has
		send := history.Event{Client: "p", Kind: history.Send, Type: history.Invoke}
		dump := history.Event{Client: "d", Kind: history.Replica, Type: history.OK}
		for i := range n {
			v := history.Value{Client: "p", Seq: int64(i)}.String()
			send.Records = append(send.Records, history.Record{Topic: "t", Offset: history.Unknown, Value: v})
			dump.Records = append(dump.Records, history.Record{Topic: "t", Offset: int64(i), Value: v})
		}
		ends := []history.Record{dump.Records[0], dump.Records[n-1]}
		add(send)
		add(dump)
		add(history.Event{Client: "e", Kind: history.Replica, Type: history.OK, Broker: 1, Records: []history.Record{dump.Records[0], {Topic: "t", Offset: 1}}})
		for i := range n {
			add(history.Event{Client: fmt.Sprint("c", i), Kind: history.Poll, Type: history.OK, Records: ends})
		}
	},
	"partitions": func(n int, add func(history.Event)) { // of one DeleteRecords
		trim := history.Event{Client: "n", Kind: history.Admin, Action: history.DeleteRecords}
		for i := range n {
			trim.Records = append(trim.Records, history.Record{Topic: "t", Partition: int32(i), Offset: 1})
		}
		for _, trim.Type = range []history.Type{history.Invoke, history.OK} {
			add(trim)
		}
	},
	"deletions": func(n int, add func(history.Event)) { // and as many consumers that come later
		for i := range n {
			add(history.Event{Client: "n", Op: int64(i), Kind: history.Admin, Action: history.DeleteRecords, Type: history.OK, Records: []history.Record{{Topic: "t", Offset: int64(i)}}})
		}
		send := history.Event{Client: "p", Kind: history.Send, Type: history.Invoke, Records: []history.Record{{Topic: "t", Offset: history.Unknown, Value: history.Value{Client: "p"}.String()}}}
		add(send)
		at := []history.Record{{Topic: "t", Offset: int64(n), Value: send.Records[0].Value}}
		for i := range n {
			add(history.Event{Client: fmt.Sprint("c", i), Kind: history.Seek, Type: history.OK, Records: at})
			add(history.Event{Client: fmt.Sprint("c", i), Op: 1, Kind: history.Poll, Type: history.OK, Records: at})
		}
	},
}

// BenchmarkShapes shows that twice as much takes about twice as long.
func BenchmarkShapes(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		for _, n := range []int{10_000, 20_000, 40_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					c := New(Options{})
					time := int64(0)
					shapes[name](n, func(e history.Event) {
						time++
						e.Time = time
						if err := c.Add(&e); err != nil {
							b.Fatal(err)
						}
					})
					c.Report()
				}
			})
		}
	}
}
