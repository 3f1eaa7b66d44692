// Package vfs is the file system as the log sees it: a small interface, the real thing, a memory one that can lose power, and a
// wrapper that injects errors and prints a trace.
//
// It is not a general file abstraction. There are no permissions, links, symbolic links or working directories; files are made 0600
// and directories 0700. What it is careful about is durability, because that is what its callers get wrong: Sync covers the bytes and
// the size of one file, SyncDir covers the names inside one directory, and neither implies the other.
//
// Callers are segment, partition, server and the simulator. Every FS and every File may be used from several goroutines at once, with
// the one exception that Write of a single File has one writer. The package runs no goroutine of its own.
//
// Invariants that both implementations keep, and that the conformance suite checks:
//   - a rename replaces its target atomically, and a handle that was opened before keeps reading the file that it opened;
//   - a removed file stays readable through handles that are open;
//   - reading past the end gives io.EOF with the bytes that exist;
//   - errors match fs.ErrNotExist and fs.ErrExist with errors.Is.
package vfs
