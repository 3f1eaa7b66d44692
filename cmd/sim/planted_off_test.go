//go:build !planted

package main

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/planted"
)

// TestABugThatCannotBePlantedIsRefused: a run without the bug that the environment asks for would pass for one that did not see it.
func TestABugThatCannotBePlantedIsRefused(t *testing.T) {
	t.Setenv(planted.Variable, "count-unflushed")
	var out, talk strings.Builder
	if got := run([]string{"--seeds", "1"}, &out, &talk); got != 2 || !strings.Contains(talk.String(), "-tags planted") {
		t.Errorf("exit status %d, printed %q, said %q", got, out.String(), talk.String())
	}
}
