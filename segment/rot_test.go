package segment

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// rottenEnd makes a log of six flushed batches, of which log.meta knows the first three, lets power fail and changes one byte of the last batch.
func rottenEnd(t *testing.T, at int64) *vfs.Mem {
	t.Helper()
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	add(t, l, 3, 2, 100, 1)
	check(t, l.Flush())
	before := l.Size()
	add(t, l, 3, 2, 100, 1)
	check(t, l.Flush())
	last := before + (l.Size()-before)/3*2
	disk := fs.CrashClone()
	l.Abandon()
	check(t, disk.Flip(filepath.Join(testDir, fileName(0, logSuffix)), last+at, 0x10))
	return disk
}

// The last batch was flushed and has rotted since. What is cut is no torn write, and the log says so, whichever field was hit: it must not count as complete.
func TestCase5_ARottenEndIsNoTornWrite(t *testing.T) {
	fields := map[string]int64{"base offset": 6, "length": 10, "magic": 16, "checksum": 18, "records": 120}
	for name, at := range fields {
		l, report := mustOpen(t, rottenEnd(t, at), testConfig())
		if l.End() != 10 || !report.Doubtful || !report.Rotten || report.Truncated == 0 {
			t.Errorf("%s: the log ends at %d, %+v", name, l.End(), report)
		}
		check(t, l.Close())
	}
}

// A write that the power cut tore leaves no doubt: it was cut short, or a sector of it was never written.
func TestCase1_ATornEndLeavesNoDoubt(t *testing.T) {
	for name, tear := range map[string]func(b []byte) []byte{
		"short":          func(b []byte) []byte { return b[:len(b)-40] },
		"half":           func(b []byte) []byte { return b[:len(b)-450] },
		"sector missing": func(b []byte) []byte { clear(b[1024:1536]); return b },
		"rest missing":   func(b []byte) []byte { clear(b[1024:]); return b },
	} {
		fs := newTestFS(t)
		l, _ := mustOpen(t, fs, testConfig())
		add(t, l, 2, 2, 100, 1)
		check(t, l.Flush())
		add(t, l, 1, 5, 250, 1)
		path := filepath.Join(testDir, fileName(0, logSuffix))
		check(t, editFile(fs, path, tear))
		l.Abandon()
		l, report := mustOpen(t, fs, testConfig())
		if l.End() != 4 || report.Doubtful || report.Rotten {
			t.Errorf("%s: the log ends at %d, %+v", name, l.End(), report)
		}
		check(t, l.Close())
	}
}

