package check

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// TestFilesAreMergedByTime: a file for each client, or one whose lines are a little late, is judged as the events in their order.
func TestFilesAreMergedByTime(t *testing.T) {
	for seed := range uint64(20) {
		events := generate(seed, 200)
		want := text(t, judge(t, events))
		byClient := map[string][]byte{}
		for _, e := range events {
			byClient[e.Client] = e.AppendJSON(byClient[e.Client])
		}
		var sources []Source
		for name, file := range byClient {
			sources = append(sources, NewSource(name, bytes.NewReader(file)))
		}
		if got := merged(t, sources...); got != want {
			t.Fatalf("seed %d: by client\n%s\nat once\n%s", seed, got, want)
		}
		var file []byte
		for _, e := range late(events, rand.New(rand.NewPCG(seed, 3))) {
			file = e.AppendJSON(file)
		}
		if got := merged(t, NewSource("late", bytes.NewReader(file))); got != want {
			t.Fatalf("seed %d: late\n%s\nat once\n%s", seed, got, want)
		}
	}
}

func merged(t *testing.T, sources ...Source) string {
	t.Helper()
	c := New(Options{})
	if err := c.Merge(sources); err != nil {
		t.Fatal(err)
	}
	return text(t, c.Report())
}

// late moves lines back by less than the window, but not behind the next line of the same client.
func late(events []history.Event, random *rand.Rand) []history.Event {
	out := slices.Clone(events)
	for range len(out) {
		i := random.IntN(len(out) - 1)
		if e, next := out[i], out[i+1]; e.Client != next.Client && e.Time-next.Time < 20 && next.Time-e.Time < 20 {
			out[i], out[i+1] = next, e
		}
	}
	return out
}

// TestAFileOutOfOrderIsRefused: files that were put one behind the other would be judged wrongly.
func TestAFileOutOfOrderIsRefused(t *testing.T) {
	event := func(client string, time int) string {
		return string((&history.Event{Time: int64(time), Client: client, Op: int64(time), Type: history.OK, Kind: history.Join, Group: "g", Member: client, Generation: 1}).AppendJSON(nil))
	}
	var first, second strings.Builder
	for i := range 2 * window {
		first.WriteString(event("a", i+1))
		second.WriteString(event("b", i+1))
	}
	err := New(Options{}).Merge([]Source{NewSource("cat", strings.NewReader(first.String()+second.String()))})
	if want := fmt.Sprintf("cat:%d: it is out of order", 2*window+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("one behind the other: %v, want %s", err, want)
	}
	if err := New(Options{}).Merge([]Source{NewSource("a", strings.NewReader(first.String())), NewSource("b", strings.NewReader(second.String()))}); err != nil {
		t.Errorf("two files: %v", err)
	}
}

// TestEqualTimesKeepTheOrderOfAFile: an operation that takes no time is begun before it ends.
func TestEqualTimesKeepTheOrderOfAFile(t *testing.T) {
	var file strings.Builder
	for i := range 10 {
		v := history.Value{Client: "p", Seq: int64(i)}
		for _, kind := range []history.Type{history.Invoke, history.OK} {
			e := history.Event{Time: 7, Client: "p", Op: int64(i), Type: kind, Kind: history.Send, Records: []history.Record{{Topic: "t", Offset: int64(i), Epoch: -1, Value: v.String()}}}
			file.Write(e.AppendJSON(nil))
		}
	}
	if got := merged(t, NewSource("one", strings.NewReader(file.String())), NewSource("none", strings.NewReader(""))); !strings.Contains(got, "clean") {
		t.Errorf("judged as\n%s", got)
	}
}

// TestMergeNamesFileAndLine: what cannot be used is found again.
func TestMergeNamesFileAndLine(t *testing.T) {
	good := string((&history.Event{Time: 1, Client: "c", Type: history.OK, Kind: history.Join, Group: "g"}).AppendJSON(nil))
	for i, bad := range []string{"{", `{"t":1,"client":"c","type":"ok","kind":"send"}`} {
		err := New(Options{}).Merge([]Source{NewSource("good", strings.NewReader(good)), NewSource("bad", strings.NewReader(good+good+bad+"\n"))})
		if err == nil || !strings.Contains(err.Error(), "bad:3") {
			t.Errorf("%d: %v", i, err)
		}
	}
	c := New(Options{})
	if err := c.Merge([]Source{NewSource("torn", strings.NewReader(good+"{"))}); err != nil {
		t.Fatal(err)
	}
	if notes := fmt.Sprint(c.Report().Notes); !strings.Contains(notes, "torn:2") {
		t.Errorf("notes %s", notes)
	}
}
