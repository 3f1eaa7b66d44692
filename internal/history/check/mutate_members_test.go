package check

import (
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// forgetful are mutations of a member that does not know what it was told.
var forgetful = []mutation{
	{"a member commits with another generation than it was told", FencedCommit, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Commit && e.Type == history.OK && e.Generation > 0 && h.toldBefore(e.Client, h.begun(e))
		})
		if ok {
			h.everywhereOp(h.events[a.event], func(e *history.Event) { e.Generation = -1 })
		}
		return ok
	}},
	{"a member says that it kept what another had", TwoOwners, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Assign, "")(e, i) && e.Records[i].Offset != history.Kept && h.hadBefore(e, e.Records[i].Partition)
		})
		if ok {
			h.record(a).Offset = history.Kept
		}
		return ok
	}},
}

// toldBefore says that a member was told its generation before a time, since its group was deleted last.
func (h *hand) toldBefore(member string, time int64) bool {
	told := false
	for i := range h.events {
		switch e := &h.events[i]; {
		case e.Time >= time:
			return told
		case h.deletes(e), h.deletingAt(e.Time):
			told = false
		case e.Kind == history.Assign && e.Client == member:
			told = true
		}
	}
	return told
}

// hadBefore says that the member of an assignment had a partition before another member had it, since the group was deleted last.
func (h *hand) hadBefore(assign *history.Event, p int32) bool {
	had, other := false, false
	for i := range h.events {
		e := &h.events[i]
		if e == assign {
			break
		}
		owns := e.Kind == history.Assign && slices.ContainsFunc(e.Records, func(r history.Record) bool { return r.Partition == p })
		switch {
		case h.deletes(e), h.deletingAt(e.Time):
			had, other = false, false
		case owns && e.Client == assign.Client:
			had, other = true, false
		case owns:
			other = had
		}
	}
	return had && other
}