// The only file of a young log is gone. log.meta knows since the first flush that there was something in it.
func TestCase22_ALostFirstFileIsMissed(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	add(t, l, 2, 2, 100, 1)
	check(t, l.Flush())
	l.Abandon()
	check(t, fs.Lose(filepath.Join(testDir, fileName(0, logSuffix))))
	if _, _, err := Open(fs, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

// A file that was begun while a flush was under way is missed as well, once something in it was flushed.
func TestCase22_ALostFileBegunDuringAFlushIsMissed(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	add(t, l, 2, 2, 100, 1)
	f := l.BeginFlush()
	for sealed := len(l.sealed); len(l.sealed) == sealed; {
		add(t, l, 1, 2, 500, 1)
	}
	check(t, l.EndFlush(f, f.Sync()))
	check(t, l.Flush())
	lost := fileName(l.active.base, logSuffix)
	l.Abandon()
	check(t, fs.Lose(filepath.Join(testDir, lost)))
	if _, _, err := Open(fs, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

// What is written to log.meta between the first append to a file and the flush that covers it says nothing of that file, and does not do for what the flush has to say.
// Otherwise the file, emptied later, would pass for one in which nothing was ever flushed.
func TestCase22_AFileThatIsEmptiedIsMissed(t *testing.T) {
	for name, write := range map[string]func(l *Log) error{
		"nothing":      func(*Log) error { return nil },
		"a checkpoint": (*Log).Checkpoint,
		"the mark":     func(l *Log) error { return l.SetRelaxed(true) },
		"the start":    func(l *Log) error { return l.MoveStart(1) },
	} {
		for _, sealed := range []int{0, 1} {
			fs := newTestFS(t)
			l, _ := mustOpen(t, fs, testConfig())
			for add(t, l, 1, 2, 500, 1); len(l.sealed) < sealed; {
				check(t, l.Flush())
				add(t, l, 1, 2, 500, 1)
			}
			check(t, write(l))
			check(t, l.Flush())
			add(t, l, 1, 2, 100, 1) // nor does what comes later
			check(t, l.Flush())
			disk := fs.CrashClone()
			l.Abandon()
			check(t, editFile(disk, filepath.Join(testDir, fileName(l.active.base, logSuffix)), func([]byte) []byte { return nil }))
			if l, _, err := Open(disk, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s, file %d of the log: opened with %v, the log ends at %d", name, sealed, err, l.End())
			}
		}
	}
}

// Records that were deleted may be the newest that a file holds: the log starts at its end, in the middle of the file. When that file loses its end the log is refused, and verify
// says why.
func TestCase22_VerifyMissesWhatRecoveryMisses(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	add(t, l, 3, 2, 100, 1)
	check(t, l.Flush())
	check(t, l.MoveStart(l.End()))
	disk := fs.CrashClone()
	l.Abandon()
	check(t, editFile(disk, filepath.Join(testDir, fileName(0, logSuffix)), func([]byte) []byte { return nil }))
	if _, _, err := Open(disk.CrashClone(), testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened with %v", err)
	}
	findings, err := Verify(disk, testDir)
	check(t, err)
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == KindDamage }) {
		t.Errorf("verify finds %+v", findings)
	}
}

// The leader epoch lies outside the checksum. It is held against the history: in a read of a log that was closed, and in recovery.
func TestCase3_ARottenLeaderEpochIsFound(t *testing.T) {
	for _, bit := range []byte{1, 2, 4} { // epoch 5 becomes 4, 7 and 1
		fs := newTestFS(t)
		l, _ := mustOpen(t, fs, testConfig())
		batches := add(t, l, 2, 2, 100, 3)
		add(t, l, 3, 2, 100, 5)
		add(t, l, 3, 2, 100, 8)
		check(t, l.Checkpoint())
		at := int64(len(batches[0])+len(batches[1])) + 15
		add(t, l, 1, 2, 100, 8)
		check(t, l.Flush())
		crashed := fs.CrashClone()
		check(t, l.Close())
		path := filepath.Join(testDir, fileName(0, logSuffix))
		for _, disk := range []*vfs.Mem{crashed, fs} {
			check(t, disk.Flip(path, at, bit))
		}
		if _, _, err := Open(crashed, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: recovery: %v", bit, err)
		}
		findings, err := Verify(fs, testDir)
		if err != nil || len(findings) == 0 || findings[0].Kind != KindDamage {
			t.Errorf("bit %d: verify: %v, %v", bit, findings, err)
		}
		l, _ = mustOpen(t, fs, testConfig())
		if s, err := l.View().Read(5, 1, l.End()); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: read: %d bytes, %v", bit, s.Len(), err)
		}
		if s, err := l.View().Read(0, 1, l.End()); err != nil || s.Len() == 0 {
			t.Errorf("bit %d: read before it: %v", bit, err)
		} else {
			s.Release()
		}
		if _, _, _, err := l.View().OffsetForTimestamp(context.Background(), 1005, l.End(), nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: search by timestamp: %v", bit, err)
		}
		check(t, l.Close())
	}
}

// A leader epoch that has risen passes for a newer one only where the history, which log.meta names, may not know it yet: above the recovery point.
func TestCase3_ALeaderEpochThatHasRisenIsFoundBelowTheRecoveryPoint(t *testing.T) {
	for more := range 3 { // batches that are flushed after the recovery point was noted
		fs := newTestFS(t)
		l, _ := mustOpen(t, fs, testConfig())
		before := add(t, l, 2, 2, 100, 3)
		check(t, l.Flush())
		check(t, l.Checkpoint())
		add(t, l, more, 2, 100, 3)
		check(t, l.Flush())
		disk := fs.CrashClone()
		l.Abandon()
		check(t, disk.Flip(filepath.Join(testDir, fileName(0, logSuffix)), int64(len(before[0]))+13, 0x10))
		findings, err := Verify(disk, testDir)
		if err != nil || len(findings) == 0 || findings[0].Kind != KindDamage {
			t.Errorf("%d more: verify: %v, %v", more, findings, err)
		}
		if l, _, err := Open(disk, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d more: opened with %v, of epochs %v", more, err, l.Epochs())
		}
	}
}

// A log whose log.meta was lost once is read whole at that start, which shows that no offset is missing in it. From then on one that is has rotted, as before.
func TestCase17_ALostLogMetaLeavesTheOffsetsExact(t *testing.T) {
	for name, lose := range map[string]func(b []byte) []byte{
		"torn": func(b []byte) []byte { return b[:len(b)/2] }, "empty": func([]byte) []byte { return nil }, "rotten": func(b []byte) []byte { b[3] ^= 1; return b },
	} {
		for _, clean := range []bool{true, false} {
			fs := newTestFS(t)
			l, _ := mustOpen(t, fs, testConfig())
			add(t, l, 12, 2, 400, 3)
			check(t, l.Flush())
			l.Abandon()
			check(t, editFile(fs, filepath.Join(testDir, metaName), lose))
			l, _ = mustOpen(t, fs, testConfig())
			end, base, size := l.End(), l.active.base, l.active.size
			batches := add(t, l, 1, 2, 100, 3)
			check(t, l.Flush())
			if clean {
				check(t, l.Close())
			} else {
				l.Abandon()
			}
			if int64(len(batches[0])) >= size {
				t.Fatalf("the newest segment had %d bytes", size)
			}
			check(t, fs.Flip(filepath.Join(testDir, fileName(base, logSuffix)), size+5, 1))
			l, report, err := Open(fs, testDir, testID, testConfig())
			switch {
			case errors.Is(err, ErrDamaged):
				continue
			case err != nil:
				t.Fatal(err)
			case clean: // nothing was read
				if s, err := l.View().Read(end, 1, l.End()); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: read %d bytes, %v", name, s.Len(), err)
				}
			case l.End() > end || !report.Doubtful:
				t.Errorf("%s: the log ends at %d, not at %d, %+v", name, l.End(), end, report)
			}
			check(t, l.Close())
		}
	}
}

