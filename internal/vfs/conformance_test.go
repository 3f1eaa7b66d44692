package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// TestConformance runs one suite on every implementation: what a caller may rely on must hold on all of them.
func TestConformance(t *testing.T) {
	systems := map[string]func(t *testing.T) (FS, string){
		"os":       func(t *testing.T) (FS, string) { return OS{}, t.TempDir() },
		"mem":      func(*testing.T) (FS, string) { return memWithDir("base"), "base" },
		"injector": func(*testing.T) (FS, string) { return NewInjector(memWithDir("base"), nil), "base" },
		"crashed":  func(*testing.T) (FS, string) { return memWithDir("base").CrashClone(), "base" },
	}
	suite := map[string]func(*testing.T, FS, string){
		"files": testFiles, "names": testNames, "flags": testFlags, "handles outlive names": testHandles,
		"directories": testDirectories, "locks": testLocks, "whole files": testWholeFiles,
	}
	for name, open := range systems {
		for feature, run := range suite {
			t.Run(name+"/"+feature, func(t *testing.T) {
				fsys, dir := open(t)
				run(t, fsys, dir)
			})
		}
	}
}

func memWithDir(dir string) *Mem {
	m := NewMem()
	if err := m.MkdirAll(dir); err != nil {
		panic(err)
	}
	if err := m.SyncDir("/"); err != nil {
		panic(err)
	}
	return m
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fsys FS, path string) string {
	t.Helper()
	return string(must[[]byte](t)(ReadFile(fsys, path, 1<<20)))
}

func testFiles(t *testing.T, fsys FS, dir string) {
	p := filepath.Join(dir, "f")
	f := must[File](t)(fsys.Create(p))
	must[int](t)(f.Write([]byte("hello ")))
	must[int](t)(f.Write([]byte("world")))
	must[int](t)(f.WriteAt([]byte("J"), 0))
	must[int](t)(f.WriteAt([]byte("!"), 13))
	if got := content(t, fsys, p); got != "Jello world\x00\x00!" {
		t.Fatalf("got %q", got)
	}
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 12); n != 2 || !errors.Is(err, io.EOF) {
		t.Fatalf("read over the end gives %d, %v", n, err)
	}
	if n, err := f.ReadAt(b, 99); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read past the end gives %d, %v", n, err)
	}
	ok(t, f.Truncate(3))
	ok(t, f.Truncate(5))
	if got := content(t, fsys, p); got != "Jel\x00\x00" {
		t.Fatalf("cut bytes come back: %q", got)
	}
	if size := must[int64](t)(f.Size()); size != 5 {
		t.Fatalf("size %d", size)
	}
	ok(t, f.Sync())
	ok(t, f.Close())
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("second close gives %v", err)
	}
	if _, err := f.ReadAt(b, 0); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("read after close gives %v", err)
	}
	r := must[File](t)(fsys.Open(p))
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("a read-only handle writes")
	}
	ok(t, r.Close())
}

func testNames(t *testing.T, fsys FS, dir string) {
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	ok(t, WriteFileAtomic(fsys, dir, a, []byte("A")))
	ok(t, WriteFileAtomic(fsys, dir, b, []byte("B")))
	ok(t, fsys.Rename(a, b))
	if got := content(t, fsys, b); got != "A" {
		t.Fatalf("rename does not replace: %q", got)
	}
	if _, err := fsys.Stat(a); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("renamed file is still there: %v", err)
	}
	ok(t, fsys.Link(b, c))
	ok(t, fsys.Remove(b))
	if got := content(t, fsys, c); got != "A" {
		t.Fatalf("linked file holds %q", got)
	}
	if err := fsys.Remove(b); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("second remove gives %v", err)
	}
	if err := fsys.Rename(b, a); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("rename of nothing gives %v", err)
	}
	if got := must[[]string](t)(fsys.ReadDir(dir)); !slices.Equal(got, []string{"c"}) {
		t.Fatalf("directory holds %q", got)
	}
}

