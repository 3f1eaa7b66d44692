// Package invariant states what must be true of this program whatever its input is.
//
// A failed Check is a bug of ours, never bad input: bad input is refused with an error. Checks stay on in production. The goroutine
// that owns the state (a partition's Runner) recovers the Violation, takes that partition offline with its flight record, and never
// goes on with doubtful state; where no smaller unit exists, as in controller state, the panic stops the process.
//
// Every package may import this one. It runs no goroutines, keeps no state and never reads a clock.
package invariant
