package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// The hard cases of the log that are not told better by a scenario (1, 5, 9, 12, 22, 144) or by the model; 13, 17 and 18 are in beside_test.go.

// filledLog is a log of several segments with records of a known time, closed in order.
func filledLog(t *testing.T) (*vfs.Mem, [][]byte) {
	t.Helper()
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, testConfig())
	batches := add(t, l, 60, 3, 100, 1)
	check(t, l.Close())
	return fs, batches
}

// times answers a question about every timestamp that the log has.
func times(t *testing.T, l *Log) string {
	t.Helper()
	var b bytes.Buffer
	for ts := int64(990); ts < 1190; ts++ {
		at, got, found, err := l.View().OffsetForTimestamp(context.Background(), ts, l.End(), nil)
		check(t, err)
		fmt.Fprintln(&b, ts, at, got, found)
	}
	return b.String()
}

// endsAfter is a context that has ended when it is looked at for the n-th time.
type endsAfter struct {
	context.Context
	n int
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// A search ends with the request that it is for, also in the middle of a segment (case 108).
func TestCase108_ASearchEndsWithItsContext(t *testing.T) {
	fs, _ := filledLog(t)
	l, _ := mustOpen(t, fs, testConfig())
	defer l.Close()
	v := l.View()
	first := v.at(v.find(v.start))
	for name, search := range map[string]func(ctx context.Context) error{
		"a timestamp": func(ctx context.Context) error {
			_, _, _, err := v.OffsetForTimestamp(ctx, first.newest.timestamp, l.End(), nil)
			return err
		},
		"the largest of a part of a segment": func(ctx context.Context) error {
			_, _, _, err := v.MaxTimestamp(ctx, first.end-1, nil)
			return err
		},
	} {
		all := &endsAfter{t.Context(), 1 << 20}
		check(t, search(all))
		looked := 1<<20 - all.n
		if looked < 2 {
			t.Fatalf("%s: looked %d times whether anybody waits", name, looked)
		}
		for n := range looked {
			if err := search(&endsAfter{t.Context(), n}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: with %d of %d looks: %v", name, n, looked, err)
			}
		}
	}
}

func TestCase6And8_LostOrBadIndexesChangeNoAnswer(t *testing.T) {
	fs, batches := filledLog(t)
	l, _ := mustOpen(t, fs, testConfig())
	want := times(t, l)
	check(t, l.Close())
	for name, damage := range map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"zeroed":  func(b []byte) []byte { clear(b); return b },
		"garbage": func(b []byte) []byte { return bytes.Repeat([]byte{0x5a, 1}, len(b)) },
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"plausible": func(b []byte) []byte { // rising, within the segment, and wrong
			for i := 7; i < len(b); i += 8 {
				b[i] ^= 3
			}
			return b
		},
		"missing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			fs := fs.CrashClone() // all of it was synced or can be rebuilt
			names, err := fs.ReadDir(testDir)
			check(t, err)
			for _, name := range names {
				_, offsets := parseName(name, indexSuffix)
				_, stamps := parseName(name, timeSuffix)
				if !offsets && !stamps {
					continue
				}
				if damage == nil {
					check(t, fs.Remove(testDir+"/"+name))
					continue
				}
				check(t, editFile(fs, testDir+"/"+name, damage))
			}
			for range 2 {
				l, report := mustOpen(t, fs, testConfig())
				if !report.Clean {
					t.Fatalf("%+v", report)
				}
				wantLog(t, l, batches)
				if got := times(t, l); got != want {
					t.Fatal("lookups by timestamp have other answers")
				}
				add(t, l, 1, 1, 1, 1)
				check(t, l.TruncateTo(180))
				check(t, l.Close())
			}
		})
	}
}

// The indexes of the newest segment are loaded into memory when a log that was closed in order is opened, so a bit that flipped in them keeps its order more often than not.
func TestCase6And8_AFlippedBitInTheNewestIndexesChangesNoAnswer(t *testing.T) {
	for _, suffix := range []string{indexSuffix, timeSuffix} {
		fs := newTestFS(t)
		cfg := testConfig()
		cfg.SegmentBytes = 1 << 20
		l, _ := mustOpen(t, fs, cfg)
		batches := add(t, l, 12, 3, 100, 1)
		want := times(t, l)
		check(t, l.Close())
		path := testDir + "/" + fileName(0, suffix)
		content, err := vfs.ReadFile(fs, path, 1<<20)
		check(t, err)
		for bit := range 8 * len(content) {
			check(t, editFile(fs, path, func([]byte) []byte {
				b := slices.Clone(content)
				b[bit/8] ^= 1 << (bit % 8)
				return b
			}))
			l, report := mustOpen(t, fs, cfg)
			if !report.Clean {
				t.Fatalf("%+v", report)
			}
			wantLog(t, l, batches)
			if got := times(t, l); got != want {
				t.Fatalf("%s, bit %d: lookups by timestamp have other answers", suffix, bit)
			}
			check(t, l.Close())
		}
	}
}

