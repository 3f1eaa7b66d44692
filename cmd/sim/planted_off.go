//go:build !planted

package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/moldau-log/moldau/internal/planted"
)

// bugChoice is nothing here: this binary has no planted bugs.
type bugChoice struct{}

func (bugChoice) addFlag(*flag.FlagSet) {}

// plant refuses a bug that the environment asks for: without it the histories would prove nothing about it.
func (bugChoice) plant() error {
	if name := os.Getenv(planted.Variable); name != "" {
		return fmt.Errorf("sim: %s=%s asks for a planted bug, and this binary has none: build it with -tags planted", planted.Variable, name)
	}
	return nil
}

func (bugChoice) args() string { return "" }
