package segment

import (
	"testing"

	"github.com/moldau-log/moldau/record"
)

// TestSliceNextIsWhereItsBatchesEnd reads a log of several segments, reopened so that old ones are read through their index files, with every limit that matters: a
// follower goes on at Next, so it must be the end of the last batch that the bytes hold.
func TestSliceNextIsWhereItsBatchesEnd(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	add(t, l, 60, 3, 100, 1)
	check(t, l.Close())
	l, _ = mustOpen(t, fs, testConfig())
	add(t, l, 7, 2, 40, 2)
	v := l.View()
	for from := v.Start(); from < v.End(); from += 5 {
		for _, max := range []int{1, 300, 700, 1500, 3000, 1 << 20} {
			for _, limit := range []record.Offset{from + 3, from + 30, v.End() - 1, v.End()} {
				s, err := v.Read(from, max, min(limit, v.End()))
				check(t, err)
				bytes, err := s.AppendTo(nil)
				check(t, err)
				var end record.Offset
				check(t, record.Split(bytes, func(b record.Batch) error {
					end = b.NextOffset()
					return nil
				}))
				if s.Len() > 0 && s.Next() != end {
					t.Fatalf("read from %d, %d bytes, below %d: Next is %d, the batches end at %d", from, max, limit, s.Next(), end)
				}
				s.Release()
			}
		}
	}
}
