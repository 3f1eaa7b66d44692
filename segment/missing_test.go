package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// A segment file that is not there any more: whichever it is, and whether log.meta is there to tell or not, the log does not open as if its records had never been. A
// log that is open when the file goes away says so, and never goes on with what comes behind.
func TestCase22_AMissingSegmentIsNeverSkipped(t *testing.T) {
	whole, batches := filledLog(t)
	l, _ := mustOpen(t, whole, testConfig())
	var bases []record.Offset
	for _, s := range l.sealed {
		bases = append(bases, s.base)
	}
	bases = append(bases, l.active.base)
	check(t, l.Close())
	if len(bases) < 4 {
		t.Fatalf("%d segments", len(bases))
	}
	for i, base := range bases {
		name := testDir + "/" + fileName(base, logSuffix)
		fsys := whole.CrashClone()
		check(t, fsys.Remove(name))
		if _, _, err := Open(fsys, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
			t.Errorf("without segment %d of %d: %v", base, len(bases), err)
		}
		if i > 0 && i < len(bases)-1 { // only log.meta knows where the log begins and ends
			check(t, fsys.Remove(testDir+"/"+metaName))
			if _, _, err := Open(fsys, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
				t.Errorf("without segment %d and log.meta: %v", base, err)
			}
		}
		if i == len(bases)-1 {
			continue // the active segment's file is held open
		}
		fsys = whole.CrashClone()
		l, _ := mustOpen(t, fsys, testConfig())
		check(t, fsys.Remove(name))
		if s, err := l.View().Read(base, 1<<20, l.End()); err == nil || s.Len() != 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("segment %d has gone away under an open log: read gives %d bytes, %v", base, s.Len(), err)
		}
		next := bases[i+1]
		s, err := l.View().Read(next, 1, l.End())
		check(t, err)
		got, err := s.AppendTo(nil)
		s.Release()
		if want := batches[next/3]; err != nil || !bytes.Equal(got, want) {
			t.Errorf("what lies behind it: %d bytes, %v", len(got), err)
		}
		l.Abandon()
	}
}

// Case 13 and 22 together: the disk is full for log.meta and not for the log when a segment is begun, and later that segment's file is lost. What was flushed in it is missed, so
// it was named before it was written; an append that cannot have that is refused, and good when there is space.
func TestCase22_AMissingSegmentIsNoticedThoughLogMetaCouldNotBeWritten(t *testing.T) {
	mem := newTestFS(t)
	fsys := vfs.NewInjector(mem, nil)
	l, _ := mustOpen(t, fsys, testConfig())
	add(t, l, 1, 1, 4000, 1)
	check(t, l.Flush())

	noMeta := vfs.Rule{Op: vfs.OpWrite, Glob: "*.tmp", Err: syscall.ENOSPC}
	fsys.Add(noMeta)
	next := makeBatch(t, batchSpec{base: l.End(), epoch: 1, count: 1, size: 1000})
	if _, err := l.Append(5000, next); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("an append to a file that log.meta cannot name: %v", err)
	}
	if l.Err() != nil || l.End() != 1 {
		t.Fatalf("end %d, %v", l.End(), l.Err())
	}
	fsys.Heal()
	if _, err := l.Append(5000, next); err != nil {
		t.Fatal(err)
	}
	fsys.Add(noMeta)
	check(t, l.Flush())
	if l.Flushed() != 2 {
		t.Fatalf("flushed %d", l.Flushed())
	}
	disk := mem.CrashClone()
	check(t, disk.Remove(testDir+"/"+fileName(1, logSuffix)))
	check(t, disk.SyncDir(testDir))
	if l, _, err := Open(disk, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
		t.Fatalf("opened without the file of offset 1: %v, end %d", err, l.End())
	}
	if found, err := Verify(disk, testDir); err != nil || !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == KindDamage }) {
		t.Fatalf("verify finds %v, %v", found, err)
	}
}

// A crash anywhere in a recovery that gives up whole segments, which log.meta names, never makes the log look damaged.
func TestRecoveryThatGivesUpSegmentsMayBeInterrupted(t *testing.T) {
	mem := newTestFS(t)
	l, _ := mustOpen(t, mem, testConfig())
	add(t, l, 2, 1, 1500, 1)
	check(t, l.Flush())
	add(t, l, 6, 1, 1500, 1) // over several segments, and nothing of it flushed
	if len(l.sealed) < 2 {
		t.Fatalf("%d sealed segments", len(l.sealed))
	}
	torn := mem.CrashClone() // the names of the files are kept, and nothing of their bytes
	given := 0
	for nth := 1; ; nth++ {
		disk := torn.CrashClone()
		broken := vfs.NewInjector(disk, nil)
		for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpRemove, vfs.OpTruncate} {
			broken.Add(vfs.Rule{Op: op, Nth: nth, Count: 1, Err: syscall.EIO})
		}
		l, _, err := Open(broken, testDir, testID, testConfig())
		if err == nil {
			l.Abandon()
		}
		for seed := range uint64(8) {
			again := disk.Crash(rand.New(rand.NewPCG(seed, uint64(nth))))
			l, _, err := Open(again, testDir, testID, testConfig())
			if err != nil {
				t.Fatalf("after %d operations of each kind, seed %d: %v", nth, seed, err)
			}
			if l.End() < 2 {
				t.Fatalf("after %d operations of each kind, seed %d: end %d", nth, seed, l.End())
			}
			l.Abandon()
		}
		if err == nil {
			break
		}
		given++
	}
	if given < 3 {
		t.Fatalf("the recovery was interrupted at %d places", given)
	}
}

// The same recovery on a disk that is too full for log.meta: it gives the segments up all the same, at every start anew, and once there is space nothing of them stays that could come to
// lie inside the log.
func TestRecoveryThatGivesUpSegmentsOnAFullDisk(t *testing.T) {
	mem := newTestFS(t)
	l, _ := mustOpen(t, mem, testConfig())
	add(t, l, 2, 1, 1500, 1)
	check(t, l.Flush())
	add(t, l, 6, 1, 1500, 1)
	disk := mem.CrashClone()
	before, err := disk.ReadDir(testDir)
	check(t, err)
	fsys := vfs.NewInjector(disk, nil)
	fsys.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.tmp", Err: syscall.ENOSPC})
	for range 3 {
		l, _ := mustOpen(t, fsys, testConfig())
		if l.End() != 2 {
			t.Fatalf("end %d", l.End())
		}
		l.Abandon()
	}
	l, _ = mustOpen(t, fsys, testConfig())
	fsys.Heal()
	for range 5 {
		add(t, l, 3, 1, 1500, 2)
		check(t, l.Flush())
	}
	end := l.End()
	l.Abandon()
	l, report := mustOpen(t, disk.CrashClone(), testConfig())
	if l.End() != end || report.Truncated != 0 {
		t.Fatalf("end %d, want %d; %d bytes cut", l.End(), end, report.Truncated)
	}
	if n := len(before); n < 5 {
		t.Fatalf("%d files before: nothing was given up", n)
	}
}
