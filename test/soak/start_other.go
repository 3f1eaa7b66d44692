//go:build !linux

package main

import (
	"fmt"
	"os"
)

func start(options) int {
	fmt.Fprintln(os.Stderr, "soak: it needs Linux: network namespaces, loop devices and strace")
	return exitCannot
}
