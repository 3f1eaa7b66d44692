//go:build planted

package main

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/planted"
)

func TestBugIsPlantedAndNamedInTheReplay(t *testing.T) {
	defer planted.Set(planted.None)
	lines := check(t, 1, "--seeds", "3", "--bug", "count-unflushed")
	if !strings.Contains(lines[0], "FAIL I1") || !strings.Contains(lines[0], " --bug count-unflushed") {
		t.Errorf("printed %q", lines[0])
	}
	check(t, 2, "--bug", "nonsense")
	planted.Set(planted.CountUnflushed) // as the environment does
	if lines := check(t, 1, "--seeds", "3"); !strings.Contains(lines[0], " --bug count-unflushed") {
		t.Errorf("chosen by the environment, printed %q", lines[0])
	}
}
