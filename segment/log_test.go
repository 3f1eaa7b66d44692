package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/moldau-log/moldau/internal/invariant"
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

func TestSliceWritesWhatItAppends(t *testing.T) {
	l, _ := mustOpen(t, newTestFS(t), DefaultConfig())
	batches := add(t, l, 3, 500, 600, 0) // more than one copy buffer
	s, err := l.View().Read(0, 1<<20, l.End())
	check(t, err)
	var out bytes.Buffer
	n, err := s.WriteTo(&out)
	check(t, err)
	if !bytes.Equal(out.Bytes(), bytes.Join(batches, nil)) || n != int64(s.Len()) {
		t.Fatalf("%d bytes of %d", n, s.Len())
	}
	if _, _, ok := s.File(); ok {
		t.Fatal("a file in memory has a descriptor")
	}
	prefix, err := s.AppendTo([]byte("head"))
	check(t, err)
	if !bytes.Equal(prefix[4:], out.Bytes()) || string(prefix[:4]) != "head" {
		t.Fatal("AppendTo does not append")
	}
	s.Release()
	if n, err := (Slice{}).WriteTo(&out); n != 0 || err != nil {
		t.Fatalf("an empty slice writes %d bytes, %v", n, err)
	}
	(Slice{}).Release()
	defer func() {
		if _, ok := recover().(invariant.Violation); !ok {
			t.Fatal("a second release goes unnoticed")
		}
	}()
	l.Abandon()
	s.Release()
}

func TestAppendRefusesWhatDoesNotContinueTheLog(t *testing.T) {
	cfg := testConfig()
	cfg.MaxBatchBytes = 2000
	l, _ := mustOpen(t, newTestFS(t), cfg)
	add(t, l, 1, 5, 10, 1)
	good := makeBatch(t, batchSpec{base: 5, size: 10})
	flipped := append([]byte(nil), good...)
	flipped[16] = 1
	for name, c := range map[string]struct {
		batches []byte
		want    error
	}{
		"nothing":    {nil, ErrBadBatch},
		"half":       {good[:40], ErrBadBatch},
		"and a half": {append(append([]byte(nil), good...), good[:70]...), ErrBadBatch},
		"magic":      {flipped, ErrBadBatch},
		"too large":  {makeBatch(t, batchSpec{base: 5, size: 2000}), ErrBadBatch},
		"below":      {makeBatch(t, batchSpec{base: 4}), ErrNotContiguous},
		"gap":        {makeBatch(t, batchSpec{base: 6}), ErrNotContiguous},
		"twice":      {append(append([]byte(nil), good...), good...), ErrNotContiguous},
	} {
		if _, err := l.Append(5000, c.batches); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.End() != 5 || l.Err() != nil {
		t.Fatalf("end %d, %v", l.End(), l.Err())
	}
	if _, err := l.AppendReplicated(5000, makeBatch(t, batchSpec{base: 4})); !errors.Is(err, ErrNotContiguous) {
		t.Fatalf("a follower goes back: %v", err)
	}
	_, err := l.AppendReplicated(5000, makeBatch(t, batchSpec{base: 9, size: 3000}))
	check(t, err)
	if l.End() != 10 {
		t.Fatalf("end %d", l.End())
	}
}

func TestConfigValidate(t *testing.T) {
	check(t, DefaultConfig().Validate())
	for name, edit := range map[string]func(*Config){
		"segment age":     func(c *Config) { c.SegmentAge = 0 },
		"index interval":  func(c *Config) { c.IndexIntervalBytes = -1 },
		"batch bytes":     func(c *Config) { c.MaxBatchBytes = 0 },
		"retention bytes": func(c *Config) { c.RetentionBytes = -2 },
		"retention age":   func(c *Config) { c.RetentionAge = -2 },
	} {
		cfg := DefaultConfig()
		edit(&cfg)
		if cfg.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSpansRememberWhatWasRead(t *testing.T) {
	var s spans
	for _, r := range []span{{10, 20}, {30, 40}, {20, 30}, {0, 5}, {100, 110}, {4, 12}} {
		s.add(r.from, r.to)
	}
	if len(s) != 2 || s[0] != (span{0, 40}) || s[1] != (span{100, 110}) {
		t.Fatalf("%v", s)
	}
	if !s.covers(0, 40) || !s.covers(105, 110) || s.covers(39, 41) || s.covers(50, 60) {
		t.Fatal("covers what it does not hold, or the other way round")
	}
	for i := range int64(2 * maxSpans) {
		s.add(1000+10*i, 1005+10*i)
	}
	if len(s) > maxSpans || !s.covers(0, 40) {
		t.Fatalf("%d ranges are kept, the largest %v", len(s), s.covers(0, 40))
	}
}
