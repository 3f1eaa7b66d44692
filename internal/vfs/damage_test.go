package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"testing"
)

// write makes a synced file, with its name durable.
func write(t *testing.T, m *Mem, path, text string) File {
	t.Helper()
	f, err := m.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t *testing.T, m *Mem, path string) string {
	t.Helper()
	b, err := ReadFile(m, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFlipIsSeenAndStays(t *testing.T) {
	m := NewMem()
	f := write(t, m, "a", "hello")
	if err := m.Flip("a", 1, 0x20); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || string(b) != "hEllo" {
		t.Errorf("an open handle reads %q, %v", b, err)
	}
	if got := text(t, m.CrashClone(), "a"); got != "hEllo" {
		t.Errorf("after a power cut it is %q", got)
	}
	for _, at := range []int64{-1, 5} {
		if err := m.Flip("a", at, 1); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("flip at %d: %v", at, err)
		}
	}
}

func TestShortenIsAtOnceAndDurable(t *testing.T) {
	m := NewMem()
	f := write(t, m, "a", "hello")
	if _, err := f.WriteAt([]byte(", you"), 5); err != nil { // not durable
		t.Fatal(err)
	}
	for _, size := range []int64{7, 3} {
		if err := m.Shorten("a", size); err != nil {
			t.Fatal(err)
		}
		if got, want := text(t, m, "a"), "hello, "[:size]; got != want {
			t.Errorf("at %d it is %q", size, got)
		}
	}
	if got := text(t, m.CrashClone(), "a"); got != "hel" {
		t.Errorf("after a power cut it is %q", got)
	}
	if err := m.Shorten("a", 4); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("shortened to more: %v", err)
	}
}

func TestLoseIsAtOnceAndDurable(t *testing.T) {
	m := NewMem()
	write(t, m, "a", "kept")
	f, err := m.Create("b") // its name is not durable yet
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Lose("a"), m.Lose("b")); err != nil {
		t.Fatal(err)
	}
	for _, fsys := range []*Mem{m, m.CrashClone(), m.crash(func() bool { return true }, nil)} {
		if names, err := fsys.ReadDir("."); err != nil || len(names) != 0 {
			t.Errorf("there are %v, %v", names, err)
		}
	}
	if err := m.Lose("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("twice: %v", err)
	}
}

// TestCapacity fills a disk: the last write is short, nothing new is made, what is there can be changed, and what is removed makes room.
func TestCapacity(t *testing.T) {
	m := NewMem()
	f := write(t, m, "a", "0123456789")
	m.SetCapacity(14)
	n, err := f.Write([]byte("abcdef"))
	if n != 4 || !errors.Is(err, syscall.ENOSPC) || text(t, m, "a") != "0123456789abcd" {
		t.Errorf("wrote %d, %v: %q", n, err, text(t, m, "a"))
	}
	if _, err := m.Create("b"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v", err)
	}
	if err := m.MkdirAll("d"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("mkdir: %v", err)
	}
	if _, err := f.WriteAt([]byte("X"), 3); err != nil {
		t.Errorf("rewrite in place: %v", err)
	}
	if free, _, _ := m.DiskFree("."); free != 0 {
		t.Errorf("%d bytes free", free)
	}
	if err := f.Truncate(2); err != nil {
		t.Fatal(err)
	}
	if free, _, _ := m.DiskFree("."); free != 12 || m.Used() != 2 {
		t.Errorf("%d bytes free, %d used", free, m.Used())
	}
	if _, err := f.WriteAt([]byte("0123456789"), 2); err != nil {
		t.Errorf("into the room: %v", err)
	}
	m.SetCapacity(0)
	if _, err := m.Create("b"); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestExemptCallsNeitherFailNorCount(t *testing.T) {
	m := NewMem()
	write(t, m, "a", "x")
	i := NewInjector(m, nil)
	i.Add(Rule{Op: OpOpen, Nth: 2, Err: syscall.EIO})
	open := func() error {
		f, err := i.Open("a")
		if err == nil {
			err = f.Close()
		}
		return err
	}
	i.Exempt(func() {
		for range 3 {
			if err := open(); err != nil {
				t.Error(err)
			}
		}
	})
	if first, second := open(), open(); first != nil || !errors.Is(second, syscall.EIO) {
		t.Errorf("%v, then %v", first, second)
	}
}
