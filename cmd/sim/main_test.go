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

// TestWorkersChangeNothing plays the same seeds on one worker and on four.
func TestWorkersChangeNothing(t *testing.T) {
	strip := func(lines []string) string {
		last := len(lines) - 1
		_, lines[last], _ = strings.Cut(lines[last], " operations=")
		return strings.Join(lines, "\n")
	}
	one := strip(check(t, 0, "--seed", "10", "--seeds", "9", "--workers", "1", "-v"))
	if four := strip(check(t, 0, "--seed", "10", "--seeds", "9", "--workers", "4", "-v")); one != four {
		t.Errorf("one worker printed %s\nfour printed %s", one, four)
	}
}

func TestTwice(t *testing.T) {
	if lines := check(t, 0, "--seed", "3", "--twice"); !strings.Contains(lines[0], " ok ") {
		t.Errorf("printed %q", lines)
	}
}

// TestFloors fails a run that has covered too little, and says of what.
func TestFloors(t *testing.T) {
	lines := check(t, 1, "--seed", "0", "--seeds", "3", "--floors", "--max-faults", "1")
	if !strings.HasPrefix(lines[0], "FLOOR ") || !strings.HasPrefix(lines[len(lines)-1], "seeds=3 failures=0 ") {
		t.Errorf("printed %q", lines)
	}
}

// TestShrinkPrintsASmallerCommand takes the command that a failure prints and gets the same failure from it.
func TestShrinkPrintsASmallerCommand(t *testing.T) {
	lines := check(t, 1, "--seed", "0", "--plant", "forgets-sequence", "--shrink", "1s")
	found, smaller := lines[0], lines[1]
	if !strings.Contains(found, "FAIL I5") || !strings.Contains(smaller, " smaller after ") {
		t.Fatalf("printed %q", lines)
	}
	_, command, _ := strings.Cut(smaller, "replay: sim ")
	if again := check(t, 1, strings.Fields(strings.TrimSuffix(command, " -v"))...); !strings.Contains(again[0], "FAIL I5") {
		t.Errorf("%q printed %q", command, again)
	}
}

func TestUsage(t *testing.T) {
	check(t, 2, "--without", "nonsense")
	check(t, 2, "--skip", "1,x")
	check(t, 2, "--brokers", "2")
	check(t, 2, "--workers", "0")
	check(t, 2, "--shrink", "-1s")
	check(t, 2, "--plant", "nonsense")
	check(t, 2, "--seeds", "0")
	check(t, 2, "--nonsense")
	check(t, 2, "left over")
}
