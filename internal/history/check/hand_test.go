package check

import (
	"math/rand/v2"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// hand changes a history.
type hand struct {
	events []history.Event
	random *rand.Rand
}

// at is a record of an event.
type at struct{ event, record int }

// pick chooses one of the records for which ok says so.
func (h *hand) pick(ok func(e *history.Event, i int) bool) (at, bool) {
	var all []at
	for i := range h.events {
		for j := range h.events[i].Records {
			if ok(&h.events[i], j) {
				all = append(all, at{i, j})
			}
		}
	}
	if len(all) == 0 {
		return at{}, false
	}
	return all[h.random.IntN(len(all))], true
}

func (h *hand) record(a at) *history.Record { return &h.events[a.event].Records[a.record] }

// everywhere calls f for every record of a kind with the same value.
func (h *hand) everywhere(value string, f func(e *history.Event, i int), kinds ...history.Kind) {
	for i := range h.events {
		e := &h.events[i]
		for j := len(e.Records) - 1; j >= 0; j-- {
			if value != "" && e.Records[j].Value == value && slices.Contains(kinds, e.Kind) {
				f(e, j)
			}
		}
	}
}

func remove(e *history.Event, i int) { e.Records = slices.Delete(slices.Clone(e.Records), i, i+1) }

// lowest is below what was ever deleted in a partition; in an unclean one nothing has to be there.
func (h *hand) lowest(p int32) int64 {
	var low int64
	for i := range h.events {
		e := &h.events[i]
		if len(e.Records) == 0 || e.Records[0].Partition != p {
			continue
		}
		switch e.Action {
		case history.DeleteRecords, history.LogStart:
			low = max(low, e.Records[0].Offset)
		case history.Unclean:
			return never
		}
	}
	return low
}

// last is the highest offset that a poll returned in a partition.
func (h *hand) last(p int32) int64 {
	high := int64(-1)
	for i := range h.events {
		for _, r := range h.events[i].Records {
			if h.events[i].Kind == history.Poll && r.Partition == p {
				high = max(high, r.Offset)
			}
		}
	}
	return high
}

func is(kind history.Kind, action string) func(*history.Event, int) bool {
	return func(e *history.Event, _ int) bool {
		return e.Type == history.OK && e.Kind == kind && e.Action == action
	}
}

// firm is a record that was acknowledged with acks=isr and has to be there.
func (h *hand) firm(e *history.Event, i int) bool {
	r := e.Records[i]
	return e.Type == history.OK && e.Kind == history.Send && e.Acks == "" && !e.NotIdempotent && r.Offset >= h.lowest(r.Partition)
}

// safe is as ok, in partitions where nothing acknowledged may be lost.
func (h *hand) safe(ok func(*history.Event, int) bool) func(*history.Event, int) bool {
	return func(e *history.Event, i int) bool { return ok(e, i) && h.lowest(e.Records[i].Partition) < never }
}

// inner says that a record of a poll has neighbours of its partition in the same poll.
func inner(e *history.Event, i int) bool {
	same := func(j int) bool {
		return j >= 0 && j < len(e.Records) && e.Records[j].Partition == e.Records[i].Partition
	}
	return e.Type == history.OK && e.Kind == history.Poll && same(i-1) && same(i+1)
}

// swap exchanges two values wherever they are but in what was begun.
func (h *hand) swap(a, b string) {
	for i := range h.events {
		if e := &h.events[i]; e.Kind != history.Send {
			for j := range e.Records {
				switch e.Records[j].Value {
				case a:
					e.Records[j].Value = b
				case b:
					e.Records[j].Value = a
				}
			}
		}
	}
	x, _ := h.pick(func(e *history.Event, i int) bool {
		return e.Kind == history.Send && e.Type == history.OK && e.Records[i].Value == a
	})
	y, _ := h.pick(func(e *history.Event, i int) bool {
		return e.Kind == history.Send && e.Type == history.OK && e.Records[i].Value == b
	})
	h.record(x).Offset, h.record(y).Offset = h.record(y).Offset, h.record(x).Offset
}

func (h *hand) changeReplica(f func(*history.Record)) bool {
	a, ok := h.pick(h.safe(func(e *history.Event, i int) bool { return e.Kind == history.Replica && e.Records[i].Value != "" }))
	if ok {
		f(h.record(a))
	}
	return ok
}

// everywhereOp calls f for all events of one operation.
func (h *hand) everywhereOp(op history.Event, f func(*history.Event)) {
	for i := range h.events {
		if e := &h.events[i]; e.Client == op.Client && e.Op == op.Op {
			f(e)
		}
	}
}

// swapTwo exchanges two firm values of one partition, of which the first was sent before.
func (h *hand) swapTwo(ok func(a, b *history.Event) bool) bool {
	a, b, found := h.twoFirm(ok)
	if found {
		h.swap(h.record(a).Value, h.record(b).Value)
	}
	return found
}

// twoFirm are two firm values of one partition, the second behind the first.
func (h *hand) twoFirm(ok func(a, b *history.Event) bool) (a, b at, found bool) {
	if a, found = h.pick(h.firm); !found {
		return a, b, false
	}
	x := h.record(a)
	b, found = h.pick(func(e *history.Event, i int) bool {
		return h.firm(e, i) && e.Records[i].Partition == x.Partition && e.Records[i].Offset > x.Offset && ok(&h.events[a.event], e)
	})
	return a, b, found
}

// begun is when the operation of an event began.
func (h *hand) begun(e *history.Event) int64 {
	for i := range h.events {
		if h.events[i].Client == e.Client && h.events[i].Op == e.Op {
			return h.events[i].Time
		}
	}
	return 0
}

// committedBefore says whether a commit of a member to a partition was acknowledged before a time, and its group was not deleted after that.
func (h *hand) committedBefore(p int32, time int64) bool {
	committed, deleted := false, int64(0)
	for i := range h.events {
		e := &h.events[i]
		if e.Time >= time {
			break
		}
		if h.deletes(e) {
			committed, deleted = false, e.Time
		}
		if e.Kind == history.Commit && e.Type == history.OK && e.Generation > 0 && h.begun(e) > deleted {
			committed = committed || slices.ContainsFunc(e.Records, func(r history.Record) bool { return r.Partition == p })
		}
	}
	return committed
}

// deletedWithin says whether a deletion of the group began or ended between two times.
func (h *hand) deletedWithin(from, to int64) bool {
	return slices.ContainsFunc(h.events, func(e history.Event) bool {
		return h.deletes(&e) && from <= e.Time && e.Time <= to
	})
}

// deletes says that an event is of a deletion of the group that was not refused.
func (h *hand) deletes(e *history.Event) bool {
	return e.Action == history.DeleteGroup && !slices.ContainsFunc(h.events, func(f history.Event) bool {
		return f.Client == e.Client && f.Op == e.Op && f.Type == history.Fail
	})
}

// deletingAt says whether a deletion of the group, refused or not, is under way at a time, or begins or ends then.
func (h *hand) deletingAt(time int64) bool {
	count := 0
	for i := range h.events {
		switch e := &h.events[i]; {
		case e.Action != history.DeleteGroup || e.Time > time:
		case e.Type == history.Invoke:
			count++
		case e.Time < time:
			count--
		}
	}
	return count > 0
}

// firstOf is the first offset that a client was given in a partition.
func (h *hand) firstOf(client string, p int32) int64 {
	for i := range h.events {
		for _, r := range h.events[i].Records {
			if h.events[i].Client == client && h.events[i].Kind == history.Poll && r.Partition == p {
				return r.Offset
			}
		}
	}
	return -1
}

// given says whether, before an assignment, it is known where the group was in its partition, and later something was read behind that.
func (h *hand) given(assign *history.Event, i int) bool {
	p := assign.Records[i].Partition
	at := h.position(p, assign)
	return !h.deletingAt(assign.Time) && at >= 0 && at <= h.last(p) && h.last(p) >= h.lowest(p)
}

// position is where the group was in a partition before an event, or was moved to from outside; -1 where it is not known.
func (h *hand) position(p int32, before *history.Event) int64 {
	at, outside, lost := int64(-1), int64(-1), false
	for i := range h.events {
		e := &h.events[i]
		if e == before {
			break
		}
		if h.deletes(e) {
			at, lost = -1, false
		}
		for _, r := range e.Records {
			switch {
			case r.Partition != p:
			case e.Kind == history.Assign && r.Offset >= 0:
				at, lost = max(at, r.Offset), false
			case e.Kind == history.Poll && e.Group != "":
				at = max(at, r.Offset+1)
			case e.Kind == history.Seek && e.Client[0] == 'm' && r.Offset >= 0:
				at = max(at, r.Offset)
			case e.Kind == history.Seek && e.Client[0] == 'm': // to a place that is not known: only a new owner tells
				lost = true
			case e.Kind == history.Commit && e.Generation == 0:
				outside = max(outside, r.Offset)
			}
		}
	}
	if at < 0 || lost {
		return -1
	}
	return max(at, outside)
}
