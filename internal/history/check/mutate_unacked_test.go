package check

import (
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// unacknowledged are mutations that show in no acknowledgement: what a send or an owner is held to had only been read, told as the end, or told by the first record.
var unacknowledged = []mutation{
	{"a later value of unknown outcome lies before an earlier one", RealTime, func(h *hand) bool {
		a, b, ok := h.twoFirm(func(a, b *history.Event) bool { return a.Time < h.begun(b) })
		if ok {
			h.swap(h.record(a).Value, h.record(b).Value)
			h.forget(func(e *history.Event) bool { return e == &h.events[b.event] })
		}
		return ok
	}},
	{"a value lies before one that was read before it was sent", RealTime, func(h *hand) bool {
		return h.sendAfter(func(e *history.Event, i int, offset int64) bool {
			return e.Kind == history.Poll && e.Records[i].Offset > offset
		}, false)
	}},
	{"a value lies below an end that was answered before it was sent", RealTime, func(h *hand) bool {
		return h.sendAfter(func(e *history.Event, i int, offset int64) bool {
			return e.Kind == history.Latest && e.Records[i].Offset > offset+1
		}, true)
	}},
	{"an end is below a value of unknown outcome that was read", LatestBack, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Latest, "")(e, i) && h.readBefore(e.Records[i].Partition, h.begun(e)) > 0 && h.lowest(e.Records[i].Partition) < never
		})
		if !ok {
			return false
		}
		answer := &h.events[a.event]
		h.forget(func(e *history.Event) bool { return true })
		for i := range h.events {
			if e := &h.events[i]; e != answer && e.Kind == history.Latest {
				e.Records = nil
			}
		}
		h.record(a).Offset = h.readBefore(h.record(a).Partition, h.begun(answer))
		return true
	}},
	{"a new owner begins too late, behind one that was given nothing", StartSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Assign, "")(e, i) && e.Records[i].Offset >= 0 && h.given(e, i) && h.began(e.Records[i].Partition, e)
		})
		if !ok {
			return false
		}
		p := h.record(a).Partition
		for i := range a.event {
			e := &h.events[i]
			if e.Kind == history.Poll && e.Group != "" {
				e.Records = slices.DeleteFunc(slices.Clone(e.Records), func(r history.Record) bool { return r.Partition == p })
			}
		}
		h.record(a).Offset = h.last(p) + 1
		return true
	}},
	{"a new owner that does not tell where it begins is given too late a record", StartSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Poll, "")(e, i) && e.Group != "" && i+1 < len(e.Records) && e.Records[i+1].Partition == e.Records[i].Partition &&
				e.Records[i].Offset >= h.lowest(e.Records[i].Partition) && h.assignOf(e, i) != nil && !h.deletingAt(e.Time)
		})
		if !ok {
			return false
		}
		h.assignOf(&h.events[a.event], a.record).Offset = history.Unknown
		remove(&h.events[a.event], a.record)
		return true
	}},
}

// forget makes what became of sends unknown.
func (h *hand) forget(which func(e *history.Event) bool) {
	for i := range h.events {
		if e := &h.events[i]; e.Kind == history.Send && e.Type == history.OK && which(e) {
			e.Type, e.Records = history.Info, nil
		}
	}
}

// sendAfter moves the only acknowledged send of a partition behind an event that told of an end above it; what was read before may be left out.
func (h *hand) sendAfter(above func(e *history.Event, i int, offset int64) bool, unread bool) bool {
	var place at
	b, ok := h.pick(func(e *history.Event, i int) bool {
		p := e.Records[i].Partition
		if !h.firm(e, i) {
			return false
		}
		var found bool
		place, found = h.pick(func(f *history.Event, j int) bool {
			return f.Type == history.OK && f.Records[j].Partition == p && above(f, j, e.Records[i].Offset) && f.Time > e.Time
		})
		return found
	})
	if !ok {
		return false
	}
	offset, p := h.record(b).Offset, h.record(b).Partition
	place, _ = h.pick(func(f *history.Event, j int) bool {
		return f.Type == history.OK && f.Records[j].Partition == p && above(f, j, offset) && f.Time > h.events[b.event].Time
	})
	acked := h.events[b.event]
	h.forget(func(e *history.Event) bool { return e != &h.events[b.event] })
	var late []history.Event
	var rest []history.Event
	for i, e := range h.events {
		switch {
		case e.Client == acked.Client && e.Op == acked.Op:
			e.Time = h.events[place.event].Time + 1
			late = append(late, e)
			continue
		case unread && i < place.event && e.Kind == history.Poll:
			e.Records = nil
		case i > place.event:
			e.Time += 2
		}
		rest = append(rest, e)
	}
	h.events = slices.Insert(rest, place.event-1, late...)
	return true
}

// readBefore is the highest offset of a partition that was read before a time, -1 for none.
func (h *hand) readBefore(p int32, time int64) int64 {
	high := int64(-1)
	for i := range h.events {
		for _, r := range h.events[i].Records {
			if e := &h.events[i]; e.Kind == history.Poll && e.Time < time && r.Partition == p {
				high = max(high, r.Offset)
			}
		}
	}
	return high
}

// began says that an owner of a partition, in the group's life that an assignment belongs to, told where it began, and nobody moved by hand.
func (h *hand) began(p int32, assign *history.Event) bool {
	told := false
	for i := range h.events {
		e := &h.events[i]
		if e == assign {
			break
		}
		told = told && !h.deletes(e)
		for _, r := range e.Records {
			told = told || e.Kind == history.Assign && r.Partition == p && r.Offset >= 0
			told = told && !(e.Kind == history.Seek && e.Client[0] == 'm' && r.Partition == p)
		}
	}
	return told
}

// assignOf is the record of the assignment with which the member of a poll took a partition over, if a record is the first that it was given since, and none that the group had
// been given before; nil if not.
func (h *hand) assignOf(poll *history.Event, i int) *history.Record {
	p := poll.Records[i].Partition
	var assign *history.Record
	for j := range h.events {
		e := &h.events[j]
		if e == poll {
			break
		}
		if e.Client != poll.Client || e.Kind == history.Commit {
			continue
		}
		for k := range e.Records {
			switch r := &e.Records[k]; {
			case r.Partition != p:
			case e.Kind == history.Assign && r.Offset != history.Kept:
				if assign = r; h.deletingAt(e.Time) {
					assign = nil
				}
			case e.Kind != history.Assign:
				assign = nil
			}
		}
	}
	if i > 0 && poll.Records[i-1].Partition == p || assign == nil {
		return nil
	}
	was := *assign
	assign.Offset = history.Unknown // what it told itself does not count
	at := h.position(p, poll)
	*assign = was
	if at < 0 || at > poll.Records[i].Offset {
		return nil
	}
	return assign
}
