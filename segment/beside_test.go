package segment

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// What lies beside the batches: indexes, the epoch history, log.meta and producer snapshots. The batches are the truth, so whatever becomes of the rest, no
// flushed record is lost, and every log opens.

// Case 13: the disk is full for one kind of file beside the log, or for all of them, and not for the log itself. Appends are taken or refused as a full disk,
// flushes hold, the power fails, and the log opens on a disk that is still full, with all that was flushed.
func TestCase13_FullDiskBesideTheLog(t *testing.T) {
	for name, globs := range map[string][]string{
		"offset index":      {"*" + indexSuffix},
		"time index":        {"*" + timeSuffix},
		"epoch file":        {epochsName + tmpSuffix},
		"log.meta":          {metaName + tmpSuffix},
		"producer snapshot": {"*" + snapshotSuffix + tmpSuffix},
		"all":               {"*" + indexSuffix, "*" + timeSuffix, "*" + tmpSuffix},
	} {
		for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite} {
			t.Run(name+" "+string(op), func(t *testing.T) { fullBeside(t, globs, op) })
		}
	}
}

// fullBeside fills the disk for some files in the middle of a log's life.
func fullBeside(t *testing.T, globs []string, op vfs.Op) {
	mem, full, hit := newTestFS(t), false, 0
	fsys := vfs.NewInjector(mem, func(line string) {
		words := strings.Fields(line) // "# create name ..."
		match := func(glob string) bool { ok, err := path.Match(glob, words[2]); return ok && err == nil }
		if full && words[1] == string(op) && slices.ContainsFunc(globs, match) {
			hit++
		}
	})
	l, _ := mustOpen(t, fsys, testConfig())
	taken := add(t, l, 5, 3, 100, 1)
	check(t, l.Flush())

	full = true
	for _, glob := range globs {
		fsys.Add(vfs.Rule{Op: op, Glob: glob, Err: syscall.ENOSPC})
	}
	for i := range 40 { // over several rolls and leader epochs
		b := makeBatch(t, batchSpec{base: l.End(), epoch: record.LeaderEpoch(2 + i/10), count: 3, size: 100, ts: 1000 + int64(l.End())})
		end := l.End()
		switch _, err := l.Append(5000, b); {
		case err == nil:
			taken = append(taken, b)
		case !errors.Is(err, ErrNoSpace) || l.End() != end || l.Err() != nil:
			t.Fatalf("append %d: %v; the log ends at %d, %v", i, err, l.End(), l.Err())
		}
		check(t, l.Flush())
	}
	for what, err := range map[string]error{"checkpoint": l.Checkpoint(), "snapshot": l.WriteProducerSnapshot(l.End(), []byte("state"))} {
		if err != nil && !errors.Is(err, syscall.ENOSPC) || l.Err() != nil {
			t.Fatalf("%s: %v, %v", what, err, l.Err())
		}
	}
	if hit == 0 {
		t.Fatal("the disk was never full")
	}
	if l.Flushed() != l.End() || l.End() != record.Offset(3*len(taken)) {
		t.Fatalf("flushed %d, end %d of %d batches", l.Flushed(), l.End(), len(taken))
	}
	wantLog(t, l, taken)
	l.Abandon()

	disk := mem.CrashClone()
	again := vfs.NewInjector(disk, nil)
	for _, glob := range globs {
		again.Add(vfs.Rule{Op: op, Glob: glob, Err: syscall.ENOSPC})
	}
	l, report := mustOpen(t, again, testConfig())
	if report.Truncated != 0 || report.Doubtful {
		t.Fatalf("%+v", report)
	}
	wantLog(t, l, taken)
	l.Abandon()

	again.Heal()
	l, _ = mustOpen(t, again, testConfig())
	taken = append(taken, add(t, l, 20, 3, 100, 9)...)
	check(t, l.Close())
	l, report = mustOpen(t, disk, testConfig())
	if !report.Clean {
		t.Fatalf("after there was space again: %+v", report)
	}
	wantLog(t, l, taken)
}

