package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/moldautest"
)

// numbers gives the lines 1 to n.
func numbers(n int) string {
	var out strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&out, i)
	}
	return out.String()
}

func sorted(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// TestProduceAndConsume goes through a real broker in this process.
func TestProduceAndConsume(t *testing.T) {
	broker := moldautest.Start(t)
	must := func(stdin string, args ...string) result {
		t.Helper()
		got := cli(t, broker.GRPC, stdin, args...)
		if got.code != exitDone {
			t.Fatalf("moldau %v: exit %d\n%s", args, got.code, got.err)
		}
		return got
	}
	must("", "topic", "create", "numbers", "-p", "3")
	sum := decodeAll[producedSummary](t, must(numbers(5000), "produce", "numbers", "-o", "json").out)
	if len(sum) != 1 || sum[0].Acknowledged != 5000 || sum[0].Failed != 0 || sum[0].Bytes != int64(len(numbers(5000))-5000) {
		t.Errorf("summary %+v", sum)
	}
	want := sorted(numbers(5000))
	if got := sorted(must("", "consume", "numbers", "--exit-at-end").out); !slices.Equal(got, want) {
		t.Errorf("consumed %d lines, want %d", len(got), len(want))
	}
	if got := decodeAll[recordShape](t, must("", "consume", "numbers", "-n", "7", "-o", "json").out); len(got) != 7 {
		t.Errorf("-n 7 gave %d records", len(got))
	}
	// A group: 1000 records first, the rest later, none twice, and the committed offsets say so.
	first := must("", "consume", "numbers", "-g", "readers", "-n", "1000").out
	rest := must("", "consume", "numbers", "-g", "readers", "--exit-at-end").out
	if got := sorted(first + rest); !slices.Equal(got, want) {
		t.Errorf("the group consumed %d lines, want %d different ones", len(got), len(want))
	}
	group := decodeAll[groupDescriptionShape](t, must("", "group", "describe", "readers", "-o", "json").out)[0]
	if group.Lag == nil || *group.Lag != 0 || len(group.Members) != 0 {
		t.Errorf("the group after its end: %+v", group)
	}
	if got := must("", "consume", "numbers", "-g", "readers", "--exit-at-end"); got.out != "" {
		t.Errorf("a group that is at the end read %d bytes", len(got.out))
	}
	// Keys, headers, partitions, and where each record went.
	placed := decodeAll[producedShape](t, must("a:1\nb:2\nplain\n", "produce", "pairs", "--key-delimiter", ":", "-H", "x=y", "-v", "-o", "json").out)
	if len(placed) != 3 {
		t.Fatalf("-v printed %d records", len(placed))
	}
	lines := sorted(must("", "consume", "pairs", "--exit-at-end", "-f", `%K %k=%s %h\n`).out)
	if want := []string{"-1 =plain x=y", "1 a=1 x=y", "1 b=2 x=y"}; !slices.Equal(lines, want) {
		t.Errorf("pairs %q, want %q", lines, want)
	}
	must("one\ntwo\nthree\n", "produce", "numbers", "-p", "2")
	if got := must("", "consume", "numbers", "-p", "2", "--from", "-2", "--exit-at-end").out; got != "two\nthree\n" {
		t.Errorf("the last two of partition 2: %q", got)
	}
}

func TestRecordsExitCodes(t *testing.T) {
	broker := moldautest.Start(t, func(c *config.Config) { c.Topic.AutoCreate = false })
	if got := cli(t, broker.GRPC, "", "topic", "create", "numbers", "-p", "1", "-c", "max.message.bytes=1000"); got.code != exitDone {
		t.Fatal(got.err)
	}
	if got := cli(t, broker.GRPC, "", "topic", "create", "sizes"); got.code != exitDone {
		t.Fatal(got.err)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        []string
	}{
		{"no topic", "x\n", []string{"produce", "nope"}, exitNotFound, []string{"UNKNOWN_TOPIC", "moldau topic create"}},
		{"no topic to read", "", []string{"consume", "nope"}, exitNotFound, []string{"UNKNOWN_TOPIC"}},
		{"no partition", "x\n", []string{"produce", "numbers", "-p", "1"}, exitNotFound, []string{"no partition 1, the topic has 1"}},
		{"too large for the topic", strings.Repeat("x", 2000) + "\n", []string{"produce", "numbers"}, exitFailure, []string{
			"1 of 1 records failed, 0 were acknowledged", "TOO_LARGE", "`moldau topic alter numbers -c max.message.bytes=BYTES`",
		}},
		{"too large for the client", strings.Repeat("x", 3000) + "\nsmall\n", []string{"produce", "sizes", "--max-record-bytes", "2KiB"}, exitFailure, []string{
			"1 of 2 records failed, 1 were acknowledged", "a line of 3000 bytes, limit 2048", "--max-record-bytes raises", "max.message.bytes",
		}},
		{"as large as the client takes, but for its frame", strings.Repeat("x", 2048) + "\n", []string{"produce", "sizes", "--max-record-bytes", "2KiB"}, exitFailure, []string{
			"1 of 1 records failed", "limit 2048", "--max-record-bytes raises",
		}},
		{"nothing there", "", []string{"consume", "numbers", "-n", "1", "--timeout", "200ms"}, exitTimeout, []string{"not done within 200ms"}},
		{"offset that is not there", "", []string{"consume", "numbers", "--from", "99"}, exitFailure, []string{"OFFSET_OUT_OF_RANGE", "moldau topic describe numbers"}},
		{"empty to its end", "", []string{"consume", "numbers", "--exit-at-end"}, exitDone, nil},
	} {
		got := cli(t, broker.GRPC, c.stdin, c.args...)
		if got.code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.name, got.code, c.code, got.err)
		}
		for _, want := range c.says {
			if !strings.Contains(got.err, want) {
				t.Errorf("%s: %q does not say %q", c.name, got.err, want)
			}
		}
	}
}

