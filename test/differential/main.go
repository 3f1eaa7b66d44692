package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	kafka := flag.String("kafka", "", "host:port of Apache Kafka")
	moldau := flag.String("moldau", "", "host:port of Moldau")
	scripts := flag.String("scripts", "testdata", "directory of the scripts")
	only := flag.String("only", "", "run only scripts whose file name has this in it")
	list := flag.String("list", "../../docs/kafka-differences.md", "the reviewed list of differences")
	carry := flag.String("carry", "", "file that takes the counts of this run to the next, which adds its own")
	more := flag.Bool("more", false, "another run follows: do not judge rows that nothing has needed yet")
	trace := flag.Bool("trace", false, "print every answer")
	flag.Parse()
	if err := run(*kafka, *moldau, *scripts, *only, *list, *carry, *more, *trace); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(1)
	}
}

func run(kafka, moldau, scripts, only, list, carry string, more, trace bool) error {
	statements, err := load(scripts, only)
	if err != nil {
		return err
	}
	rows, err := reviewed(list)
	if err != nil {
		return err
	}
	r, err := newRunner(kafka, moldau)
	if err != nil {
		return err
	}
	r.trace = trace
	if err := r.all(statements); err != nil {
		return err
	}
	before, err := resume(carry, rows)
	if err != nil {
		return err
	}
	return report(os.Stdout, r, rows, &before, judge{stale: only == "" && !more, carry: carry})
}

// judge says what a report fails on, and where its counts go.
type judge struct {
	stale bool // rows that nothing has needed
	carry string
}

// report prints what was found.
func report(w io.Writer, r *runner, rows []*row, total *counts, j judge) error {
	intended := 0
	var open []difference
	for _, d := range r.found {
		if find(rows, d) != nil {
			intended++
		} else {
			open = append(open, d)
		}
	}
	for _, g := range grouped(open) {
		fmt.Fprintf(w, "%s v%s %s: Kafka %s, Moldau %s\n", g.step, g.versions, g.path, short(g.theirs), short(g.ours))
	}
	for _, fault := range r.faults {
		fmt.Fprintln(w, "FAULT", fault)
	}
	stale := 0
	for _, row := range rows {
		if row.hits == 0 && j.stale {
			stale++
			fmt.Fprintf(w, "on the list, and no difference any more: %s\n", row.text)
		}
	}
	total.add(r, intended, len(open))
	if err := total.write(j.carry, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d requests to each side, %d fields compared: %d differences by the list (%d rows), %d not on it, %d rows without a difference, %d faults\n",
		total.Requests, total.Fields, total.Intended, len(rows), total.Open, stale, total.Faults)
	if total.Open+stale+total.Faults > 0 {
		return fmt.Errorf("%d differences are not on the reviewed list, %d of its rows no longer occur, %d steps did not go as scripted", total.Open, stale, total.Faults)
	}
	return nil
}

// short keeps a line readable.
func short(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return strings.ReplaceAll(s, "\n", " ")
}

// group is a difference and the versions in which it is the same.
type group struct {
	difference
	versions string
}

func grouped(all []difference) []group {
	var out []group
	at := map[difference]int{}
	for _, d := range all {
		version := fmt.Sprint(d.version)
		d.version = 0
		if i, ok := at[d]; ok {
			out[i].versions += "," + version
			continue
		}
		at[d] = len(out)
		out = append(out, group{d, version})
	}
	return out
}
