package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// rotten appends so many batches of a size, two of an older epoch first that is one bit away from the newer one, and changes one bit of one of them in the file, at a byte of its header.
func rotten(t *testing.T, batches, size, which int, at int64, bit byte) *Log {
	t.Helper()
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, DefaultConfig())
	t.Cleanup(l.Abandon)
	position := int64(0)
	for i, b := range append(add(t, l, 2, 2, size, 4), add(t, l, batches-2, 2, size, 6)...) {
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

// squared makes a log of so many batches of one record and 128 bytes each, so that a bit of a length that flips makes a batch end where another one does.
func squared(t *testing.T, batches int) (*Log, *vfs.Mem) {
	t.Helper()
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, DefaultConfig())
	t.Cleanup(l.Abandon)
	for range batches {
		b := makeBatch(t, batchSpec{base: l.End(), epoch: 1, count: 1, size: 57, ts: 1000})
		if len(b) != 128 {
			t.Fatalf("a batch has %d bytes", len(b))
		}
		_, err := l.Append(5000, b)
		check(t, err)
	}
	return l, fs
}

// A length that rots so that its batch ends with the last one of the file leaves no batch behind it that would not fit.
func TestCase63_ALengthThatReachesToTheEndOfTheFile(t *testing.T) {
	for _, max := range []int{1, 256, 1 << 20} {
		l, fs := squared(t, 4)
		check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), 2*128+11, 128))
		for from := range l.End() {
			if s, err := l.View().Read(from, max, l.End()); err != nil {
				findsAgain(t, l, err)
			} else if s.Next() > 2 {
				t.Errorf("read from %d, %d bytes at most: goes to %d", from, max, s.Next())
			}
		}
		if err := l.TruncateTo(3); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut in the middle of the batch: %v, the log ends at %d", err, l.End())
		}
	}
}

// What is read may end, by the index, where a batch within it does not by its length: that one reaches to the end of the file, or to a batch that could follow it in a log with gaps.
func TestCase63_ALengthThatReachesBeyondWhatIsRead(t *testing.T) {
	for _, batches := range []int{64, 80} {
		l, fs := squared(t, batches) // the index knows the batch at 33
		if batches > 64 {
			_, err := l.AppendReplicated(5000, makeBatch(t, batchSpec{base: l.End() + 5, epoch: 1}))
			check(t, err)
		}
		check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), 31*128+10, 16)) // it ends where the batch at 64 begins
		for _, max := range []int{33*128 + 1, 34 * 128} {
			s, err := l.View().Read(0, max, l.End())
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%d batches, %d bytes at most: goes to %d, %v", batches, max, s.Next(), err)
			}
			s.Release()
		}
	}
}

// The log may begin in the middle of a batch, and its history of epochs there with it. The batch is handed out all the same, and its epoch is that of the history.
func TestCase63_AnEpochThatRotsWhereTheLogBegins(t *testing.T) {
	for _, closed := range []bool{false, true} {
		for _, bit := range []byte{0, 1, 2, 4} { // epoch 3 stays, or becomes 2, 1 and 7
			fs := newTestFS(t)
			l, _ := mustOpen(t, fs, DefaultConfig())
			add(t, l, 1, 2, 100, 3)
			add(t, l, 2, 2, 100, 9)
			check(t, l.MoveStart(1))
			if closed {
				check(t, l.Close())
				l, _ = mustOpen(t, fs, DefaultConfig())
			}
			check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), 15, bit))
			s, err := l.View().Read(1, 1, l.End())
			if bit == 0 && (err != nil || s.Next() != 2) || bit > 0 && !errors.Is(err, ErrDamaged) {
				t.Errorf("closed %v, bit %d: read to %d, %v", closed, bit, s.Next(), err)
			}
			s.Release()
			l.Abandon()
		}
	}
}