// TestLargeRecords: what the flag and the topic allow goes through and comes back.
func TestLargeRecords(t *testing.T) {
	broker := moldautest.Start(t)
	const megabyte = 1 << 20
	if got := cli(t, broker.GRPC, "", "topic", "create", "blobs", "-p", "1", "-c", fmt.Sprintf("max.message.bytes=%d", 8*megabyte)); got.code != exitDone {
		t.Fatal(got.err)
	}
	in := "small\n" + strings.Repeat("x", 5*megabyte) + "\nlast\n"
	if got := cli(t, broker.GRPC, in, "produce", "blobs"); got.code != exitFailure || !strings.Contains(got.err, "1 of 3 records failed, 2 were acknowledged") {
		t.Errorf("without the flag: exit %d: %.300s", got.code, got.err)
	}
	if got := cli(t, broker.GRPC, in, "produce", "blobs", "--max-record-bytes", "8MiB"); got.code != exitDone {
		t.Fatalf("exit %d: %.300s", got.code, got.err)
	}
	if got := cli(t, broker.GRPC, "", "consume", "blobs", "--exit-at-end"); got.out != "small\nlast\n"+in {
		t.Errorf("exit %d, %d bytes came back, %d were written: %.300s", got.code, len(got.out), len(in)+11, got.err)
	}
}

// TestNotes: what a broker remarks is told, whichever command changes the config.
func TestNotes(t *testing.T) {
	broker := moldautest.Start(t)
	const want = "note: min.insync.replicas=4 is above the replication factor 1, which counts instead"
	for _, args := range []string{"topic create y -r 1 -c min.insync.replicas=4", "topic alter y -c min.insync.replicas=4", "config set topic y min.insync.replicas=4 --dry-run"} {
		if got := cli(t, broker.GRPC, "", strings.Fields(args)...); got.code != exitDone || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, %q", args, got.code, got.err)
		}
	}
	if got := cli(t, broker.GRPC, "", "topic", "alter", "y", "-c", "min.insync.replicas=1"); got.code != exitDone || strings.Contains(got.err, "note:") {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
}

