package vfs

import (
	"io"
	"os"
	"sort"
)

// OS is the real file system.
type OS struct{}

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// Open opens an existing file for reading.
func (OS) Open(path string) (File, error) { return OS{}.OpenFile(path, ReadOnly) }

// Create makes or empties a file.
func (OS) Create(path string) (File, error) { return OS{}.OpenFile(path, Truncated) }

// OpenFile opens a file as flag says.
func (OS) OpenFile(path string, flag Flag) (File, error) {
	mode := map[Flag]int{
		ReadOnly:  os.O_RDONLY,
		ReadWrite: os.O_RDWR,
		Append:    os.O_RDWR | os.O_CREATE,
		Exclusive: os.O_RDWR | os.O_CREATE | os.O_EXCL,
		Truncated: os.O_RDWR | os.O_CREATE | os.O_TRUNC,
	}[flag]
	f, err := os.OpenFile(path, mode, fileMode)
	if err != nil {
		return nil, err
	}
	// O_APPEND would forbid WriteAt, so the position is set by hand.
	if flag == ReadWrite || flag == Append {
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return &osFile{File: f}, nil
}

// Remove deletes one file or empty directory.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll deletes a tree.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// Rename replaces newPath by oldPath.
func (OS) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }

// Link gives a file a second name.
func (OS) Link(oldPath, newPath string) error { return os.Link(oldPath, newPath) }

// MkdirAll makes a directory and its parents.
func (OS) MkdirAll(path string) error { return os.MkdirAll(path, dirMode) }

// ReadDir lists the names in a directory, sorted.
func (OS) ReadDir(path string) ([]string, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

// Stat describes a file or directory.
func (OS) Stat(path string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	info := Info{IsDir: st.IsDir(), ModTime: st.ModTime().UnixMilli()}
	if !st.IsDir() {
		info.Size = st.Size()
	}
	return info, nil
}

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

type osFile struct {
	*os.File
}

// Sync makes the bytes and the size durable. fdatasync is enough: it writes the size whenever the size is needed to find the bytes.
func (f *osFile) Sync() error { return datasync(f.File) }

// Size is the present size.
func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// OSFile gives the descriptor.
func (f *osFile) OSFile() (*os.File, bool) { return f.File, true }