// Case 17: log.meta, which has the recovery point and the log start, is empty, torn or changed. It counts as absent: everything that the files hold is there, the start
// is where the files begin, and what counts as flushed is never beyond the end. The high watermark is in no file; it begins at the start.
func TestCase17_ATornCheckpointCountsAsAbsent(t *testing.T) {
	for _, clean := range []bool{true, false} {
		whole := newTestFS(t)
		l, _ := mustOpen(t, whole, testConfig())
		batches := add(t, l, 60, 3, 100, 1)
		check(t, l.MoveStart(l.sealed[1].base+1)) // so that a start is lost as well
		first, history := l.sealed[0].base, l.Epochs()
		if clean {
			check(t, l.Close())
		} else {
			check(t, l.Flush())
			l.Abandon()
		}
		meta, err := vfs.ReadFile(whole, testDir+"/"+metaName, 1<<20)
		check(t, err)
		for name, damage := range checkpointDamage(len(meta)) {
			t.Run(fmt.Sprintf("%s, clean stop %v", name, clean), func(t *testing.T) {
				disk := whole.CrashClone()
				check(t, editFile(disk, testDir+"/"+metaName, damage))
				l, report := mustOpen(t, disk, testConfig())
				if report.Clean || report.Truncated != 0 || report.Doubtful {
					t.Fatalf("%+v", report)
				}
				if l.Start() != first || l.Flushed() != l.End() || l.End() != 180 {
					t.Fatalf("the log is [%d, %d), flushed %d; the files begin at %d", l.Start(), l.End(), l.Flushed(), first)
				}
				if got := readAll(t, l.View(), l.End(), 1<<20); !bytes.Equal(got, bytes.Join(batches[first/3:], nil)) {
					t.Fatal("other bytes")
				}
				if got := l.Epochs(); len(got) != 1 || got[0] != (record.EpochStart{Epoch: history[0].Epoch, Start: first}) {
					t.Fatalf("epochs %v", got)
				}
				l.Abandon()
			})
		}
	}
}

// checkpointDamage is what may have become of a file of size bytes: nothing of it, zeros, a part, or a byte that has changed.
func checkpointDamage(size int) map[string]func([]byte) []byte {
	out := map[string]func([]byte) []byte{
		"empty":  func([]byte) []byte { return nil },
		"zeroed": func(b []byte) []byte { clear(b); return b },
		"twice":  func(b []byte) []byte { return append(b, b...) },
	}
	for at := 1; at < size; at += 7 {
		out[fmt.Sprintf("cut at %d", at)] = func(b []byte) []byte { return b[:at] }
		out[fmt.Sprintf("changed at %d", at)] = func(b []byte) []byte { b[at] ^= 4; return b }
	}
	return out
}

// Case 18: the leader-epoch file is lost, garbage, an older one, or says something plausible and wrong. The history is taken from the batches, so what the log says about
// where each epoch ends, which decides truncations, is what it was.
func TestCase18_ALostEpochFileIsRebuilt(t *testing.T) {
	for _, clean := range []bool{true, false} {
		whole := newTestFS(t)
		l, _ := mustOpen(t, whole, testConfig())
		var batches [][]byte
		for epoch := range record.LeaderEpoch(9) { // starts in sealed segments, in the active one, and two epochs that left nothing
			if epoch%4 != 3 {
				batches = append(batches, add(t, l, 7, 3, 100, epoch)...)
			}
		}
		check(t, l.MoveStart(25))
		want := l.Epochs()
		if clean {
			check(t, l.Close())
		} else {
			check(t, l.Flush())
			l.Abandon()
		}
		if len(want) != 6 {
			t.Fatalf("epochs %v", want)
		}
		older := epochHistory(want[:3]).encode()
		wrong := slices.Clone(want)
		wrong[3].Start -= 3
		for name, content := range map[string][]byte{
			"lost": nil, "empty": {}, "garbage": bytes.Repeat([]byte{0x5a}, 40), "older": older, "plausible": epochHistory(wrong).encode(),
		} {
			t.Run(fmt.Sprintf("%s, clean stop %v", name, clean), func(t *testing.T) {
				disk := whole.CrashClone()
				file := testDir + "/" + epochsName
				if content == nil {
					check(t, disk.Remove(file))
				} else {
					check(t, editFile(disk, file, func([]byte) []byte { return content }))
				}
				for range 2 { // it is rebuilt, and on disk again
					l, report := mustOpen(t, disk, testConfig())
					if report.Truncated != 0 || report.Doubtful || !slices.Equal(report.Epochs, want) {
						t.Fatalf("%+v, want epochs %v", report, want)
					}
					if got := readAll(t, l.View(), l.End(), 1<<20); !bytes.Equal(got, bytes.Join(batches[8:], nil)) {
						t.Fatal("other bytes")
					}
					check(t, l.Close())
				}
			})
		}
	}
}