// TestEndCommitsExactlyWhatWasWritten ends members soon after they have joined, when their first commit of where they begin may still be on its way:
// it must not overtake the last one.
func TestEndCommitsExactlyWhatWasWritten(t *testing.T) {
	broker := moldautest.Start(t)
	if got := cli(t, broker.GRPC, "", "topic", "create", "numbers", "-p", "3"); got.code != exitDone {
		t.Fatal(got.err)
	}
	if got := cli(t, broker.GRPC, numbers(5000), "produce", "numbers"); got.code != exitDone {
		t.Fatal(got.err)
	}
	for i := range 30 {
		group := fmt.Sprintf("group-%d", i)
		if got := cli(t, broker.GRPC, "", "consume", "numbers", "-g", group, "-n", "1000"); got.code != exitDone {
			t.Fatalf("exit %d: %s", got.code, got.err)
		}
		committed := int64(0)
		for _, o := range decodeAll[groupDescriptionShape](t, cli(t, broker.GRPC, "", "group", "describe", group, "-o", "json").out)[0].Offsets {
			if o.CommittedOffset != nil {
				committed += *o.CommittedOffset
			}
		}
		if committed != 1000 {
			t.Errorf("%s: %d records are committed, 1000 were written", group, committed)
		}
	}
}

// brokenPipe takes some bytes and then fails like a pipe whose reader has gone.
type brokenPipe struct{ left int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

// TestClosedPipeIsANormalEnd: `moldau topic describe big | head` is no failure, whatever the format.
func TestClosedPipeIsANormalEnd(t *testing.T) {
	broker := moldautest.Start(t)
	for _, format := range formats {
		var errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &brokenPipe{}, err: &errs, environ: []string{"MOLDAU_SERVER=" + broker.GRPC}}
		if code := run(t.Context(), []string{"cluster", "status", "-o", format}, a); code != exitDone || errs.Len() > 0 {
			t.Errorf("-o %s: exit %d, %q", format, code, errs.String())
		}
	}
}

// TestClosedPipeCommitsNothingUnwritten: what could not be written is read again by the next member.
func TestClosedPipeCommitsNothingUnwritten(t *testing.T) {
	broker := moldautest.Start(t)
	if got := cli(t, broker.GRPC, numbers(100), "produce", "numbers"); got.code != exitDone {
		t.Fatal(got.err)
	}
	var errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &brokenPipe{}, err: &errs, environ: []string{"MOLDAU_SERVER=" + broker.GRPC}}
	if code := run(t.Context(), []string{"consume", "numbers", "-g", "g", "-n", "100"}, a); code != exitDone {
		t.Errorf("exit %d after a closed pipe: %s", code, errs.String())
	}
	if got := cli(t, broker.GRPC, "", "consume", "numbers", "-g", "g", "--exit-at-end"); !slices.Equal(sorted(got.out), sorted(numbers(100))) {
		t.Errorf("the next member read %d bytes: %s", len(got.out), got.err)
	}
}

// TestInterruptedProduceSaysWhatWasAcknowledged: what was read is waited for.
func TestInterruptedProduceSaysWhatWasAcknowledged(t *testing.T) {
	broker := moldautest.Start(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, err := io.WriteString(feed, numbers(100))
		if err == nil {
			interrupt()
		}
	}()
	var out, errs bytes.Buffer
	a := &app{in: in, out: &out, err: &errs, environ: []string{"MOLDAU_SERVER=" + broker.GRPC}}
	code := run(ctx, []string{"produce", "numbers", "-o", "json"}, a)
	sum := decodeAll[producedSummary](t, out.String())
	if len(sum) != 1 || sum[0].Records != sum[0].Acknowledged+sum[0].Failed || (code == exitDone) != (sum[0].Failed == 0) {
		t.Errorf("exit %d, %+v, %s", code, sum, errs.String())
	}
}
