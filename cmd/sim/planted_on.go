//go:build planted

package main

import (
	"flag"
	"fmt"

	"github.com/moldau-log/moldau/internal/planted"
)

// bugChoice is --bug: one that is planted in the product for all seeds.
type bugChoice struct{ name string }

func (c *bugChoice) addFlag(flags *flag.FlagSet) {
	flags.StringVar(&c.name, "bug", planted.None.String(), "a bug to plant in the product, by its name in docs/bugs.md")
}

// plant plants it, once the flags are parsed. Without the flag, what the environment has chosen stays, and is named in commands that replay a history.
func (c *bugChoice) plant() error {
	b, ok := planted.Named(c.name)
	if !ok {
		return fmt.Errorf("sim: no bug is called %s; there are %v", c.name, planted.All())
	}
	if b == planted.None {
		c.name = planted.Chosen().String()
		return nil
	}
	planted.Set(b)
	return nil
}

// args is what a command that replays a history needs for it.
func (c *bugChoice) args() string {
	if c.name == planted.None.String() {
		return ""
	}
	return " --bug " + c.name
}
