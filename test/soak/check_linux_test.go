package main

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history/check"
)

// TestWhatWasNotDrainedIsNoPass: a run passes only if the checker could say of every acknowledged record that it is there.
func TestWhatWasNotDrainedIsNoPass(t *testing.T) {
	for want, r := range map[string]*check.Report{
		"":                                  {},
		"3 acknowledged records":            {Counts: check.Counts{Undrained: 3}},
		"the checker has found 2 anomalies": {Checks: []check.Check{{Kind: check.Unseen, Anomalies: 2}}},
	} {
		got := findings(r)
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