func TestCase20_OffsetsTooFarApartForOneSegmentRoll(t *testing.T) {
	fs := newTestFS(t)
	l, _ := mustOpen(t, fs, DefaultConfig())
	var batches [][]byte
	for _, base := range []record.Offset{0, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt32 + 1, 5 << 40} {
		b := makeBatch(t, batchSpec{base: base, size: 10})
		_, err := l.AppendReplicated(5000, b)
		check(t, err)
		batches = append(batches, b)
	}
	if got := len(l.sealed) + 1; got != 3 {
		t.Fatalf("%d segments", got)
	}
	if got := l.active.base; got != 5<<40 {
		t.Fatalf("the last segment begins at %d", got)
	}
	for range 2 {
		if got := readAll(t, l.View(), l.End(), 1<<20); !bytes.Equal(got, bytes.Join(batches, nil)) {
			t.Fatal("other bytes")
		}
		s, err := l.View().Read(1<<33, 1<<20, l.End()) // in the gap: what follows it
		check(t, err)
		if s.Len() != len(batches[4]) {
			t.Fatalf("%d bytes behind the gap", s.Len())
		}
		s.Release()
		check(t, l.Flush())
		l.Abandon()
		l, _ = mustOpen(t, fs.CrashClone(), DefaultConfig())
	}
	// One append may span a gap too.
	both := append(makeBatch(t, batchSpec{base: 6 << 40}), makeBatch(t, batchSpec{base: 7 << 40})...)
	a, err := l.AppendReplicated(5000, both)
	check(t, err)
	if a.EndOffset != 7<<40+1 || a.Bytes != len(both) {
		t.Fatalf("%+v", a)
	}
}

func TestCase21_PositionsNeverWrap(t *testing.T) {
	for _, size := range []int64{0, 1023, MaxSegmentBytes + 1, 4 << 30} {
		cfg := DefaultConfig()
		cfg.SegmentBytes = size
		if _, _, err := Open(newTestFS(t), testDir, testID, cfg); err == nil {
			t.Errorf("segment bytes %d are accepted", size)
		}
	}
	cfg := DefaultConfig()
	cfg.SegmentBytes = MaxSegmentBytes
	check(t, cfg.Validate())
	l, _ := mustOpen(t, newTestFS(t), cfg)
	add(t, l, 1, 1, 100, 0)
	// As if the segment were nearly full: what does not fit goes to the next one, whatever it is that overflows.
	l.active.size = MaxSegmentBytes - 50
	check(t, l.rollFor(5000, 1, 2, 51))
	if l.active.base != 1 || len(l.sealed) != 1 {
		t.Fatal("the segment grew past what a position can express")
	}
}

func TestCase24_ASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir() + "/data"
	held, err := LockDir(vfs.OS{}, dir)
	check(t, err)
	if _, err := LockDir(vfs.OS{}, dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	check(t, held.Close())
	held, err = LockDir(vfs.OS{}, dir)
	check(t, err)
	check(t, held.Close())
}

func TestCase44_AnotherPartitionsDirectoryIsRefused(t *testing.T) {
	fs, _ := filledLog(t)
	for name, id := range map[string]Identity{
		"cluster":   {TopicID: testID.TopicID, Topic: "t", Partition: 7, ClusterID: "other"},
		"topic":     {TopicID: testID.TopicID, Topic: "u", Partition: 7, ClusterID: "c"},
		"topic id":  {Topic: "t", Partition: 7, ClusterID: "c"},
		"partition": {TopicID: testID.TopicID, Topic: "t", Partition: 8, ClusterID: "c"},
	} {
		if _, _, err := Open(fs, testDir, id, testConfig()); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, editFile(fs, testDir+"/"+identityName, func([]byte) []byte { return []byte(`{"version": 99}`) }))
	if _, _, err := Open(fs, testDir, testID, testConfig()); !errors.Is(err, ErrIdentity) {
		t.Errorf("unknown format version: %v", err)
	}
	check(t, fs.Remove(testDir+"/"+identityName))
	if _, _, err := Open(fs, testDir, testID, testConfig()); !errors.Is(err, ErrIdentity) {
		t.Errorf("segments without identity: %v", err)
	}
}

