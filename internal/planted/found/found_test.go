//go:build planted

package found

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/planted"
)

// TestEveryBugHasARow: the page has every bug, in order, with the words of the catalogue, and every package that it names holds it to its word.
func TestEveryBugHasARow(t *testing.T) {
	path, err := pagePath()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows()
	if err != nil {
		t.Fatal(err)
	}
	bugs := planted.All()
	if len(rows) != len(bugs) {
		t.Errorf("%d rows for %d bugs", len(rows), len(bugs))
	}
	packages := map[string]bool{}
	for i, b := range bugs {
		info := b.Info()
		if info.Name == "" || info.Rule == "" || info.Case == "" {
			t.Errorf("bug %d has no name, rule or case", b)
		}
		if i >= len(rows) || rows[i].bug != info.Name || rows[i].rule != info.Rule || rows[i].stands != info.Case {
			t.Errorf("row %d should be: | `%s` | %s | %s |", i+1, info.Name, info.Rule, info.Case)
			continue
		}
		for _, f := range rows[i].finders {
			packages[f.pkg] = true
		}
	}
	for pkg := range packages {
		if !callsCheck(t, filepath.Join(filepath.Dir(path), "..", filepath.FromSlash(pkg)), pkg) {
			t.Errorf("no test of package %s calls found.Check", pkg)
		}
	}
}

func callsCheck(t *testing.T, dir, pkg string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), fmt.Sprintf("found.Check(t, %q,", pkg)) {
			return true
		}
	}
	return false
}

func TestFinderReadsWhatItPrints(t *testing.T) {
	for _, text := range []string{"`sim`: I1 at seed 7", "`sim`: I1 or a check of the product at seed 70", "`controller/state` `TestCase34_Late/one`"} {
		f, err := parseFinder(text)
		if err != nil || f.String() != text {
			t.Errorf("%q is read as %q: %v", text, f, err)
		}
	}
	if _, err := parseFinder("by luck"); err == nil {
		t.Error("luck is no finder")
	}
}

func TestKind(t *testing.T) {
	for violation, want := range map[string]string{
		"": "", "I10: checksum": "I10", "StrongISR: broker 3": "StrongISR", "invariant violated: replica: end": "a check of the product",
		"panic: nil": "panic", "after healing: leader 1": "after healing",
	} {
		if got := Kind(violation); got != want {
			t.Errorf("Kind(%q) = %q, want %q", violation, got, want)
		}
	}
}
