package controller

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by everything that waits when the Controller is closed.
var ErrClosed = errors.New("controller: closed")

// ErrNotSent is wrapped by a LeaderCall whose request certainly did not reach the other side (no connection, refused hello). Only then is a
// proposal sent again; after any other error its outcome is unknown.
var ErrNotSent = errors.New("controller: request not sent")

// StoreError says that a file of the Raft directory failed or is damaged. The broker must stop: see Remedy.
type StoreError struct {
	Path   string // file or directory
	Op     string // what was being done
	Err    error
	Remedy string
}

// Error names the file, what failed, and what to do.
func (e *StoreError) Error() string {
	return fmt.Sprintf("controller: %s: %s: %v; %s", e.Path, e.Op, e.Err, e.Remedy)
}

// Unwrap gives the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// EntryError says that this version cannot apply a committed metadata entry. The broker must stop rather than skip it.
type EntryError struct {
	Index uint64
	Err   error
}

// Error names the entry, why it cannot be applied, and what to do.
func (e *EntryError) Error() string {
	return fmt.Sprintf("controller: metadata entry %d cannot be applied by this version: %v; run a version that knows it, "+
		"at least as new as that of the other brokers", e.Index, e.Err)
}

// Unwrap gives the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// RefusedError says that this broker cannot become part of the cluster that its configuration names, and will not by waiting.
type RefusedError struct{ Reason string }

// Error gives the reason and what to do about it.
func (e *RefusedError) Error() string { return "controller: " + e.Reason }
