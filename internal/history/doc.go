// Package history is the record of what clients saw of a cluster, as JSON lines: which operations they began, how each ended, what was read, which faults
// were made, and what every replica held in the end. docs/history.md specifies the format; package internal/history/check judges such a record.
//
// It is not a client and not a log of the broker: whoever drives a cluster (test/soak, test/e2e, a user's own program) writes an Event before an operation
// begins and one when it has ended, and cmd/check reads them.
//
// An operation is one invoke and at most one completion (ok, fail, info) with the same client and op. One that has none is of unknown outcome, as info is.
// Unknown stays unknown for ever: a recorder writes fail only where it is certain that nothing was done.
//
// A Writer has one goroutine, which ends with Close; Write may be called by many goroutines. A Reader has none.
package history
