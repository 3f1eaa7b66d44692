//go:build !planted

package main

import "flag"

// bugChoice is nothing here: this binary has no planted bugs.
type bugChoice struct{}

func (bugChoice) addFlag(*flag.FlagSet) {}
func (bugChoice) plant() error          { return nil }
func (bugChoice) args() string          { return "" }
