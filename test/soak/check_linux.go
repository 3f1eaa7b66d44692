package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/moldau-log/moldau/internal/history/check"
)

// check gives the history to the checker and its report to the summary.
func (s *soak) check() error {
	if err := s.rec.close(); err != nil {
		return err
	}
	f, err := os.Open(s.historyFile())
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	defer f.Close() // it is read only
	c := check.New(check.Options{})
	if err := c.Merge([]check.Source{check.NewSource(s.historyFile(), f)}); err != nil {
		return fmt.Errorf("soak: the history cannot be judged: %w", err)
	}
	verdict := c.Report()
	var text bytes.Buffer
	if err := verdict.Print(&text); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	s.report.checked = text.String()
	for _, finding := range findings(verdict) {
		s.report.fail("%s: see above, and `check %s`", finding, s.historyFile())
	}
	return nil
}

// findings are why a history is not a pass: what must not be is in it, or it leaves open what a drain of everything decides.
func findings(verdict *check.Report) []string {
	var out []string
	if n := verdict.Total(); n > 0 {
		out = append(out, fmt.Sprintf("the checker has found %d anomalies", n))
	}
	if n := verdict.Counts.Undrained; n > 0 {
		out = append(out, fmt.Sprintf("%d acknowledged records were neither read nor looked for by a complete drain", n))
	}
	return out
}
