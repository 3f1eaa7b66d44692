//go:build planted

package planted

import (
	"fmt"
	"os"
	"sync/atomic"
)

// chosen is the one bug that is planted in this process.
var chosen atomic.Uint32

func init() {
	name := os.Getenv(Variable)
	if name == "" {
		return
	}
	b, ok := Named(name)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s=%s names no bug\n", Variable, name)
		os.Exit(2)
	}
	Set(b)
}

// On reports whether a bug is planted.
func On(b Bug) bool { return Bug(chosen.Load()) == b }

// Chosen is the bug that is planted, None for none.
func Chosen() Bug { return Bug(chosen.Load()) }

// Set plants a bug in place of the one before it; None plants none. What has begun to run sees the change at once, so set it before.
func Set(b Bug) { chosen.Store(uint32(b)) }
