package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The reserve is disk space that the Raft store keeps for the day on which the disk is full.
const (
	reserveName  = "reserve"
	reserveSize  = 8 << 20
	reservePause = 5 * time.Second // between two attempts to make it again
)

// DiskFullError says that the Raft store could not write because the disk is full. Its reserve was released, so that the next start succeeds: the broker then refuses
// produce (Controller.DiskShort) until there is space again.
type DiskFullError struct{ Err error }

// Error names the cause and what to do.
func (e *DiskFullError) Error() string {
	return fmt.Sprintf("%v; the reserve of the metadata was released: start the broker again and free disk space, by retention or by deleting topics", e.Err)
}

// Unwrap gives the cause.
func (e *DiskFullError) Unwrap() error { return e.Err }

// makeReserve writes the reserve file if it is not whole; false means that there is no space for it.
func makeReserve(dir string) (bool, error) {
	path := filepath.Join(dir, reserveName)
	info, err := os.Stat(path)
	if err == nil && info.Size() == reserveSize {
		return true, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("controller: look at the reserve: %w", err)
	}
	// Written, not truncated to size: a hole reserves nothing.
	switch err := writeFileSynced(dir, reserveName, make([]byte, reserveSize)); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return false, errors.Join(removeIfThere(path), removeIfThere(path+snapshotTemporary))
	case err != nil:
		return false, fmt.Errorf("controller: write the reserve: %w", err)
	}
	return true, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("controller: release the reserve: %w", err)
	}
	return nil
}

// storeFailed is told the failure of the Raft log: this broker takes no part in Raft any more. A full disk releases the reserve.
func (c *Controller) storeFailed(err error) {
	if n := c.node.Load(); n != nil {
		n.halt()
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = &DiskFullError{Err: errors.Join(err, removeIfThere(filepath.Join(c.cfg.Dir, reserveName)))}
	}
	c.fail(err)
}

// DiskShort reports that the reserve of the Raft store is not there because the disk is full: the broker should refuse what needs space.
func (c *Controller) DiskShort() bool { return c.short.Load() }

// keepReserve makes the reserve again when there is space.
func (c *Controller) keepReserve() {
	ticker := time.NewTicker(reservePause)
	defer ticker.Stop()
	for c.short.Load() {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		made, err := makeReserve(c.cfg.Dir)
		if err != nil {
			c.log.Warn("cannot make the metadata's disk reserve", "error", err)
			continue
		}
		if made {
			c.log.Info("there is disk space again")
			c.short.Store(false)
		}
	}
}
