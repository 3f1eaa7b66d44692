package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

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
