package invariant

import "fmt"

// Violation is the value that a failed Check panics with. It is an error, so that an owner that recovers it can report it as one.
type Violation struct {
	// Message says what did not hold, with the values that show it.
	Message string
}

// Error returns the message with the prefix that log searches rely on.
func (v Violation) Error() string { return "invariant violated: " + v.Message }

// Check panics with a Violation unless ok holds. The message is formatted only on failure, so a passing check costs a branch and, at
// worst, the boxing of its arguments: in loops that run once per record pass plain integers or hoist the check.
func Check(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args)
	}
}

// fail stays out of line so that Check itself is inlined into its callers.
//
//go:noinline
func fail(format string, args []any) {
	panic(Violation{Message: fmt.Sprintf(format, args...)})
}

// Recovered reports whether a value from recover is a Violation. Anything else (nil, a runtime error, somebody else's panic) is not,
// and the caller should panic with it again.
func Recovered(value any) (Violation, bool) {
	violation, ok := value.(Violation)
	return violation, ok
}
