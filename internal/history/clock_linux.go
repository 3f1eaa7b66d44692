package history

import (
	"golang.org/x/sys/unix"

	"github.com/moldau-log/moldau/internal/invariant"
)

// Now reads CLOCK_MONOTONIC, in nanoseconds since the machine's start: one clock for all processes of a machine, in every network and mount namespace, which
// no setting of the time of day moves. It fails on no Linux.
func Now() int64 {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	invariant.Check(err == nil, "history: read CLOCK_MONOTONIC: %v", err)
	return ts.Nano()
}
