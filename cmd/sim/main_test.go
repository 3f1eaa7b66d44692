package main

import (
	"regexp"
	"strings"
	"testing"
)

// check runs the command and compares its exit status; it returns the lines of stdout.
func check(t *testing.T, want int, args ...string) []string {
	t.Helper()
	var out, talk strings.Builder
	if got := run(args, &out, &talk); got != want {
		t.Fatalf("sim %v: exit status %d, want %d\n%s%s", args, got, want, out.String(), talk.String())
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestOneSeedPrintsItsHash(t *testing.T) {
	line := regexp.MustCompile(`^seed=7 hash=[0-9a-f]{16} ok `)
	first, again := check(t, 0, "--seed", "7"), check(t, 0, "--seed", "7")
	if len(first) != 2 || !line.MatchString(first[0]) || first[0] != again[0] {
		t.Errorf("printed %q, then %q", first, again)
	}
	if !strings.HasPrefix(first[1], "seeds=1 failures=0 ") || !strings.Contains(first[1], " elections=") {
		t.Errorf("summary %q", first[1])
	}
}

func TestFailureNamesItsReplay(t *testing.T) {
	lines := check(t, 1, "--seed", "0", "--seeds", "4", "--plant", "forgets-sequence")
	if len(lines) < 2 || !strings.Contains(lines[0], "FAIL I5") || !strings.Contains(lines[0], "replay: sim --seed ") {
		t.Errorf("printed %q", lines)
	}
}

func TestUsage(t *testing.T) {
	check(t, 2, "--plant", "nonsense")
	check(t, 2, "--seeds", "0")
	check(t, 2, "--nonsense")
	check(t, 2, "left over")
}
