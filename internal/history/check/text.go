package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the report for people: what was recorded, what was checked, how sends went on, and the anomalies.
func (r *Report) Print(out io.Writer) error {
	var b strings.Builder
	r.printCounts(&b)
	r.printAvailability(&b)
	r.printChecks(&b)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for i := range r.Anomalies {
		r.printAnomaly(&b, &r.Anomalies[i])
	}
	if r.Clean() {
		fmt.Fprintf(&b, "clean: no anomaly\n")
	} else {
		fmt.Fprintf(&b, "%d anomalies, %d of them above\n", r.Total(), len(r.Anomalies))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) printCounts(b *strings.Builder) {
	fmt.Fprintf(b, "%d events in %.1f s; %d values sent, %d records read\n\n", r.Counts.Events, r.Availability.Seconds, r.Counts.Values, r.Counts.Read)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "OPERATION\tBEGUN\tOK\tFAIL\tINFO\t")
	for _, kind := range slices.Sorted(maps.Keys(r.Counts.Operations)) {
		o := r.Counts.Operations[kind]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", kind, o.Begun, o.OK, o.Fail, o.Info)
	}
	w.Flush() // writes to memory
	b.WriteByte('\n')
}

func (r *Report) printAvailability(b *strings.Builder) {
	a := &r.Availability
	fmt.Fprintf(b, "sends acknowledged: %d, %.0f/s; longest time without one %.3f s (at %.3f s)\n\n", a.Acknowledged, a.PerSecond, a.LongestGap, a.GapAt)
	if len(a.Faults) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tAT\tSECONDS\tACKNOWLEDGED\tLONGEST GAP\tRECOVERY\t")
	for _, f := range a.Faults {
		recovery := "-"
		if f.Recovery >= 0 {
			recovery = fmt.Sprintf("%.3f s (%s)", f.Recovery, f.Slowest)
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%d\t%.3f s\t%s\t\n", f.Name, f.At, f.Seconds, f.Acknowledged, f.LongestGap, recovery)
	}
	w.Flush() // writes to memory
	b.WriteByte('\n')
}

func (r *Report) printChecks(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tANOMALIES\tCHECKED\t")
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%d\t%d %s\t\n", c.Kind, c.Anomalies, c.Checked, c.Unit)
	}
	w.Flush() // writes to memory
	b.WriteByte('\n')
}

func (r *Report) printAnomaly(b *strings.Builder, a *Anomaly) {
	fmt.Fprintf(b, "%s", a.Kind)
	if a.Partition >= 0 {
		fmt.Fprintf(b, " %s-%d", a.Topic, a.Partition)
	}
	if a.Offset >= 0 {
		fmt.Fprintf(b, " offset %d", a.Offset)
	}
	fmt.Fprintf(b, ": %s", a.Detail)
	if a.Again > 0 {
		fmt.Fprintf(b, " (seen again: %d)", a.Again)
	}
	b.WriteByte('\n')
	for _, e := range a.Evidence {
		fmt.Fprintf(b, "    %s: client %s, op %d", e.What, e.Client, e.Op)
		if e.Began != 0 {
			fmt.Fprintf(b, ", from %.6f s", seconds(e.Began-r.Start))
		}
		if e.Ended != 0 {
			fmt.Fprintf(b, ", to %.6f s", seconds(e.Ended-r.Start))
		}
		b.WriteByte('\n')
	}
}
