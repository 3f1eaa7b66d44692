package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync calls fdatasync through SyscallConn, so that a concurrent Close cannot hand the descriptor number to another file.
func datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			// EINTR says that nothing was decided yet; every other error is final for the caller.
			if syncErr = unix.Fdatasync(int(fd)); syncErr != unix.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
