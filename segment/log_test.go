package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

func TestAppendAndReadBack(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": newTestFS(t), "os": vfs.OS{}} {
		t.Run(name, func(t *testing.T) {
			dir := testDir
			if name == "os" {
				dir = t.TempDir() + "/p"
			}
			l, report, err := Open(fs, dir, testID, testConfig())
			check(t, err)
			if l.Start() != 0 || l.End() != 0 || report.Truncated != 0 {
				t.Fatalf("a new log is [%d, %d), %+v", l.Start(), l.End(), report)
			}
			batches := add(t, l, 40, 3, 100, 1)
			if len(l.sealed) < 2 {
				t.Fatalf("%d bytes in %d segments", l.Size(), len(l.sealed)+1)
			}
			wantLog(t, l, batches)
			if l.Flushed() != 0 {
				t.Fatalf("flushed %d before a flush", l.Flushed())
			}
			check(t, l.Flush())
			if l.Flushed() != 120 || l.DirtyFiles() != 0 {
				t.Fatalf("flushed %d, %d dirty files", l.Flushed(), l.DirtyFiles())
			}
			check(t, l.Close())

			l, report, err = Open(fs, dir, testID, testConfig())
			check(t, err)
			if !report.Clean || report.RecoveredBatches != 0 || l.Flushed() != 120 {
				t.Fatalf("clean stop: %+v, flushed %d", report, l.Flushed())
			}
			wantLog(t, l, batches)
			batches = append(batches, add(t, l, 40, 3, 100, 2)...)
			wantLog(t, l, batches)
			if got := l.Epochs(); len(got) != 2 || got[1] != (record.EpochStart{Epoch: 2, Start: 120}) {
				t.Fatalf("epochs %v", got)
			}
			l.Abandon()

			l, report, err = Open(fs, dir, testID, testConfig())
			check(t, err)
			if report.Clean || report.RecoveredBatches == 0 || l.Flushed() != 240 {
				t.Fatalf("unclean stop: %+v, flushed %d", report, l.Flushed())
			}
			wantLog(t, l, batches)
			check(t, l.Remove())
			if _, err := fs.Stat(dir); !isNotExist(err) {
				t.Fatalf("removed log is there: %v", err)
			}
		})
	}
}

func TestReadStaysBelowItsLimits(t *testing.T) {
	l, _ := mustOpen(t, newTestFS(t), DefaultConfig())
	batches := add(t, l, 10, 2, 50, 0)
	size := len(batches[0])
	for _, c := range []struct {
		from  record.Offset
		max   int
		limit record.Offset
		want  []byte
	}{
		{0, 1 << 20, 20, bytes.Join(batches, nil)},
		{3, 1 << 20, 20, bytes.Join(batches[1:], nil)}, // the batch that holds it, from its beginning
		{0, 2*size + 1, 20, bytes.Join(batches[:2], nil)},
		{0, 1, 20, batches[0]}, // one batch even when it is too large
		{0, 1 << 20, 6, bytes.Join(batches[:3], nil)},
		{0, 1 << 20, 5, bytes.Join(batches[:2], nil)}, // no batch that reaches over the limit
		{0, 1 << 20, 1, nil},
		{4, 1 << 20, 4, nil},
		{20, 1 << 20, 20, nil},
		{20, 1 << 20, 99, nil},
	} {
		s, err := l.View().Read(c.from, c.max, c.limit)
		check(t, err)
		got, err := s.AppendTo(nil)
		check(t, err)
		if !bytes.Equal(got, c.want) || s.Len() != len(c.want) {
			t.Errorf("from %d, max %d, limit %d: got %d bytes, want %d", c.from, c.max, c.limit, len(got), len(c.want))
		}
		s.Release()
	}
	var out *OffsetError
	if _, err := l.View().Read(21, 1, 21); !errors.As(err, &out) || out.End != 20 || !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("read past the end: %v", err)
	}
}

func TestTruncateThenAppendElsewhere(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	batches := add(t, l, 40, 3, 100, 1)
	check(t, l.Flush())
	check(t, l.TruncateTo(62)) // inside the batch [60, 63)
	if l.End() != 60 || l.Flushed() != 60 || l.Generation() != 1 {
		t.Fatalf("end %d, flushed %d, generation %d", l.End(), l.Flushed(), l.Generation())
	}
	batches = batches[:20]
	wantLog(t, l, batches)
	batches = append(batches, add(t, l, 5, 1, 10, 2)...)
	wantLog(t, l, batches)
	l.Abandon()
	l, _ = mustOpen(t, fs, testConfig())
	wantLog(t, l, batches)
	check(t, l.ResetTo(1000))
	if l.Start() != 1000 || l.End() != 1000 {
		t.Fatalf("[%d, %d)", l.Start(), l.End())
	}
	batches = add(t, l, 3, 1, 10, 3)
	wantLog(t, l, batches)
	check(t, l.Close())
	l, report := mustOpen(t, fs, testConfig())
	if !report.Clean || l.Start() != 1000 {
		t.Fatalf("%+v, start %d", report, l.Start())
	}
	wantLog(t, l, batches)
}
