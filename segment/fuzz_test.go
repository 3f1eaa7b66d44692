package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// FuzzRecovery opens a log whose files were altered by hand. Whatever they hold, Open ends without a panic, with damage reported or with
// a log whose every batch is valid, that goes on, and that opens again as it was.
//
// which picks the file: 0 the first segment, 1 the last, 2 log.meta, 3 leader-epoch-checkpoint, 4 an index, 5 a time index, 6 a segment
// file that should not be there. A cut of at most size is made at at, and insert is put there.
func FuzzRecovery(f *testing.F) {
	f.Add(uint8(0), uint16(100), uint16(0), []byte(nil))
	f.Add(uint8(1), uint16(300), uint16(5000), []byte(nil))
	f.Add(uint8(1), uint16(60000), uint16(0), []byte{0, 0, 0})
	f.Add(uint8(1), uint16(400), uint16(1), []byte{9})
	f.Add(uint8(2), uint16(0), uint16(5000), []byte("moldau-log-meta 1\n"))
	f.Add(uint8(3), uint16(4), uint16(1), []byte("77"))
	f.Add(uint8(4), uint16(8), uint16(8), []byte{0, 0, 0, 1, 0, 0, 0, 1})
	f.Add(uint8(5), uint16(3), uint16(12), []byte{1})
	f.Add(uint8(6), uint16(0), uint16(0), bytes.Repeat([]byte{0}, 600))
	clean, crashed := fuzzLogs(f)
	f.Fuzz(func(t *testing.T, which uint8, at, size uint16, insert []byte) {
		for _, base := range []*vfs.Mem{clean, crashed} {
			fs := base.CrashClone()
			damageFile(t, fs, which, int(at), int(size), insert)
			openAltered(t, fs)
			if _, err := Verify(fs, testDir); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			check(t, Dump(&out, fs, testDir, DumpOptions{Records: true}))
		}
	})
}

// fuzzLogs are one log that was closed and one that lost power.
func fuzzLogs(f *testing.F) (clean, crashed *vfs.Mem) {
	f.Helper()
	clean, crashed = newTestFS(f), newTestFS(f)
	for _, fs := range []*vfs.Mem{clean, crashed} {
		l, _ := mustOpen(f, fs, testConfig())
		add(f, l, 30, 3, 100, 1)
		check(f, l.Flush())
		add(f, l, 2, 3, 100, 2)
		if fs == clean {
			check(f, l.Close())
		} else {
			for _, s := range append(l.sealed, l.active) {
				check(f, syncFile(fs, s.file.path))
			}
		}
	}
	check(f, clean.SyncDir(testDir))
	return clean, crashed
}

func syncFile(fs vfs.FS, path string) error {
	h, err := fs.OpenFile(path, vfs.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(h.Sync(), h.Close())
}

func damageFile(t *testing.T, fs *vfs.Mem, which uint8, at, size int, insert []byte) {
	t.Helper()
	bases, err := listSegments(fs, testDir)
	check(t, err)
	last := bases[len(bases)-1]
	name := []string{
		fileName(bases[0], logSuffix), fileName(last, logSuffix), metaName, epochsName,
		fileName(bases[0], indexSuffix), fileName(last, timeSuffix), fileName(last+7, logSuffix),
	}[which%7]
	check(t, editFile(fs, testDir+"/"+name, func(b []byte) []byte {
		at := min(at, len(b))
		end := min(at+size, len(b))
		return append(append(append([]byte(nil), b[:at]...), insert...), b[end:]...)
	}))
}

func openAltered(t *testing.T, fs *vfs.Mem) {
	t.Helper()
	l, report, err := Open(fs, testDir, testID, testConfig())
	if err != nil {
		if errors.Is(err, ErrDamaged) != (report.Damaged != nil) || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrIdentity) {
			t.Fatalf("%v, report %+v", err, report)
		}
		return
	}
	held, err := readValid(t, l)
	if errors.Is(err, ErrDamaged) {
		return // found at the first read after a clean start
	}
	check(t, err)
	_, err = l.Append(5000, makeBatch(t, batchSpec{base: l.End(), epoch: 50, size: 20}))
	check(t, err)
	check(t, l.Flush())
	end := l.End()
	l.Abandon()
	l, _ = mustOpen(t, fs.CrashClone(), testConfig())
	again, err := readValid(t, l)
	check(t, err)
	if l.End() != end || !bytes.HasPrefix(again, held) {
		t.Fatalf("end %d after %d, or other bytes", l.End(), end)
	}
}

// readValid reads the whole log and checks each batch.
func readValid(t *testing.T, l *Log) ([]byte, error) {
	t.Helper()
	var out []byte
	v := l.View()
	for at := v.Start(); at < v.End(); {
		s, err := v.Read(at, 1000, v.End())
		if err != nil {
			return nil, err
		}
		if s.Len() == 0 {
			t.Fatalf("nothing at %d of [%d, %d)", at, v.Start(), v.End())
		}
		from := len(out)
		out, err = s.AppendTo(out)
		s.Release()
		check(t, err)
		check(t, record.Split(out[from:], func(b record.Batch) error { at = b.NextOffset(); return b.VerifyCRC() }))
	}
	return out, nil
}