func testFlags(t *testing.T, fsys FS, dir string) {
	p := filepath.Join(dir, "f")
	for _, flag := range []Flag{ReadOnly, ReadWrite} {
		if _, err := fsys.OpenFile(p, flag); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("flag %d on nothing gives %v", flag, err)
		}
	}
	write := func(flag Flag, data string) {
		t.Helper()
		f := must[File](t)(fsys.OpenFile(p, flag))
		must[int](t)(f.Write([]byte(data)))
		ok(t, f.Close())
	}
	write(Exclusive, "a")
	write(Append, "b")
	write(ReadWrite, "c")
	if got := content(t, fsys, p); got != "abc" {
		t.Fatalf("got %q", got)
	}
	write(Truncated, "d")
	if got := content(t, fsys, p); got != "d" {
		t.Fatalf("got %q", got)
	}
	if _, err := fsys.OpenFile(p, Exclusive); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("exclusive on a present file gives %v", err)
	}
}

func testHandles(t *testing.T, fsys FS, dir string) {
	p := filepath.Join(dir, "f")
	f := must[File](t)(fsys.Create(p))
	must[int](t)(f.Write([]byte("old")))
	ok(t, fsys.Remove(p))
	g := must[File](t)(fsys.OpenFile(p, Exclusive))
	must[int](t)(g.Write([]byte("new")))
	b := make([]byte, 3)
	must[int](t)(f.ReadAt(b, 0))
	if string(b) != "old" {
		t.Fatalf("a new file under the same name shows through the old handle: %q", b)
	}
	if f.Name() != p {
		t.Fatalf("name is %q", f.Name())
	}
	ok(t, f.Close())
	ok(t, g.Close())
}

func testDirectories(t *testing.T, fsys FS, dir string) {
	deep := filepath.Join(dir, "x", "y")
	ok(t, fsys.MkdirAll(deep))
	ok(t, fsys.MkdirAll(deep))
	ok(t, WriteFileAtomic(fsys, deep, filepath.Join(deep, "f"), []byte("1")))
	if info := must[Info](t)(fsys.Stat(deep)); !info.IsDir || info.Size != 0 {
		t.Fatalf("%+v", info)
	}
	if err := fsys.Remove(filepath.Join(dir, "x")); err == nil {
		t.Fatal("a directory that is not empty was removed")
	}
	ok(t, fsys.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
	if got := content(t, fsys, filepath.Join(dir, "z", "y", "f")); got != "1" {
		t.Fatalf("got %q", got)
	}
	ok(t, fsys.SyncDir(dir))
	ok(t, fsys.RemoveAll(filepath.Join(dir, "z")))
	ok(t, fsys.RemoveAll(filepath.Join(dir, "z")))
	if _, err := fsys.ReadDir(filepath.Join(dir, "z")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("removed directory lists: %v", err)
	}
	if free, total, err := fsys.DiskFree(dir); err != nil || free <= 0 || total < free {
		t.Fatalf("disk free %d of %d, %v", free, total, err)
	}
}

func testLocks(t *testing.T, fsys FS, dir string) {
	p := filepath.Join(dir, "lock")
	held := must[io.Closer](t)(fsys.Lock(p))
	if _, err := fsys.Lock(p); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock gives %v", err)
	}
	ok(t, held.Close())
	ok(t, must[io.Closer](t)(fsys.Lock(p)).Close())
}

func testWholeFiles(t *testing.T, fsys FS, dir string) {
	p := filepath.Join(dir, "f")
	for _, data := range []string{"first", "", "second, longer"} {
		ok(t, WriteFileAtomic(fsys, dir, p, []byte(data)))
		if got := content(t, fsys, p); got != data {
			t.Fatalf("got %q, want %q", got, data)
		}
	}
	if _, err := ReadFile(fsys, p, 5); err == nil {
		t.Fatal("a file over the limit was read")
	}
	if got := must[[]string](t)(fsys.ReadDir(dir)); !slices.Equal(got, []string{"f"}) {
		t.Fatalf("temporary file left behind: %q", got)
	}
}
