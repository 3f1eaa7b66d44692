package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
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

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", 3*chunkBytes)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil}, {"a\nb\n", []string{"a", "b"}}, {"a\n\nb", []string{"a", "", "b"}}, {"\n", []string{""}}, {"a\r\n", []string{"a\r"}}, {long + "\nb\n", []string{long, "b"}},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(c.in), "torn": iotest.HalfReader(strings.NewReader(c.in))} {
			out := make(chan [][]byte, 1000)
			if err := readLines(t.Context(), in, out); err != nil {
				t.Fatal(err)
			}
			close(out)
			var got []string
			for lines := range out {
				for _, line := range lines {
					got = append(got, string(line))
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s %.20q: %d lines, want %d", name, c.in, len(got), len(c.want))
			}
		}
	}
	if err := readLines(t.Context(), iotest.ErrReader(fmt.Errorf("broken")), make(chan [][]byte, 1)); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a broken input: %v", err)
	}
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
