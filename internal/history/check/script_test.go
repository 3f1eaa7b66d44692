package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/internal/history"
)

// TestScripts judges the hand-made histories of testdata: each anomaly, and what is close to it and right. A history is one event or operation a line:
//
//	1-2 p1/1 send ok 0:17:p1/5:e3      client p1, op 1: invoke at 1 s, ok at 2 s; partition 0, offset 17, value p1/5, leader epoch 3
//	3 c1/1 poll ok group=g 0:17:p1/5   the completion only
//	4- p1/2 send 0::p1/6               the invoke only
//
// An empty offset is not known, and "kept" is history.Kept. A topic other than t goes before the partition: "u-0:17:p1/5". A value that does not look like CLIENT/SEQ stands for itself.
// Lines come in any order: events are put in the order of their times. The command's arguments are kinds of anomalies, whose counts are shown: it must
// say what it was that was found to be right.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c := New(options(t, d))
			for _, e := range parse(t, d) {
				if err := c.Add(&e); err != nil {
					return "unusable: " + err.Error() + "\n"
				}
			}
			return brief(c.Report(), d.CmdArgs)
		})
	})
}

func options(t *testing.T, d *datadriven.TestData) Options {
	t.Helper()
	var o Options
	for _, arg := range d.CmdArgs {
		if arg.Key == "max-gap" {
			o.MaxGap = second(t, arg.Vals[0])
		} else if arg.Key == "max-recovery" {
			o.MaxRecovery = second(t, arg.Vals[0])
		}
	}
	return o
}

// brief is the part of a report that a script is about.
func brief(r *Report, args []datadriven.CmdArg) string {
	var b strings.Builder
	for _, c := range r.Checks {
		if slices.ContainsFunc(args, func(a datadriven.CmdArg) bool { return a.Key == string(c.Kind) }) {
			fmt.Fprintf(&b, "%s: %d in %d %s\n", c.Kind, c.Anomalies, c.Checked, c.Unit)
		}
	}
	for _, f := range r.Availability.Faults {
		fmt.Fprintf(&b, "%s: %g s, %d acknowledged, gap %g s, recovery %g s %s\n", f.Name, f.Seconds, f.Acknowledged, f.LongestGap, f.Recovery, f.Slowest)
	}
	for i := range r.Anomalies {
		r.printAnomaly(&b, &r.Anomalies[i])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if r.Clean() {
		b.WriteString("clean\n")
	}
	return b.String()
}

// parse reads a script's history, in the order of its times.
func parse(t *testing.T, d *datadriven.TestData) []history.Event {
	t.Helper()
	var events []history.Event
	for line := range strings.Lines(d.Input) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			events = append(events, parseLine(t, strings.Fields(line))...)
		}
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.Time - b.Time) })
	return events
}

func parseLine(t *testing.T, words []string) []history.Event {
	t.Helper()
	client, op, _ := strings.Cut(words[1], "/")
	number, err := strconv.ParseInt(op, 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	e := history.Event{Client: client, Op: number, Kind: history.Kind(words[2])}
	for _, word := range words[3:] {
		field(t, &e, word)
	}
	from, to, span := strings.Cut(words[0], "-")
	var events []history.Event
	if span {
		begin := e
		begin.Type, begin.Time = history.Invoke, second(t, from)
		begin.Records = slices.Clone(e.Records)
		if e.Kind == history.Send {
			for i := range begin.Records {
				begin.Records[i].Offset = history.Unknown
			}
		}
		events = append(events, begin)
		from = to
	}
	if from != "" {
		e.Time = second(t, from)
		events = append(events, e)
	}
	return events
}

func second(t *testing.T, text string) int64 {
	t.Helper()
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(s * 1e9)
}

func field(t *testing.T, e *history.Event, word string) {
	t.Helper()
	key, value, ok := strings.Cut(word, "=")
	if !ok {
		if slices.Contains([]string{"ok", "fail", "info"}, word) {
			e.Type = history.Type(word)
			return
		}
		e.Records = append(e.Records, parseRecord(t, word))
		return
	}
	switch key {
	case "acks":
		e.Acks = value
	case "action":
		e.Action = value
	case "topic":
		e.Topic = value
	case "group":
		e.Group = value
	case "member":
		e.Member = value
	case "generation":
		e.Generation = int32(integer(t, value))
	case "broker":
		e.Broker = int32(integer(t, value))
	case "ordered":
		e.Ordered = true
	case "loose":
		e.NotIdempotent = true
	default:
		t.Fatalf("what is %q?", word)
	}
}

func integer(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parseRecord(t *testing.T, word string) history.Record {
	t.Helper()
	r := history.Record{Topic: "t", Offset: history.Unknown, Epoch: history.Unknown}
	parts := strings.Split(word, ":")
	if topic, number, ok := strings.Cut(parts[0], "-"); ok && topic != "" {
		r.Topic, parts[0] = topic, number
	}
	r.Partition = int32(integer(t, parts[0]))
	if len(parts) > 1 && parts[1] == "kept" {
		r.Offset = history.Kept
	} else if len(parts) > 1 && parts[1] != "" {
		r.Offset = integer(t, parts[1])
	}
	if len(parts) > 2 {
		r.Value = fullValue(parts[2])
	}
	for _, more := range parts[min(3, len(parts)):] {
		if epoch, ok := strings.CutPrefix(more, "e"); ok {
			r.Epoch = int32(integer(t, epoch))
		} else {
			r.CRC = uint32(integer(t, strings.TrimPrefix(more, "c")))
		}
	}
	return r
}

func fullValue(text string) string {
	client, seq, _ := strings.Cut(text, "/")
	if n, err := strconv.ParseInt(seq, 10, 64); err == nil && client[0] != '?' {
		return history.Value{Client: client, Seq: n}.String()
	}
	return text
}
