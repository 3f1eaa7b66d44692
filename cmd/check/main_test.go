package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
	"github.com/moldau-log/moldau/internal/history/check"
)

// judged runs the command and compares its exit status; it returns stdout and stderr.
func judged(t *testing.T, want int, args ...string) (out, talk string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if got := run(args, &stdout, &stderr); got != want {
		t.Fatalf("check %v: exit status %d, want %d\n%s%s", args, got, want, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// file makes a history of lines.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	one     = history.Value{Client: "p", Seq: 1}.String()
	two     = history.Value{Client: "p", Seq: 2}.String()
	sending = `{"t":1000,"client":"p","op":1,"type":"invoke","kind":"send","topic":"t","records":[{"p":0,"v":"` + one + `"}]}
{"t":2000,"client":"p","op":1,"type":"ok","kind":"send","topic":"t","records":[{"p":0,"o":0,"v":"` + one + `"}]}
`
	reading  = `{"t":3000,"client":"c","op":1,"type":"ok","kind":"poll","topic":"t","records":[{"p":0,"o":0,"e":1,"v":"` + one + `"}]}` + "\n"
	inventor = `{"t":3000,"client":"c","op":1,"type":"ok","kind":"poll","topic":"t","records":[{"p":0,"o":0,"e":1,"v":"` + two + `"}]}` + "\n"
)

func TestCleanHistoryOfTwoFiles(t *testing.T) {
	out, _ := judged(t, 0, file(t, "reads", reading), file(t, "sends", sending+`{"t":30`)) // the order of the files does not matter
	for _, want := range []string{"3 events", "send      1   1     0     0", "clean: no anomaly", "sends:3 ends in the middle of a line"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestAnomaliesAsTextAndJSON(t *testing.T) {
	files := []string{file(t, "reads", inventor), file(t, "sends", sending)}
	out, _ := judged(t, 1, files...)
	if !strings.Contains(out, "phantom t-0 offset 0: p/2 was read, and nobody sent it") || !strings.Contains(out, "2 anomalies, 2 of them above") {
		t.Errorf("printed\n%s", out)
	}
	out, _ = judged(t, 1, append([]string{"-o", "json"}, files...)...)
	var r check.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Anomalies) != 2 || r.Total() != 2 || r.Counts.Operations[history.Send].OK != 1 {
		t.Errorf("reported %s", out)
	}
	again, _ := judged(t, 1, append([]string{"-o", "json"}, files...)...)
	if again != out {
		t.Error("the same files gave another report")
	}
}

func TestUnusable(t *testing.T) {
	good := file(t, "good", sending)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"usage:", nil},
		{"usage:", []string{"-limit", "0", good}},
		{"usage:", []string{"-o", "xml", good}},
		{"usage:", []string{"-max-gap", "-1s", good}},
		{"not defined", []string{"-nonsense", good}},
		{"no such file", []string{filepath.Join(t.TempDir(), "none")}},
		{"no events", []string{file(t, "empty", "\n")}},
		{"bad:2: not a JSON object", []string{good, file(t, "bad", "\nhello\n")}},
		{"late:1: check: client p, op 1, send ok at 2000: it completes what was not begun", []string{file(t, "late", strings.Split(sending, "\n")[1]+"\n")}},
		{"back:2: check: client p, op 1, send ok at 999: it ends before it began, at 1000", []string{file(t, "back", strings.Replace(sending, `"t":2000`, `"t":999`, 1))}},
	} {
		if _, talk := judged(t, 2, c.args...); !strings.Contains(talk, c.want) {
			t.Errorf("check %v: said %q, want %q", c.args, talk, c.want)
		}
	}
}
