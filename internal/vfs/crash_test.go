package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
)

func TestCrashCloneKeepsExactlyWhatWasSynced(t *testing.T) {
	m := memWithDir("d")
	a := must[File](t)(m.Create("d/a"))
	must[int](t)(a.Write([]byte("synced")))
	ok(t, a.Sync())
	ok(t, m.SyncDir("d"))
	must[int](t)(a.Write([]byte(" lost")))
	b := must[File](t)(m.Create("d/b"))
	must[int](t)(b.Write([]byte("bytes synced, name not")))
	ok(t, b.Sync())

	after := m.CrashClone()
	if got := content(t, after, "d/a"); got != "synced" {
		t.Fatalf("got %q", got)
	}
	if _, err := after.Stat("d/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a name that was not synced survives: %v", err)
	}
	if got := content(t, m, "d/a"); got != "synced lost" {
		t.Fatalf("the crash changed the running file system: %q", got)
	}
}

func TestCrashUndoesUnsyncedTruncationAndRemoval(t *testing.T) {
	m := memWithDir("d")
	ok(t, WriteFileAtomic(m, "d", "d/a", []byte("0123456789")))
	ok(t, WriteFileAtomic(m, "d", "d/b", []byte("kept")))
	f := must[File](t)(m.OpenFile("d/a", ReadWrite))
	ok(t, f.Truncate(4))
	must[int](t)(f.WriteAt([]byte("XX"), 4))
	ok(t, m.Remove("d/b"))

	after := m.CrashClone()
	if got := content(t, after, "d/a"); got != "0123456789" {
		t.Fatalf("got %q", got)
	}
	if got := content(t, after, "d/b"); got != "kept" {
		t.Fatalf("got %q", got)
	}
	ok(t, f.Sync())
	if got := content(t, m.CrashClone(), "d/a"); got != "0123XX" {
		t.Fatalf("got %q", got)
	}
}

// A rename is one change: a crash finds the old name or the new one, and the target is never gone.
func TestCrashNeverSplitsARename(t *testing.T) {
	for seed := range uint64(200) {
		m := memWithDir("d")
		ok(t, WriteFileAtomic(m, "d", "d/f", []byte("old")))
		f := must[File](t)(m.Create("d/f.tmp"))
		must[int](t)(f.Write([]byte("new")))
		ok(t, f.Sync())
		ok(t, m.Rename("d/f.tmp", "d/f"))
		got := content(t, m.Crash(rand.New(rand.NewPCG(seed, 1))), "d/f")
		if got != "old" && got != "new" {
			t.Fatalf("seed %d: got %q", seed, got)
		}
	}
}

// Whatever chance decides, synced bytes stay, and each later sector holds the write or nothing.
func TestCrashTearsAtSectors(t *testing.T) {
	const synced, total = 700, 6000
	torn := 0
	for seed := range uint64(100) {
		m := memWithDir("d")
		f := must[File](t)(m.Create("d/f"))
		ok(t, m.SyncDir("d"))
		must[int](t)(f.Write(bytes.Repeat([]byte{1}, synced)))
		ok(t, f.Sync())
		must[int](t)(f.Write(bytes.Repeat([]byte{2}, total-synced)))
		got := content(t, m.Crash(rand.New(rand.NewPCG(seed, 2))), "d/f")
		if len(got) < synced || len(got) > total || got[:synced] != strings.Repeat("\x01", synced) {
			t.Fatalf("seed %d: synced bytes are lost, %d bytes left", seed, len(got))
		}
		for at := synced; at < len(got); at++ {
			first := max(at/sector*sector, synced)
			if got[at] != got[first] || got[at] != 0 && got[at] != 2 {
				t.Fatalf("seed %d: byte %d is %d in a sector that starts with %d", seed, at, got[at], got[first])
			}
		}
		if strings.Contains(got, "\x00\x02") {
			torn++
		}
	}
	if torn == 0 {
		t.Fatal("no crash lost an earlier sector and kept a later one")
	}
}

func TestCrashIsDecidedByItsSeed(t *testing.T) {
	build := func() *Mem {
		m := memWithDir("d")
		for i := range 20 {
			f := must[File](t)(m.Create(fmt.Sprintf("d/%d", i)))
			must[int](t)(f.Write(bytes.Repeat([]byte{byte(i)}, 3000)))
		}
		return m
	}
	state := func(m *Mem) string {
		var b strings.Builder
		for _, name := range must[[]string](t)(m.ReadDir("d")) {
			fmt.Fprintf(&b, "%s %x\n", name, content(t, m, "d/"+name))
		}
		return b.String()
	}
	one := state(build().Crash(rand.New(rand.NewPCG(7, 7))))
	two := state(build().Crash(rand.New(rand.NewPCG(7, 7))))
	if one != two {
		t.Fatal("one seed gives two outcomes")
	}
	if one == state(build().Crash(rand.New(rand.NewPCG(8, 7)))) {
		t.Fatal("the seed changes nothing")
	}
}

func TestInjectorFailsByRule(t *testing.T) {
	inj := NewInjector(memWithDir("d"), nil)
	inj.Add(Rule{Op: OpWrite, Glob: "*.log", Nth: 2, Count: 1, Err: syscall.ENOSPC, Short: 3})
	inj.Add(Rule{Op: OpSync, Err: syscall.EIO})
	f := must[File](t)(inj.Create("d/0.log"))
	other := must[File](t)(inj.Create("d/0.index"))
	must[int](t)(f.Write([]byte("first,")))
	must[int](t)(other.Write([]byte("unmatched")))
	if n, err := f.Write([]byte("second,")); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %d, %v", n, err)
	}
	must[int](t)(f.Write([]byte("third")))
	if got := content(t, inj, "d/0.log"); got != "first,secthird" {
		t.Fatalf("got %q", got)
	}
	for range 2 {
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v", err)
		}
	}
	inj.Heal()
	ok(t, f.Sync())
}

func TestInjectorTracesChanges(t *testing.T) {
	var lines []string
	inj := NewInjector(memWithDir("d"), func(line string) { lines = append(lines, line) })
	ok(t, WriteFileAtomic(inj, "d", "d/log.meta", []byte("12345")))
	ok(t, inj.Remove("d/log.meta"))
	want := "# create log.meta.tmp\n# write log.meta.tmp 5\n# sync log.meta.tmp\n# rename log.meta.tmp log.meta\n# syncdir d\n# remove log.meta"
	if got := strings.Join(lines, "\n"); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}
