package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

// Exit codes of the program.
const (
	exitClean       = 0
	exitFound       = 1   // an anomaly, or the run itself failed
	exitCannot      = 2   // the machine or the command line does not allow it
	exitInterrupted = 130 // ended by a signal before it was through
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(exitClean)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCannot)
	}
	os.Exit(start(o))
}
