package segment

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

var testID = Identity{TopicID: [16]byte{1, 2, 3}, Topic: "t", Partition: 7, ClusterID: "c"}

const testDir = "data/p"

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 4096, 256
	return cfg
}

func newTestFS(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	check(t, m.MkdirAll("data"))
	check(t, m.SyncDir("/"))
	return m
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batchSpec says what a test batch is to be.
type batchSpec struct {
	base  record.Offset
	epoch record.LeaderEpoch
	count int
	size  int   // bytes of each value
	ts    int64 // of the first record; each next is 1 ms later
	fill  byte
	codec record.Codec
}

func makeBatch(t testing.TB, s batchSpec) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{Codec: s.codec})
	for i := range max(s.count, 1) {
		value := bytes.Repeat([]byte{s.fill}, s.size)
		b.Append(s.ts+int64(i), fmt.Appendf(nil, "k%d", i), value, nil)
	}
	batch, err := b.Build()
	check(t, err)
	batch.Stamp(s.base, s.epoch)
	return batch.Bytes()
}

func mustOpen(t testing.TB, fs vfs.FS, cfg Config) (*Log, Report) {
	t.Helper()
	l, report, err := Open(fs, testDir, testID, cfg)
	check(t, err)
	return l, report
}

// add appends n batches of count records each and returns their bytes in order.
func add(t testing.TB, l *Log, n, count, size int, epoch record.LeaderEpoch) [][]byte {
	t.Helper()
	var out [][]byte
	for range n {
		b := makeBatch(t, batchSpec{base: l.End(), epoch: epoch, count: count, size: size, ts: 1000 + int64(l.End()), fill: byte('a' + l.End()%26)})
		_, err := l.Append(5000, b)
		check(t, err)
		out = append(out, b)
	}
	return out
}

// readAll reads the log from its start to limit in pieces of at most max bytes.
func readAll(t testing.TB, v *View, limit record.Offset, max int) []byte {
	t.Helper()
	var out []byte
	for at := v.Start(); at < limit; {
		s, err := v.Read(at, max, limit)
		check(t, err)
		if s.Len() == 0 {
			t.Fatalf("nothing at offset %d below %d", at, limit)
		}
		from := len(out)
		out, err = s.AppendTo(out)
		check(t, err)
		s.Release()
		check(t, record.Split(out[from:], func(b record.Batch) error { at = b.NextOffset(); return b.VerifyCRC() }))
	}
	return out
}

func wantLog(t testing.TB, l *Log, batches [][]byte) {
	t.Helper()
	want := bytes.Join(batches, nil)
	for _, max := range []int{1, 700, 1 << 20} {
		if got := readAll(t, l.View(), l.End(), max); !bytes.Equal(got, want) {
			t.Fatalf("max %d: log holds %d bytes, want %d, or others", max, len(got), len(want))
		}
	}
}

func msDuration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
