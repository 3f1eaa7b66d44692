// Command check reads a recorded history and reports every anomaly in it. docs/history.md has the format and what each anomaly means.
//
//	check [-o text|json] [-limit N] [-max-gap D] [-max-recovery D] FILE...
//
// The files are merged by time. The exit status is 0 for a history without anomalies, 1 with one, 2 for a file that is no history or a wrong command line.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/moldau-log/moldau/internal/history/check"
)

// Exit statuses.
const (
	clean = iota
	anomalies
	unusable
)

// errEmpty keeps a run that recorded nothing from passing.
var errEmpty = errors.New("check: the history has no events")

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its surroundings passed in.
func run(args []string, out, talk io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(talk)
	flags.Usage = func() {
		fmt.Fprintln(talk, "usage: check [flags] FILE...   (docs/history.md has the format)")
		flags.PrintDefaults()
	}
	format := flags.String("o", "text", "text or json")
	limit := flags.Int("limit", check.DefaultLimit, "how many anomalies of each kind are described; all are counted")
	gap := flags.Duration("max-gap", 0, "longest time in a fault without an acknowledged send, such as 10s; 0 is any")
	recovery := flags.Duration("max-recovery", 0, "longest time from the healing of a fault until every partition has acknowledged a send, such as 30s; 0 is any")
	if err := flags.Parse(args); err != nil {
		return unusable
	}
	if flags.NArg() == 0 || *limit < 1 || *gap < 0 || *recovery < 0 || *format != "text" && *format != "json" {
		flags.Usage()
		return unusable
	}
	report, err := judge(flags.Args(), check.Options{Limit: *limit, MaxGap: int64(*gap), MaxRecovery: int64(*recovery)})
	if err != nil {
		fmt.Fprintln(talk, err)
		return unusable
	}
	if err := write(out, report, *format); err != nil {
		fmt.Fprintf(talk, "check: write the report: %v\n", err)
		return unusable
	}
	if report.Clean() {
		return clean
	}
	return anomalies
}

func judge(names []string, o check.Options) (*check.Report, error) {
	var sources []check.Source
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close() // at the end of all: it is read only
		sources = append(sources, check.NewSource(name, f))
	}
	c := check.New(o)
	if err := c.Merge(sources); err != nil {
		return nil, err
	}
	r := c.Report()
	if r.Counts.Events == 0 {
		return nil, errEmpty
	}
	return r, nil
}

func write(out io.Writer, r *check.Report, format string) error {
	if format == "text" {
		return r.Print(out)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
