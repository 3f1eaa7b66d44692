package load

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/internal/history"
)

func TestCounts(t *testing.T) {
	c := newCounts()
	send := func(at time.Duration, partition int32, acks string, err error) {
		c.add(history.Event{Kind: history.Send, Time: int64(at), Acks: acks, Records: []history.Record{{Topic: "t", Partition: partition}}}, err)
	}
	send(1*time.Second, 0, history.AcksISR, nil)
	send(2*time.Second, 1, history.AcksISR, nil)
	send(4*time.Second, 0, history.AcksLeader, nil) // says nothing of the in-sync set
	send(5*time.Second, 0, history.AcksISR, errors.New("timeout"))
	send(9*time.Second, 0, history.AcksISR, nil)
	send(9*time.Second, 1, history.AcksISR, nil)
	if name, gap := c.LongestGap(); name != "t-0" || gap != 8*time.Second {
		t.Errorf("the longest gap is %v of %q, want 8s of t-0", gap, name)
	}
	if got := c.Acknowledged(); got != 5 {
		t.Errorf("%d acknowledged, want 5", got)
	}
	for i := range 3 {
		c.Note(dataLoss, fmt.Errorf("offset %d", i))
	}
	if got := c.Losses(); got != 3 {
		t.Errorf("%d losses, want 3", got)
	}
	if lines := c.Lines(); len(lines) != 3 { // one of what was done, errors that differ in numbers only are one kind
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestEndSaysWhatIsCertain: fail is for what was never sent; any other error leaves the outcome unknown.
func TestEndSaysWhatIsCertain(t *testing.T) {
	var rec tape
	c := New(Addresses{}, 1, &rec, NewTopics()).client("c")
	for _, err := range []error{nil, errors.New("timeout"), fmt.Errorf("%w: no such partition", errNotSent)} {
		c.End(c.Begin(history.Event{Kind: history.Send}), err)
	}
	var got []history.Type
	for _, e := range rec {
		got = append(got, e.Type)
	}
	want := []history.Type{history.Invoke, history.OK, history.Invoke, history.Info, history.Invoke, history.Fail}
	if fmt.Sprint(got) != fmt.Sprint(want) || rec[0].Op == rec[2].Op || rec[0].Op != rec[1].Op {
		t.Errorf("%v, want %v", got, want)
	}
}

// tape keeps events, of one goroutine.
type tape []history.Event

func (t *tape) Write(e history.Event) { *t = append(*t, e) }
