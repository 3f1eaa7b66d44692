package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mustBeCovered are the cases and invariants that docs/hard-cases.md has to have a row for, by their sections, so that the table cannot lose one. Gaps in the
// numbers are normal; 74 to 78 wait for transactions.
var mustBeCovered = map[string]string{
	"log storage":                `1 3 5 6 8 9 11 12 13 15 17 18 20 21 22 24 26`,
	"replication and leadership": `27 29 31 32 34 35 38 39 40 43 44 45 46 48 49 50 51 53 55 57 58 59 60 62 63 65`,
	"producers":                  `66 68 70 71 72`,
	"consumer groups":            `79 81 82 83 84 85 87 89 90 91`,
	"compaction, retention":      `100`,
	"protocol, abuse":            `102 104 106 107 108 115`,
	"Raft metadata":              `121 123 125 126 127 128`,
	"orchestration":              `130 131`,
	"of this design":             `141 142 143 144 145 146 147 148 149 150 151 152`,
	"invariants":                 `I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12`,
}

var quoted = regexp.MustCompile("`([^`]+)`")

// caseTest is a test that carries the numbers of its cases, as in TestCase5And22_DamagedReplica.
var caseTest = regexp.MustCompile(`(?m)^func (TestCase(\d+(?:And\d+)*)_\w*)\(t \*testing\.T\)`)

// TestHardCasesAreCovered: every place that docs/hard-cases.md names is there, and every case that it must have has a test with its number in the name, so that
// `go test -run Case13` finds it. The table leaves no such test out.
func TestHardCasesAreCovered(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "hard-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	var covered []string
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "-") || !strings.ContainsAny(cells[1], "0123456789") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(cells[1]), ":")
		if slices.Contains(covered, name) {
			t.Errorf("case %s has two rows", name)
		}
		covered = append(covered, name)
		rows[name] = line
		places := strings.Split(cells[len(cells)-2], "<br>")
		for _, place := range places {
			checkPlace(t, name, quoted.FindAllStringSubmatch(place, -1))
		}
	}
	numbered := numberedTests(t, rows)
	for section, names := range mustBeCovered {
		for _, name := range strings.Fields(names) {
			if !slices.Contains(covered, name) {
				t.Errorf("%s: case %s has no row", section, name)
			}
			if !strings.HasPrefix(name, "I") && !numbered[name] {
				t.Errorf("%s: no test has the number of case %s in its name", section, name)
			}
		}
	}
}

// numberedTests finds the tests that carry numbers of cases, reports those that their row leaves out, and returns the numbers.
func numberedTests(t *testing.T, rows map[string]string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root(t), path)
		for _, m := range caseTest.FindAllStringSubmatch(string(text), -1) {
			for _, number := range strings.Split(m[2], "And") {
				found[number] = true
				if !strings.Contains(rows[number], "`"+filepath.ToSlash(file)+"` `"+m[1]+"`") {
					t.Errorf("the row of case %s lacks %s in %s", number, m[1], file)
				}
			}
		}
		return err
	}
	if err := filepath.WalkDir(root(t), files); err != nil {
		t.Fatal(err)
	}
	return found
}

// checkPlace looks for a file, and for the test in it if one is named.
func checkPlace(t *testing.T, name string, words [][]string) {
	t.Helper()
	if len(words) == 0 || len(words) > 2 {
		t.Errorf("case %s: a place is a file, or a file and a test in it", name)
		return
	}
	file := words[0][1]
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(file)))
	if err != nil {
		t.Errorf("case %s: %v", name, err)
		return
	}
	if strings.HasSuffix(file, "_test.go") != (len(words) == 2) {
		t.Errorf("case %s: name the test in %s, and none in a scenario", name, file)
		return
	}
	if len(words) == 2 && !strings.Contains(string(text), "func "+words[1][1]+"(t *testing.T)") {
		t.Errorf("case %s: %s has no test %s", name, file, words[1][1])
	}
}
