//go:build !linux

package vfs

import "os"

// datasync falls back to the full sync: on darwin Go asks for F_FULLFSYNC, which is what reaches the platter there.
func datasync(f *os.File) error { return f.Sync() }
