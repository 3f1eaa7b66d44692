package vfs

import (
	"errors"
	"io"
	"os"
)

// ErrLocked is returned by Lock when another holder, in this process or another, has the lock.
var ErrLocked = errors.New("vfs: locked by another process")

// Flag says how OpenFile opens a file.
type Flag int

// The ways to open a file. All but ReadOnly give a handle that reads and writes.
const (
	ReadOnly  Flag = iota // the file must exist
	ReadWrite             // the file must exist
	Append                // made when absent; Write starts at the end
	Exclusive             // the file must not exist
	Truncated             // made when absent, emptied when present
)

// FS is a file system. Paths are slash-separated and interpreted by the implementation; segment passes them through unchanged.
type FS interface {
	// Open opens an existing file for reading.
	Open(path string) (File, error)
	// Create makes or empties a file and opens it for reading and writing.
	Create(path string) (File, error)
	// OpenFile opens a file as flag says.
	OpenFile(path string, flag Flag) (File, error)
	// Remove deletes one file or empty directory.
	Remove(path string) error
	// RemoveAll deletes a tree. Removing what does not exist is no error.
	RemoveAll(path string) error
	// Rename replaces newPath by oldPath atomically. It is durable only after SyncDir of the directories involved.
	Rename(oldPath, newPath string) error
	// Link gives an existing file a second name, which must be free.
	Link(oldPath, newPath string) error
	// MkdirAll makes a directory and its parents.
	MkdirAll(path string) error
	// ReadDir lists the names in a directory, sorted.
	ReadDir(path string) ([]string, error)
	// Stat describes a file or directory.
	Stat(path string) (Info, error)
	// SyncDir makes the names in a directory durable: creations, removals and renames.
	SyncDir(path string) error
	// Lock takes an exclusive lock file, or fails with ErrLocked. The lock ends when the closer is closed or the process dies.
	Lock(path string) (io.Closer, error)
	// DiskFree reports the bytes available to this process and the size of the file system that holds path.
	DiskFree(path string) (free, total int64, err error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Write writes at the handle's own position, which starts at the end of the file at opening and is moved by Write alone.
	io.Writer
	io.Closer
	// Truncate sets the size. It does not move the position of Write.
	Truncate(size int64) error
	// Sync makes the bytes and the size durable, not the name.
	Sync() error
	// Size is the present size in bytes.
	Size() (int64, error)
	// Name is the path that the file was opened with.
	Name() string
	// OSFile gives the descriptor to callers that can do better with it, such as sendfile; false when there is none. The caller
	// must not close it, move its offset, or keep it past Close.
	OSFile() (*os.File, bool)
}

// Info describes a file or directory.
type Info struct {
	Size    int64 // bytes; 0 for directories
	IsDir   bool
	ModTime int64 // milliseconds since 1970; 0 when the file system keeps no clock
}

// ReadFile reads a whole file, which must not be larger than limit bytes.
func ReadFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("file is larger than its limit")}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, err
	}
	return b, nil
}

// WriteFileAtomic replaces path by data so that after a crash the file holds all of the old or all of the new bytes. dir is the
// directory that holds path. The temporary file is path plus ".tmp"; a leftover of an earlier crash is overwritten.
func WriteFileAtomic(fsys FS, dir, path string, data []byte) error {
	tmp := path + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		// The temporary file is removed on a best effort: when the disk is full, its blocks are wanted back at once.
		_ = fsys.Remove(tmp)
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func writeSynced(fsys FS, path string, data []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
