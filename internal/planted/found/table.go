//go:build planted

package found

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The columns of the table of planted bugs.
const (
	columnBug = iota
	columnRule
	columnCase
	columnFoundBy
	columns
)

// row is what the page says about one bug.
type row struct {
	bug, rule, stands string
	finders           []finder
}

// finder is one who finds a bug: a random search with a seed, or a directed test.
type finder struct {
	pkg string
	// kinds are what is broken, of which one has to show, and seed shows it. For a search.
	kinds []string
	seed  uint64
	// test is the name of a directed test, empty for a search.
	test string
}

var (
	searchCell   = regexp.MustCompile("^`([^`]+)`: (.+) at seed ([0-9]+)$")
	directedCell = regexp.MustCompile("^`([^`]+)` `(Test[^`]+)`$")
)

// String is the finder as the page has it.
func (f finder) String() string {
	if f.test != "" {
		return fmt.Sprintf("`%s` `%s`", f.pkg, f.test)
	}
	return fmt.Sprintf("`%s`: %s at seed %d", f.pkg, strings.Join(f.kinds, " or "), f.seed)
}

// pagePath is docs/bugs.md of the module that holds the working directory.
func pagePath() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "docs", "bugs.md"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("found: no go.mod above the working directory")
		}
		dir = up
	}
}

// parse reads the rows of the first table.
func parse(page string) ([]row, error) {
	var rows []row
	began := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if began {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			return nil, fmt.Errorf("found: a row has %d columns instead of %d: %s", len(cells), columns, line)
		}
		head := !began
		began = true
		if head || strings.HasPrefix(cells[0], "-") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := row{bug: strings.Trim(cells[columnBug], "`"), rule: cells[columnRule], stands: cells[columnCase]}
		for _, text := range strings.Split(cells[columnFoundBy], "<br>") {
			f, err := parseFinder(strings.TrimSpace(text))
			if err != nil {
				return nil, fmt.Errorf("found: %s: %w", r.bug, err)
			}
			r.finders = append(r.finders, f)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// parseFinder reads one entry of the last column.
func parseFinder(text string) (finder, error) {
	if m := directedCell.FindStringSubmatch(text); m != nil {
		return finder{pkg: m[1], test: m[2]}, nil
	}
	m := searchCell.FindStringSubmatch(text)
	if m == nil {
		return finder{}, fmt.Errorf("%q is neither a search nor a directed test", text)
	}
	seed, err := strconv.ParseUint(m[3], 10, 64)
	return finder{pkg: m[1], kinds: strings.Split(m[2], " or "), seed: seed}, err
}

// readRows reads the page.
func readRows() ([]row, error) {
	path, err := pagePath()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(string(page))
}

// write puts what a search has found in the place of what the page says of it.
func write(bug string, old, found finder) error {
	path, err := pagePath()
	if err != nil {
		return err
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(page), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "| `"+bug+"` |") {
			lines[i] = strings.Replace(line, old.String(), found.String(), 1)
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644)
}