// A flipped bit in a sealed segment, found at the first read after a clean start and never served; the rest stays readable (case 3, the
// part of the log).
func TestCase3_DamagedRangeIsNotServed(t *testing.T) {
	fs, batches := filledLog(t)
	first := fileName(0, logSuffix)
	at := len(batches[0]) + len(batches[1]) + 150
	check(t, editFile(fs, testDir+"/"+first, func(b []byte) []byte { b[at] ^= 1; return b }))
	l, report := mustOpen(t, fs, testConfig())
	if !report.Clean {
		t.Fatalf("%+v", report)
	}
	var bad *DamageError
	if _, err := l.View().Read(6, 1, l.End()); !errors.As(err, &bad) || !errors.Is(err, ErrDamaged) || bad.Offset != 6 {
		t.Fatalf("read of the damaged batch: %v", err)
	}
	s, err := l.View().Read(l.sealed[1].base, 1<<20, l.End())
	check(t, err)
	s.Release()
	findings, err := Verify(fs, testDir)
	check(t, err)
	if len(findings) != 1 || findings[0].Kind != KindDamage || findings[0].File != first || findings[0].Offset != 6 {
		t.Fatalf("%v", findings)
	}
}

// The base offset lies outside the CRC. A flipped bit in it is found all the same, because the log has no gaps, whichever batch it hits
// and however the log was stopped (invariant I10).
func TestFlippedBaseOffsetIsDamage(t *testing.T) {
	clean, batches := filledLog(t)
	l, _ := mustOpen(t, clean, testConfig())
	check(t, l.Checkpoint())
	l.Abandon()
	unclean := clean.CrashClone()
	l, _ = mustOpen(t, clean, testConfig())
	check(t, l.Close())
	perFile := int(l.sealed[0].size) / len(batches[0])
	for bit := range 64 {
		for _, n := range []int{0, 1, perFile - 1} {
			at := n*len(batches[0]) + bit/8
			for name, fs := range map[string]*vfs.Mem{"clean": clean.CrashClone(), "unclean": unclean.CrashClone()} {
				check(t, editFile(fs, testDir+"/"+fileName(0, logSuffix), func(b []byte) []byte { b[at] ^= 1 << (bit % 8); return b }))
				l, _ := mustOpen(t, fs, testConfig())
				if s, err := l.View().Read(record.Offset(n*3), 1<<20, l.End()); !errors.Is(err, ErrDamaged) {
					t.Fatalf("%s, batch %d, bit %d: read gives %d bytes, %v", name, n, bit, s.Len(), err)
				}
				l.Abandon()
			}
		}
	}
	// In the segment that recovery reads, it is found there.
	last := fileName(l.active.base, logSuffix)
	for bit := range 64 {
		fs := unclean.CrashClone()
		check(t, editFile(fs, testDir+"/"+last, func(b []byte) []byte { b[len(batches[0])+bit/8] ^= 1 << (bit % 8); return b }))
		if _, _, err := Open(fs, testDir, testID, testConfig()); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
}

// A bad disk block in an old segment fails that read and no other (case 11, the part of the log).
func TestCase11_ReadErrorStaysWithItsRange(t *testing.T) {
	mem, batches := filledLog(t)
	fs := vfs.NewInjector(mem, nil)
	l, _ := mustOpen(t, fs, testConfig())
	fs.Add(vfs.Rule{Op: vfs.OpRead, Glob: fileName(0, logSuffix), Err: syscall.EIO})
	if _, err := l.View().Read(0, 1, l.End()); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v", err)
	}
	s, err := l.View().Read(l.sealed[1].base, 1, l.End())
	check(t, err)
	s.Release()
	add(t, l, 1, 1, 1, 1)
	fs.Heal()
	check(t, l.TruncateTo(180))
	wantLog(t, l, batches)
}

