package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/moldau-log/moldau/client"
)

func TestRecordFormats(t *testing.T) {
	r := &client.Record{
		Topic: "orders", Partition: 3, Offset: 17, LeaderEpoch: 2, Key: []byte("k"), Value: []byte("a\xffb"), Timestamp: time.UnixMilli(1700000000123),
		Headers: []client.Header{{Key: "h", Value: []byte("1")}, {Key: "n", Value: nil}},
	}
	for format, want := range map[string]string{
		`%t:%p:%o\n`: "orders:3:17\n", `%k=%s`: "k=a\xffb", `%K %S`: "1 3", `%T %e`: "1700000000123 2", `%h`: "h=1,n=", `100%%\t\x41\\\0`: "100%\tA\\\x00", ``: "a\xffb\n",
	} {
		print, err := recordPrinter(formatTable, format)
		if err != nil {
			t.Errorf("%q: %v", format, err)
			continue
		}
		if got := string(print(nil, r)); got != want {
			t.Errorf("%q: %q, want %q", format, got, want)
		}
	}
	for _, format := range []string{"%", "%x", `\`, `\q`, `\x4`} {
		if _, err := recordPrinter(formatTable, format); exitCode(err) != exitUsage {
			t.Errorf("%q: %v, want a usage error", format, err)
		}
	}
	print, err := recordPrinter(formatJSON, "")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"topic":"orders","partition":3,"offset":17,"timestamp_ms":1700000000123,"leader_epoch":2,"key":"k","value":null,"value_base64":"Yf9i","headers":[{"key":"h","value":"1"},{"key":"n","value":null}]}` + "\n"
	if got := string(print(nil, r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// everyLine reads a stream to its end.
func everyLine(in io.Reader, bound int) (got piece, err error) {
	r := &lineReader{in: in, bound: bound}
	for err == nil {
		var p piece
		p, err = r.next()
		got.lines, got.tooLong = append(got.lines, p.lines...), append(got.tooLong, p.tooLong...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, err
}

func TestReadLines(t *testing.T) {
	long, longer := strings.Repeat("x", 3*chunkBytes), strings.Repeat("y", 5*chunkBytes+1)
	for _, c := range []struct {
		in      string
		want    []string
		tooLong []int64
	}{
		{in: ""},
		{in: "a\nb\n", want: []string{"a", "b"}},
		{in: "a\n\nb", want: []string{"a", "", "b"}},
		{in: "\n", want: []string{""}},
		{in: "a\r\n", want: []string{"a\r"}},
		{in: long + "\nb\n", want: []string{long, "b"}},
		{in: "a\n" + longer + "\nb\n", want: []string{"a", "b"}, tooLong: []int64{int64(len(longer))}},
		{in: "a\n" + longer, want: []string{"a"}, tooLong: []int64{int64(len(longer))}},
		{in: long + "x\n" + longer + "\n\n" + longer + "\nb", want: []string{"", "b"}, tooLong: []int64{int64(len(long)) + 1, int64(len(longer)), int64(len(longer))}},
		{in: longer + longer + "\n" + long, want: []string{long}, tooLong: []int64{2 * int64(len(longer))}},
	} {
		for name, in := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "torn": iotest.HalfReader(strings.NewReader(c.in)), "end with data": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, err := everyLine(in, len(long))
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, line := range got.lines {
				lines = append(lines, string(line))
			}
			if !slices.Equal(lines, c.want) || !slices.Equal(got.tooLong, c.tooLong) {
				t.Errorf("%s: %.20q of %d bytes: %d lines, want %d; too long %v, want %v", name, c.in, len(c.in), len(lines), len(c.want), got.tooLong, c.tooLong)
			}
		}
	}
	out := make(chan piece, 1)
	if err := readLines(t.Context(), iotest.ErrReader(fmt.Errorf("broken")), 10, out); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}

// TestLongLineIsReadInLinearWork counts what the reader asks memory for: a line of any length needs a few times the bound, and not more for each read.
func TestLongLineIsReadInLinearWork(t *testing.T) {
	const bound = 1 << 20
	allocated := func(length int) uint64 {
		in := iotest.HalfReader(io.LimitReader(endless{}, int64(length)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := everyLine(in, bound)
		runtime.ReadMemStats(&after)
		if err != nil || len(got.tooLong) != 1 || got.tooLong[0] != int64(length) {
			t.Fatalf("%v, %v", got.tooLong, err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if n := allocated(100 * bound); n > 10*bound {
		t.Errorf("a line of %d bytes took %d bytes of memory, bound %d", 100*bound, n, bound)
	}
}

// endless is a line without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// decodeAll decodes every line of standard output.
func decodeAll[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		var v T
		if err := dec.Decode(&v); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		all = append(all, v)
	}
}
