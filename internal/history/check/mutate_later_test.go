package check

import (
	"slices"
	"strings"

	"github.com/moldau-log/moldau/internal/history"
)

// vanishing are mutations of what has been read or committed and is not there later.
var vanishing = []mutation{
	{"a value that was read leaves every drain and replica", Unseen, func(h *hand) bool { return h.vanish(true) }},
	{"a value that was read leaves every replica", ReplicaHole, func(h *hand) bool { return h.vanish(false) }},
	{"a value of unknown outcome leaves every read", IntPollSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Poll, history.Drain)(e, i) && inner(e, i) && h.unsure(e.Records[i].Value) && !strings.HasPrefix(e.Records[i].Value, "loose/") && e.Records[i].Offset >= h.lowest(e.Records[i].Partition)
		})
		if ok {
			h.everywhere(h.record(a).Value, remove, history.Poll)
		}
		return ok
	}},
	{"a new owner begins below a commit", StaleCommit, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			r := e.Records[i]
			return e.Kind == history.Assign && r.Offset > 0 && h.lowest(r.Partition) < never && h.committedOnly(r.Partition, e)
		})
		if ok {
			h.record(a).Offset = 0
		}
		return ok
	}},
}

// vanish takes a value that a consumer was given out of all replicas, but for their ends, and perhaps out of the drains; whatever its acknowledgement was.
func (h *hand) vanish(drains bool) bool {
	a, ok := h.pick(func(e *history.Event, i int) bool {
		once := !strings.HasPrefix(e.Records[i].Value, "loose/") // one that was stored twice has to be where it was seen first
		return is(history.Poll, "")(e, i) && once && h.unsure(e.Records[i].Value) && e.Records[i].Offset >= h.lowest(e.Records[i].Partition) && e.Records[i].Offset > 0
	})
	if !ok {
		return false
	}
	value := h.record(a).Value
	h.everywhere(value, func(e *history.Event, i int) {
		if e.Kind == history.Replica && i > 0 || drains && e.Action == history.Drain {
			remove(e, i)
		}
	}, history.Poll, history.Replica)
	return true
}

// unsure says that a value was not acknowledged firmly.
func (h *hand) unsure(value string) bool {
	_, firm := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) && e.Records[i].Value == value })
	return !firm
}

// committedOnly says that in a partition, before an assignment, a commit of an older generation was acknowledged, that none of offset 0 can have come behind it, and that
// nobody from outside moved the group or deleted it.
func (h *hand) committedOnly(p int32, assign *history.Event) bool {
	zeros := 0 // commits of 0 that have not ended, or whose outcome is unknown
	above := map[int64]bool{}
	older := false
	for i := range h.events {
		e := &h.events[i]
		if e == assign {
			break
		}
		at := slices.IndexFunc(e.Records, func(r history.Record) bool { return r.Partition == p })
		if h.deletes(e) || e.Kind == history.Commit && at >= 0 && e.Generation == 0 {
			return false
		}
		if e.Kind != history.Commit || at < 0 {
			continue
		}
		key := e.Op<<1 | int64(e.Client[1]&1) // the members are m0 and m1
		switch zero := e.Records[at].Offset == 0; {
		case zero && e.Type == history.Invoke:
			zeros++
			older = false
			clear(above)
		case zero:
			zeros--
		case e.Type == history.Invoke:
			above[key] = zeros == 0
		case e.Type == history.OK && e.Generation < assign.Generation && e.Time < assign.Time:
			older = older || above[key]
		}
	}
	return older
}