// Whoever is told of damage looks for it again: it has to be where the error says, wherever the read began.
func TestCase3_DamageIsWhereTheErrorSays(t *testing.T) {
	for which := range 8 {
		fs := newTestFS(t)
		l, _ := mustOpen(t, fs, testConfig())
		at := int64(120)
		for i, b := range add(t, l, 8, 2, 100, 3) {
			if i < which {
				at += int64(len(b))
			}
		}
		check(t, l.Close())
		check(t, fs.Flip(filepath.Join(testDir, fileName(0, logSuffix)), at, 1))
		l, _ = mustOpen(t, fs, testConfig())
		for from := range l.End() {
			s, err := l.View().Read(from, 1<<20, l.End())
			var d *DamageError
			switch {
			case err == nil:
				s.Release()
			case !errors.As(err, &d) || !l.View().IsDamaged(d.Offset):
				t.Errorf("batch %d, read from %d: %v", which, from, err)
			}
		}
		check(t, l.Close())
	}
}

// A batch of an older epoch behind one of a newer is damage also where nothing but the batches is left.
func TestLeaderEpochsNeverFallAlongALog(t *testing.T) {
	c := chain{end: 100, epoch: record.NoEpoch}
	for _, step := range []struct {
		base  record.Offset
		epoch record.LeaderEpoch
		fits  bool
	}{{0, 2, true}, {1, 2, true}, {2, 5, true}, {3, 4, false}, {3, 5, true}} {
		if why := c.refuse(step.base, step.base+1, step.epoch); (why == "") != step.fits {
			t.Fatalf("offset %d of epoch %d: %q", step.base, step.epoch, why)
		}
		if step.fits {
			c.note(step.base+1, step.epoch)
		}
	}
}

// Where recovery cuts the end off, the producer snapshots behind it go too, before the log grows again: they tell of batches that it does not hold, and would pass for the
// state of those that take their place. They stay away when power fails at once.
func TestCase5_SnapshotsBehindTheCutAreDropped(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		fs := newTestFS(t)
		l, _ := mustOpen(t, fs, testConfig())
		add(t, l, 2, 2, 100, 1)
		check(t, l.Flush())
		add(t, l, 1, 2, 100, 1) // log.meta does not know of it
		check(t, l.Flush())
		check(t, l.WriteProducerSnapshot(4, []byte("below")))
		check(t, l.WriteProducerSnapshot(6, []byte("behind")))
		last := l.Size() / 3 * 2
		disk := fs.CrashClone()
		l.Abandon()
		check(t, disk.Flip(filepath.Join(testDir, fileName(0, logSuffix)), last+120, 0x10))
		l, report := mustOpen(t, disk, testConfig())
		if l.End() != 4 || !report.Doubtful {
			t.Fatalf("the log ends at %d, %+v", l.End(), report)
		}
		if crashes {
			l.Abandon()
			disk = disk.CrashClone()
			l, _ = mustOpen(t, disk, testConfig())
		}
		add(t, l, 2, 2, 100, 2)
		if at, state, ok := l.ProducerSnapshots(); !ok || at != 4 || string(state) != "below" {
			t.Errorf("crash %v: the newest snapshot is at %d: %q, %v", crashes, at, state, ok)
		}
		check(t, l.Close())
	}
}
