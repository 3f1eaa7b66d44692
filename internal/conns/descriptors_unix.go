//go:build unix

package conns

import (
	"math"
	"syscall"
)

// Descriptors is how many the process may have open: its soft limit, which the Go runtime has raised to the hard one at the start. Without a bound it is the largest int.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt
	}
	return int(limit.Cur)
}
