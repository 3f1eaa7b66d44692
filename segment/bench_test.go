package segment

import (
	"fmt"
	"io"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// benchBatch is 500 records of 100 bytes, the batch of the performance notes: 54 KB.
func benchBatch(b *testing.B) record.Batch {
	b.Helper()
	batch, err := record.Parse(makeBatch(b, batchSpec{count: 500, size: 96, ts: 1000, fill: 'x'}))
	check(b, err)
	return batch
}

func benchLog(b *testing.B) *Log {
	b.Helper()
	l, _, err := Open(vfs.OS{}, b.TempDir()+"/p", testID, DefaultConfig())
	check(b, err)
	b.Cleanup(l.Abandon)
	return l
}

// BenchmarkAppendFlush appends so many batches per flush. What it costs beyond the file system is in the allocations.
func BenchmarkAppendFlush(b *testing.B) {
	for _, group := range []int{0, 1, 8, 32} {
		b.Run(fmt.Sprintf("batches-per-flush-%d", group), func(b *testing.B) {
			l, batch := benchLog(b), benchBatch(b)
			b.SetBytes(int64(batch.Size()))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				batch.Stamp(l.End(), 1)
				if _, err := l.Append(5000, batch.Bytes()); err != nil {
					b.Fatal(err)
				}
				if group > 0 && i%group == group-1 {
					check(b, l.Flush())
				}
			}
		})
	}
}

// BenchmarkRead reads 256 MiB in order in fetches of 1 MiB: only finding the range, or copying it too.
func BenchmarkRead(b *testing.B) {
	for _, copies := range []bool{false, true} {
		for _, sealed := range []bool{false, true} {
			b.Run(fmt.Sprintf("copy-%v/sealed-%v", copies, sealed), func(b *testing.B) {
				l := filledBenchLog(b, sealed)
				v, at := l.View(), record.Offset(0)
				b.ReportAllocs()
				bytes := int64(0)
				for b.Loop() {
					s, err := v.Read(at, 1<<20, v.End())
					check(b, err)
					if copies {
						_, err := s.WriteTo(io.Discard)
						check(b, err)
					}
					bytes += int64(s.Len())
					s.Release()
					if at += 500 * record.Offset(s.Len()/(54<<10)); at >= v.End()-20*500 {
						at = 0
					}
				}
				b.SetBytes(bytes / int64(b.N))
			})
		}
	}
}

func filledBenchLog(b *testing.B, sealed bool) *Log {
	b.Helper()
	l, batch := benchLog(b), benchBatch(b)
	for l.Size() < 256<<20 {
		batch.Stamp(l.End(), 1)
		_, err := l.Append(5000, batch.Bytes())
		check(b, err)
	}
	if sealed {
		check(b, l.roll(l.End()))
	}
	return l
}

// BenchmarkOpenClean opens a log that was closed in order.
func BenchmarkOpenClean(b *testing.B) {
	dir := b.TempDir() + "/p"
	l, _, err := Open(vfs.OS{}, dir, testID, DefaultConfig())
	check(b, err)
	add(b, l, 100, 10, 1000, 1)
	check(b, l.Close())
	b.ReportAllocs()
	for b.Loop() {
		l, _, err := Open(vfs.OS{}, dir, testID, DefaultConfig())
		check(b, err)
		l.Abandon()
	}
}

// BenchmarkReadBack reads 64 MiB of batches of so many records of 100 bytes in fetches of 1 MiB: the first read after the append reads their headers back, later ones
// those at hand only.
func BenchmarkReadBack(b *testing.B) {
	for _, records := range []int{1, 10, 500} {
		l := benchLog(b)
		batch, err := record.Parse(makeBatch(b, batchSpec{count: records, size: 96, ts: 1000, fill: 'x'}))
		check(b, err)
		for l.Size() < 64<<20 {
			batch.Stamp(l.End(), 1)
			_, err := l.Append(5000, batch.Bytes())
			check(b, err)
		}
		for _, first := range []bool{true, false} {
			b.Run(fmt.Sprintf("records-%d/first-%v", records, first), func(b *testing.B) {
				b.SetBytes(l.Size())
				for b.Loop() {
					if first {
						l.active.file.readBack = nil
					}
					for at, v := record.Offset(0), l.View(); at < v.End(); {
						s, err := v.Read(at, 1<<20, v.End())
						check(b, err)
						at = s.Next()
						s.Release()
					}
				}
			})
		}
	}
}
