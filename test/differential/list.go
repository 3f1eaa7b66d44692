package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// row is one line of the reviewed list: | `step` | `field` | `Kafka` | `Moldau` | why |. In the first four * stands for any text and {a,b} for either.
type row struct {
	text                     string
	step, path, theirs, ours *regexp.Regexp
	hits                     int
}

var cell = regexp.MustCompile("`([^`]*)`")

// reviewed reads the rows of the list. A row has four cells in backquotes and a reason.
func reviewed(file string) ([]*row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows []*row
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		r, err := newRow(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func newRow(line string) (*row, error) {
	cells := strings.Split(strings.Trim(line, "|"), " | ")
	if len(cells) != 5 || len(strings.Trim(cells[4], " |")) == 0 {
		return nil, fmt.Errorf("want | `step` | `field` | `Kafka` | `Moldau` | why |")
	}
	globs := make([]*regexp.Regexp, 4)
	for i := range globs {
		m := cell.FindStringSubmatch(cells[i])
		if m == nil {
			return nil, fmt.Errorf("cell %d is not in backquotes", i+1)
		}
		globs[i] = glob(m[1])
	}
	return &row{text: strings.Join(cells[:4], " | "), step: globs[0], path: globs[1], theirs: globs[2], ours: globs[3]}, nil
}

// either is {a,b} in a quoted cell.
var either = regexp.MustCompile(`\\\{[^{}]*\\\}`)

// glob makes a pattern of a cell.
func glob(text string) *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, `.*`)
	quoted = either.ReplaceAllStringFunc(quoted, func(m string) string {
		return `(?:` + strings.ReplaceAll(m[2:len(m)-2], ",", "|") + `)`
	})
	return regexp.MustCompile(`^` + quoted + `$`)
}

// find gives the first row that speaks of a difference, and counts it.
func find(rows []*row, d difference) *row {
	for _, r := range rows {
		if r.step.MatchString(d.step) && r.path.MatchString(d.path) && r.theirs.MatchString(d.theirs) && r.ours.MatchString(d.ours) {
			r.hits++
			return r
		}
	}
	return nil
}
