//go:build !linux

package history

import "time"

// started is where the clock of this process begins, on the wall: monotonic within the process, and shared with others as well as the wall clock was set.
var started = time.Now()

// Now is in nanoseconds.
func Now() int64 { return started.UnixNano() + int64(time.Since(started)) }
