//go:build planted

package found

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/planted"
)

const (
	// RecheckSeeds bounds a search when the seed that the page names finds nothing any more; for a rare bug, three times the seeds that it took do.
	RecheckSeeds = 300
	// refresh is the environment variable that makes Check look for everything anew, within so many seeds, and write the page.
	refresh = "BUGS_SEEDS"
)

// Check holds the page to what it says of package pkg, its path within the module: what its random search finds, and what its directed tests find. Play is
// the search: it plays the history of a seed and returns what was broken, or nothing. It is nil for a package without one.
func Check(t *testing.T, pkg string, play func(seed uint64) string) {
	rows, err := readRows()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, r := range rows {
		bug, ok := planted.Named(r.bug)
		if !ok {
			t.Errorf("no bug is called %s", r.bug)
			continue
		}
		for _, f := range r.finders {
			if f.pkg != pkg {
				continue
			}
			checked++
			t.Run(r.bug, func(t *testing.T) {
				if f.test != "" {
					directed(t, bug, f.test)
				} else {
					search(t, bug, f, play)
				}
			})
		}
	}
	if checked == 0 {
		t.Errorf("docs/bugs.md says nothing of package %s", pkg)
	}
}

// search replays the seed that the page names. If that finds nothing, it looks for another.
func search(t *testing.T, bug planted.Bug, f finder, play func(uint64) string) {
	if seeds := os.Getenv(refresh); seeds != "" {
		bound, err := strconv.ParseUint(seeds, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		anew(t, bug, f, bound, play)
		return
	}
	if broken := shown(bug, f.seed, play); slices.Contains(f.kinds, Kind(broken)) {
		return
	}
	bound := max(RecheckSeeds, 3*f.seed)
	for seed := uint64(1); seed <= bound; seed++ {
		if broken := shown(bug, seed, play); slices.Contains(f.kinds, Kind(broken)) {
			t.Logf("found by seed %d, not %d as docs/bugs.md says; `make bugs` mends the page: %s", seed, f.seed, broken)
			return
		}
	}
	t.Errorf("%s is found neither by seed %d nor within %d seeds", bug, f.seed, bound)
}

// shown is what a bug breaks in the history of a seed: nothing, when that history breaks something by itself.
func shown(bug planted.Bug, seed uint64, play func(uint64) string) string {
	planted.Set(bug)
	broken := play(seed)
	planted.Set(planted.None)
	if broken != "" && play(seed) != "" {
		return ""
	}
	return broken
}

// anew looks for a bug from the first seed on and writes what it finds into the page.
func anew(t *testing.T, bug planted.Bug, f finder, bound uint64, play func(uint64) string) {
	for seed := uint64(1); seed <= bound; seed++ {
		broken := shown(bug, seed, play)
		kind := Kind(broken)
		if kind == "" || kind == "panic" {
			continue
		}
		t.Logf("seed %d: %s", seed, broken)
		if err := write(bug.String(), f, finder{pkg: f.pkg, kinds: []string{kind}, seed: seed}); err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("%s is not found within %d seeds", bug, bound)
}

var invariantName = regexp.MustCompile(`^(I[0-9]+|[A-Z][A-Za-z]+ISR)\b`)

// Kind names what a violation breaks: an invariant by its number, "a check of the product", "panic", or the words before the first colon. It is empty when
// nothing is broken.
func Kind(violation string) string {
	switch {
	case strings.HasPrefix(violation, "invariant violated"):
		return "a check of the product"
	case invariantName.MatchString(violation):
		return invariantName.FindString(violation)
	}
	kind, _, _ := strings.Cut(violation, ":")
	return kind
}

// directed runs a test of this binary in a process of its own that has the bug. It must fail.
func directed(t *testing.T, bug planted.Bug, test string) {
	parts := strings.Split(test, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	cmd := exec.Command(os.Args[0], "-test.run", strings.Join(parts, "/"), "-test.short", "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), planted.Variable+"="+bug.String())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+parts[0][1:len(parts[0])-1]) {
		t.Errorf("%s passes with %s, or does not run: %v\n%.2000s", test, bug, err, out)
	}
}
