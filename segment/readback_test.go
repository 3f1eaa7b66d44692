package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/moldau-log/moldau/record"
)

// rotten appends so many batches of a size, two of an older epoch first, and changes one bit of one of them in the file, at a byte of its header.
func rotten(t *testing.T, batches, size, which int, at int64, bit byte) *Log {
	t.Helper()
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, DefaultConfig())
	t.Cleanup(l.Abandon)
	position := int64(0)
	for i, b := range append(add(t, l, 2, 2, size, 3), add(t, l, batches-2, 2, size, 6)...) {
		if i < which {
			position += int64(len(b))
		}
	}
	check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), position+at, bit))
	return l
}

// What lies outside the checksum is the log's alone to prove: a consumer whose batch has another base offset goes on elsewhere, and a follower with another leader epoch has
// another history. So what was appended is read back before it is handed out the first time (case 63).
func TestCase63_AHeadThatRotsBehindTheAppendIsNotHandedOut(t *testing.T) {
	const batches = 40
	for _, size := range []int{60, 700, 9000} { // many to a window of the walk, few, none
		for _, which := range []int{2, 3, 20, batches - 1} {
			for field, at := range map[string]int64{"offset": 7, "offset far away": 5, "length": 10, "epoch": 15} {
				for _, bit := range []byte{1, 2, 4, 64} {
					t.Run(fmt.Sprintf("%d bytes, batch %d, %s, bit %d", size, which, field, bit), func(t *testing.T) {
						l := rotten(t, batches, size, which, at, bit)
						refusesFrom(t, l, record.Offset(2*which))
					})
				}
			}
		}
	}
}

// refusesFrom reads a log, of batches of two records of which the one at an offset is bad, in reads that have room for few batches and for all.
func refusesFrom(t *testing.T, l *Log, bad record.Offset) {
	t.Helper()
	for _, limit := range []record.Offset{l.End(), bad + 2} {
		for _, from := range []record.Offset{0, bad - 2, bad, bad + 1} {
			for _, max := range []int{1, 1500, 1 << 20} {
				s, err := l.View().Read(from, max, limit)
				if err != nil {
					findsAgain(t, l, err)
					continue
				}
				if next := s.Next(); s.Len() > 0 && (next > bad || next <= from) {
					t.Errorf("read from %d, %d bytes at most, below %d: goes to %d", from, max, limit, next)
				}
				s.Release()
			}
		}
	}
}

// findsAgain looks for damage where it was found, as whoever is told of it does before it believes that.
func findsAgain(t *testing.T, l *Log, err error) {
	t.Helper()
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	if !l.View().IsDamaged(d.Offset) {
		t.Errorf("%v: nothing is found there", d)
	}
}

// The header of what is read by itself is looked at each time: nothing more has to be read for it.
func TestCase63_AHeadThatRotsAfterTheFirstRead(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, DefaultConfig())
	defer l.Abandon()
	batches := add(t, l, 4, 2, 100, 1)
	s, err := l.View().Read(0, 1<<20, l.End())
	check(t, err)
	s.Release()
	check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), int64(len(batches[0]))+7, 4))
	if s, err := l.View().Read(0, 1<<20, l.End()); !errors.Is(err, ErrDamaged) {
		t.Errorf("%d bytes, %v", s.Len(), err)
	}
}
