package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestOptionsFromTheSeed(t *testing.T) {
	for _, c := range []struct {
		args    string
		brokers int
		fs      string
	}{
		{"-seed 1", 3, "xfs"}, {"-seed 2", 3, "ext4"}, {"-seed 4", 5, "ext4"}, {"-seed 4 -brokers 3", 3, "ext4"}, {"-seed 1 -fs none", 3, "none"},
	} {
		o, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil || o.brokers != c.brokers || o.fs != c.fs {
			t.Errorf("%s: %d brokers on %s, %v; want %d on %s", c.args, o.brokers, o.fs, err, c.brokers, c.fs)
		}
	}
	for _, args := range []string{"-brokers 2", "-brokers 99", "-rate 0", "-duration 0s", "-fs fat", "-unknown", "more"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}

// TestAgain: the command that a failure names makes the same run.
func TestAgain(t *testing.T) {
	o, err := parse(strings.Fields("-seed 8 -duration 5m -faults kill-one,wipe -rate 99"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const want = "make soak DURATION=5m0s SEED=8 FAULTS=kill-one,wipe SOAK_FLAGS='-brokers 5 -fs ext4 -rate 99'"
	if got := o.again(); got != want || o.duration != 5*time.Minute {
		t.Errorf("%q, want %q", got, want)
	}
}
