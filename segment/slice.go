package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Slice is a range of whole batches in one segment file, with a counted reference on it: however the log is truncated, rolled or
// deleted meanwhile, the range gives these bytes or fails, never others. The zero Slice is empty. A Slice is a value; one of its copies
// is released, once.
type Slice struct {
	file     *file
	handle   vfs.File
	position int64
	length   int
	next     record.Offset
}

// Len is the number of bytes.
func (s Slice) Len() int { return s.length }

// Next is the offset after the last batch of the range: where a reader goes on. It means nothing for an empty Slice.
func (s Slice) Next() record.Offset { return s.next }

// File returns the descriptor and the position in it, for sendfile with an explicit offset; false when there is no descriptor to send
// from. It is good until Release. The caller does not move its file offset, and asks Intact when it has sent.
func (s Slice) File() (f *os.File, position int64, ok bool) {
	if s.file == nil {
		return nil, 0, false
	}
	f, ok = s.handle.OSFile()
	return f, s.position, ok
}

// Intact is asked after the bytes were taken from File. ErrStaleView means that the log was truncated meanwhile, and that what was taken
// may be zeros: a connection they were sent on has to be closed.
func (s Slice) Intact() error {
	if s.file == nil {
		return nil
	}
	if end := s.file.end.at.Load(); s.position+int64(s.length) > end {
		return fmt.Errorf("%w: file was cut at byte %d", ErrStaleView, end)
	}
	return nil
}

// AppendTo appends the bytes to dst. ErrStaleView means that the log was truncated meanwhile; dst then comes back as it was.
func (s Slice) AppendTo(dst []byte) ([]byte, error) {
	if s.length == 0 {
		return dst, nil
	}
	old := len(dst)
	if cap(dst)-old < s.length {
		grown := make([]byte, old, old+s.length)
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:old+s.length]
	if _, err := readAt(s.handle, dst[old:], s.position); err != nil {
		return dst[:old], err
	}
	return dst, nil
}

const copyBytes = 128 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// WriteTo copies the bytes to w. ErrStaleView, after some of the bytes, means that the log was truncated meanwhile.
func (s Slice) WriteTo(w io.Writer) (int64, error) {
	buf := copyBuffers.Get().(*[copyBytes]byte)
	defer copyBuffers.Put(buf)
	done := 0
	for done < s.length {
		b := buf[:min(copyBytes, s.length-done)]
		if _, err := readAt(s.handle, b, s.position+int64(done)); err != nil {
			return int64(done), err
		}
		n, err := w.Write(b)
		done += n
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return int64(done), err
		}
	}
	return int64(done), nil
}

// Release gives the reference back. Releasing an empty Slice does nothing.
func (s Slice) Release() {
	if s.file != nil {
		s.file.release()
	}
}

// ErrLocked means that another process has the data directory.
var ErrLocked = errors.New("segment: data directory is in use by another process")

// LockDir takes the lock of a data directory, which is made when absent. The lock lasts until the closer is closed or the process ends.
// A second holder, in this process or another, gets ErrLocked before it can write anything.
func LockDir(fs vfs.FS, dir string) (io.Closer, error) {
	if err := fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("segment: lock: %w", err)
	}
	held, err := fs.Lock(dir + "/" + lockName)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("segment: lock: %w", err)
	}
	return held, nil
}
