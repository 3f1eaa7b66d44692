package check

import (
	"math/rand/v2"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// belated are mutations of commits that come late.
var belated = []mutation{
	{"a commit that has a number takes effect behind a later acknowledged one", StaleCommit, func(h *hand) bool { return h.lateCommit(true) }},
	{"a commit takes effect behind a later acknowledged one of a newer generation", StaleCommit, func(h *hand) bool {
		return h.lateCommit(false, func(w *history.Event) { w.Generation-- })
	}},
}

// TestALateCommitWithoutANumberIsRight: what is an anomaly of a client that numbers its commits is none of another.
func TestALateCommitWithoutANumberIsRight(t *testing.T) {
	done := 0
	for seed := range uint64(120) {
		h := &hand{events: deep(generate(seed, 200)), random: rand.New(rand.NewPCG(seed, 2))}
		if !h.lateCommit(false) {
			continue
		}
		done++
		if r := judge(t, h.events); !r.Clean() {
			t.Fatalf("seed %d:\n%s", seed, text(t, r))
		}
	}
	if done < 15 {
		t.Errorf("only %d of 120 histories had a place for it", done)
	}
}

// lateCommit lets a member give up one more commit right before one that is acknowledged, and a fetch that begins after that return it. No commit of a newer generation is acknowledged
// in between, and the group is never deleted.
func (h *hand) lateCommit(ordered bool, change ...func(w *history.Event)) bool {
	fetch, ok := h.pick(func(e *history.Event, i int) bool {
		return is(history.Committed, "")(e, i) && h.newestBefore(e, i) != nil && h.newestBefore(e, i).Ordered == ordered && !h.deletedWithin(0, never)
	})
	if !ok {
		return false
	}
	acked := h.newestBefore(&h.events[fetch.event], fetch.record)
	w := *acked
	w.Op += 1 << 20
	w.Records = []history.Record{*h.record(fetch)}
	w.Records[0].Offset = 1 << 30
	for _, f := range change {
		f(&w)
	}
	if w.Generation == 0 { // it would come from outside
		return false
	}
	h.record(fetch).Offset = w.Records[0].Offset
	var events []history.Event
	for _, e := range h.events {
		if e.Client == acked.Client && e.Op == acked.Op && e.Type == history.Invoke {
			for _, w.Type = range []history.Type{history.Invoke, history.Info} {
				w.Time = e.Time
				events = append(events, w)
			}
		}
		events = append(events, e)
	}
	h.events = events
	return true
}

// newestBefore is an acknowledged commit by a member to the partition of a fetched offset, that ended before the fetch began: of the newest generation of these; nil for none.
func (h *hand) newestBefore(fetch *history.Event, i int) *history.Event {
	var newest *history.Event
	began := h.begun(fetch)
	for j := range h.events {
		e := &h.events[j]
		if e.Time >= began {
			break
		}
		if e.Kind != history.Commit || e.Type != history.OK || e.Generation == 0 {
			continue
		}
		for k := range e.Records {
			if e.Records[k].Partition == fetch.Records[i].Partition && (newest == nil || e.Generation > newest.Generation) {
				newest = e
			}
		}
	}
	return newest
}