func TestCase100_RetentionUnderAReader(t *testing.T) {
	for name, dir := range map[string]string{"mem": testDir, "os": t.TempDir() + "/p"} {
		t.Run(name, func(t *testing.T) {
			var fs vfs.FS = newTestFS(t)
			if name == "os" {
				fs = vfs.OS{}
			}
			l, _, err := Open(fs, dir, testID, testConfig())
			check(t, err)
			batches := add(t, l, 60, 3, 100, 1)
			old := l.View()
			held, err := old.Read(0, 1<<20, l.End())
			check(t, err)
			check(t, l.MoveStart(l.End()))
			got, err := held.AppendTo(nil)
			check(t, err)
			if !bytes.HasPrefix(bytes.Join(batches, nil), got) || len(got) == 0 {
				t.Fatalf("%d bytes, not the right ones", len(got))
			}
			held.Release()
			// A file that nobody holds cannot be opened again through an old view.
			if s, err := old.Read(0, 1, old.End()); !errors.Is(err, ErrStaleView) {
				t.Fatalf("old view reads %d bytes, %v", s.Len(), err)
			}
			if _, err := l.View().Read(0, 1, l.End()); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatalf("new view: %v", err)
			}
			check(t, l.Close())
		})
	}
}

// Truncation under a response that is being sent: the right bytes or a short read, never the bytes that were written later.
func TestCase150_TruncationUnderASlice(t *testing.T) {
	for _, to := range []record.Offset{0, 3, 30} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			l, _, err := Open(vfs.OS{}, t.TempDir()+"/p", testID, DefaultConfig())
			check(t, err)
			batches := add(t, l, 20, 3, 100, 1)
			old := l.View()
			held, err := old.Read(0, 1<<20, l.End())
			check(t, err)
			early, err := old.Read(0, 1, l.End())
			check(t, err)
			check(t, l.TruncateTo(to))
			add(t, l, 20, 3, 100, 2)
			check(t, l.Flush())

			got, err := early.AppendTo(nil)
			if err != nil || !bytes.Equal(got, batches[0]) {
				t.Fatalf("a batch that an open file still has: %d bytes, %v", len(got), err)
			}
			f, position, ok := held.File()
			if !ok {
				t.Fatal("no descriptor")
			}
			onDisk := make([]byte, held.Len())
			n, _ := f.ReadAt(onDisk, position)
			if !bytes.HasPrefix(bytes.Join(batches, nil), onDisk[:n]) {
				t.Fatal("the descriptor shows bytes that were written after the truncation")
			}
			if to == 30 && n != 10*len(batches[0]) {
				t.Fatalf("%d bytes left of a file that was cut", n)
			}
			if whole, err := held.AppendTo(nil); err == nil && !bytes.Equal(whole, bytes.Join(batches, nil)) || err != nil && !errors.Is(err, ErrStaleView) {
				t.Fatalf("%d bytes, %v", len(whole), err)
			}
			early.Release()
			held.Release()
			check(t, l.Close())
		})
	}
}

func TestCase98_NoTimestampPinsOrWipesASegment(t *testing.T) {
	const day = 24 * 3600 * 1000
	now := int64(20000 * day)
	for name, ts := range map[string]int64{"nanoseconds": now * 1e6, "seconds": now / 1000, "none": -1} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.RetentionAge = msDuration(7 * day)
			l, _ := mustOpen(t, newTestFS(t), cfg)
			for range 2 {
				_, err := l.Append(now, makeBatch(t, batchSpec{base: l.End(), size: 4000, ts: ts}))
				check(t, err)
			}
			if n, _, err := l.Retain(now+6*day, l.End()); n != 0 || err != nil {
				t.Fatalf("wiped %d segments, %v", n, err)
			}
			if n, _, err := l.Retain(now+8*day, l.End()); n != 2 || err != nil {
				t.Fatalf("pinned: deleted %d, %v", n, err)
			}
		})
	}
}

// The descriptors and the memory of a log that does nothing.
func TestIdleLogIsSmall(t *testing.T) {
	dir := t.TempDir()
	l, _, err := Open(vfs.OS{}, dir+"/p", testID, DefaultConfig())
	check(t, err)
	add(t, l, 1, 1, 1, 0)
	check(t, l.Close())
	before := openFiles(t)
	for range 10 {
		l, _, err := Open(vfs.OS{}, dir+"/p", testID, DefaultConfig())
		check(t, err)
		t.Cleanup(l.Abandon)
	}
	if n := openFiles(t) - before; n > 10 {
		t.Fatalf("10 idle logs hold %d descriptors", n)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	check(t, err)
	return len(names)
}
