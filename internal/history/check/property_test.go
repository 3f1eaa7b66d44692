package check

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

func judge(t testing.TB, events []history.Event) *Report {
	t.Helper()
	c := New(Options{})
	for i := range events {
		if err := c.Add(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return c.Report()
}

func text(t testing.TB, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCorrectHistoriesAreClean: whatever a broker without mistakes does, nothing is reported, and every check had something to look at.
func TestCorrectHistoriesAreClean(t *testing.T) {
	checked := map[Kind]int64{}
	for i := range uint64(400) {
		seed := i
		if i >= 300 {
			seed += vagueSeeds
		}
		r := judge(t, generate(seed, 100+int(seed%7)*100))
		if !r.Clean() {
			t.Fatalf("seed %d:\n%s", seed, text(t, r))
		}
		for _, c := range r.Checks {
			checked[c.Kind] += c.Checked
		}
	}
	for _, rule := range rules {
		if rule.kind != Unavailable && checked[rule.kind] < 100 {
			t.Errorf("%s was held against %d %s", rule.kind, checked[rule.kind], rule.unit)
		}
	}
}
