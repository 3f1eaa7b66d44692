package segment

import (
	"errors"
	"math"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// wipingFS lets a truncation happen in the middle of one read, and gives that read what Linux may give it: the page that the cut goes
// through is zero behind the cut already, and the file is not yet shorter.
type wipingFS struct {
	vfs.FS
	during func() (cutAt int64) // taken by the next read of a log file
}

type wipingFile struct {
	vfs.File
	fs *wipingFS
}

func (w *wipingFS) OpenFile(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := w.FS.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	return wipingFile{f, w}, nil
}

func (f wipingFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	if during := f.fs.during; during != nil {
		f.fs.during = nil
		if cutAt := during(); at < cutAt || cutAt == 0 {
			clear(b[min(max(cutAt-at, 0), int64(n)):n])
		}
	}
	return n, err
}

// A read that a truncation overtakes gives the bytes it promised or ErrStaleView, and never the zeros that the kernel leaves for a moment.
func TestReadsThatATruncationOvertakes(t *testing.T) {
	whole := func(s Slice) ([]byte, error) { return s.AppendTo(nil) }
	streamed := func(s Slice) ([]byte, error) {
		var out sink
		_, err := s.WriteTo(&out)
		return out, err
	}
	for name, read := range map[string]func(Slice) ([]byte, error){"AppendTo": whole, "WriteTo": streamed} {
		t.Run(name, func(t *testing.T) {
			fs := &wipingFS{FS: newTestFS(t)}
			l, _ := mustOpen(t, fs, testConfig())
			batches := add(t, l, 6, 2, 100, 0)
			check(t, l.Flush())
			kept, err := l.View().Read(0, len(batches[0]), l.End())
			check(t, err)
			defer kept.Release()
			all, err := l.View().Read(0, math.MaxInt32, l.End())
			check(t, err)
			defer all.Release()
			stays := record.Offset(6)
			fs.during = func() int64 {
				check(t, l.TruncateTo(stays))
				return 3 * int64(len(batches[0]))
			}
			if b, err := read(all); !errors.Is(err, ErrStaleView) {
				t.Errorf("a range that was cut gave %v and %d bytes: %v", err, len(b), record.Split(b, record.Batch.VerifyCRC))
			}
			if err := all.Intact(); !errors.Is(err, ErrStaleView) {
				t.Errorf("a range that was cut is intact: %v", err)
			}
			if b, err := read(kept); err != nil || string(b) != string(batches[0]) {
				t.Errorf("a range below the cut gave %d bytes, %v", len(b), err)
			}
			check(t, kept.Intact())
			// A second cut, at a lower place, and an older view that finds its way through the file meanwhile.
			v := l.View()
			fs.during = func() int64 {
				check(t, l.TruncateTo(4))
				return 2 * int64(len(batches[0]))
			}
			if s, err := v.Read(4, 1, v.End()); !errors.Is(err, ErrStaleView) {
				t.Errorf("a view that was cut found %d bytes, %v", s.Len(), err)
			}
			check(t, l.Close())
		})
	}
}

type sink []byte

func (s *sink) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}
