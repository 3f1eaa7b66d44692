package check

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// mutation puts one fault into a correct history. It reports false where the history has no place for it.
type mutation struct {
	name   string
	want   Kind
	mutate func(h *hand) bool
}

var mutations = []mutation{
	{"a value leaves every read", LostWrite, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return h.firm(e, i) && e.Records[i].Offset < h.last(e.Records[i].Partition)
		})
		if ok {
			h.everywhere(h.record(a).Value, remove, history.Poll)
		}
		return ok
	}},
	{"a value leaves one drain", Unseen, func(h *hand) bool {
		firm := map[string]bool{}
		for i := range h.events {
			for j := range h.events[i].Records {
				if h.firm(&h.events[i], j) {
					firm[h.events[i].Records[j].Value] = true
				}
			}
		}
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Poll, history.Drain)(e, i) && firm[e.Records[i].Value]
		})
		if ok {
			remove(&h.events[a.event], a.record)
		}
		return ok
	}},
	{"a value leaves the middle of a poll", IntPollSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return inner(e, i) && e.Records[i].Offset >= h.lowest(e.Records[i].Partition)
		})
		if ok {
			remove(&h.events[a.event], a.record)
		}
		return ok
	}},
	{"a poll of a reader is dropped", PollSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Poll, history.Drain)(e, i) && e.Client == "d0" && e.Records[i].Offset >= h.lowest(e.Records[i].Partition) && len(e.Records) == 7 &&
				e.Records[0].Offset > h.lowest(e.Records[i].Partition) && e.Records[6].Offset < h.last(e.Records[i].Partition)
		})
		if ok {
			h.events[a.event].Records = nil
		}
		return ok
	}},
	{"two records of a poll change places", IntNonmonotonicPoll, func(h *hand) bool {
		a, ok := h.pick(inner)
		if ok {
			r := slices.Clone(h.events[a.event].Records)
			r[a.record], r[a.record+1] = r[a.record+1], r[a.record]
			h.events[a.event].Records = r
		}
		return ok
	}},
	{"a poll comes twice", NonmonotonicPoll, func(h *hand) bool {
		a, ok := h.pick(h.safe(is(history.Poll, history.Drain)))
		if ok {
			again := h.events[a.event]
			again.Op += 1 << 20
			h.events = slices.Insert(h.events, a.event+1, again)
		}
		return ok
	}},
	{"another value is read at an offset", InconsistentOffsets, func(h *hand) bool {
		a, ok := h.pick(h.safe(is(history.Poll, history.Drain)))
		b, sent := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Send && e.Type == history.Invoke && e.Records[i].Value != h.record(a).Value
		})
		if ok && sent {
			h.record(a).Value = h.record(b).Value
		}
		return ok && sent
	}},
	{"a value is acknowledged somewhere else", Duplicate, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) })
		if ok {
			h.record(a).Offset += 100_000
		}
		return ok
	}},
	{"a value was sent to another partition", Misplaced, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) })
		if ok {
			h.everywhere(h.record(a).Value, func(e *history.Event, i int) {
				if e.Type == history.Invoke {
					e.Records[i].Partition++
				}
			}, history.Send)
		}
		return ok
	}},
	{"a send that was read failed", AbortedRead, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) })
		if ok {
			h.events[a.event].Type = history.Fail
		}
		return ok
	}},
	{"a value that was read was not sent", Phantom, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) })
		if ok {
			op := h.events[a.event]
			h.events = slices.DeleteFunc(h.events, func(e history.Event) bool { return e.Client == op.Client && e.Op == op.Op })
		}
		return ok
	}},
	{"a read has a mangled value", Phantom, func(h *hand) bool {
		a, ok := h.pick(is(history.Poll, history.Drain))
		if ok {
			h.record(a).Value = history.Describe([]byte(h.record(a).Value + "x"))
		}
		return ok
	}},
	{"a value is read before it is sent", EarlyRead, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return h.firm(e, i) })
		b, sent := h.pick(func(e *history.Event, i int) bool {
			return e.Type == history.Invoke && e.Kind == history.Send && e.Records[i].Value == h.record(a).Value
		})
		if ok && sent {
			e := h.events[b.event]
			e.Client, e.Op, e.Type, e.Kind, e.Time = "early", 1, history.OK, history.Poll, e.Time-1
			r := *h.record(a)
			e.Records = []history.Record{r}
			h.events = slices.Insert(h.events, b.event, e)
		}
		return ok && sent
	}},
	{"two values of a producer change places", NonmonotonicSend, func(h *hand) bool { return h.swapTwo(func(a, b *history.Event) bool { return a.Client == b.Client }) }},
	{"a later value lies before an earlier one", RealTime, func(h *hand) bool {
		return h.swapTwo(func(a, b *history.Event) bool { return a.Time < h.begun(b) })
	}},
	{"an end goes back", LatestBack, func(h *hand) bool {
		var before *history.Event
		for i := range h.events {
			e := &h.events[i]
			if e.Kind != history.Latest || e.Type != history.OK {
				continue
			}
			if before != nil && before.Time < h.begun(e) && before.Records[0].Offset > 0 {
				e.Records[0].Offset = before.Records[0].Offset - 1
				return true
			}
			before = e
		}
		return false
	}},
	{"deleted records come back", DeletedRead, func(h *hand) bool {
		a, ok := h.pick(is(history.Admin, history.DeleteRecords))
		if !ok {
			return false
		}
		p := h.record(a).Partition
		b, read := h.pick(func(e *history.Event, i int) bool {
			return is(history.Poll, history.Drain)(e, i) && e.Records[i].Partition == p && i == 0 && e.Records[0].Offset == h.firstOf(e.Client, p)
		})
		if read {
			h.record(a).Offset = h.record(b).Offset + 1
			h.everywhereOp(h.events[a.event], func(e *history.Event) { e.Records[0].Offset = h.record(b).Offset + 1 })
		}
		return read
	}},
	{"an old committed offset comes back", StaleCommit, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Committed && e.Type == history.OK && h.committedBefore(e.Records[i].Partition, h.begun(e)) && !h.deletedWithin(h.begun(e), e.Time)
		})
		if ok {
			h.record(a).Offset = history.Unknown
		}
		return ok
	}},
	{"an offset is fetched that nobody committed", PhantomCommit, func(h *hand) bool {
		a, ok := h.pick(is(history.Committed, ""))
		if ok {
			h.record(a).Offset = 1 << 40
		}
		return ok
	}},
	{"a fenced commit is acknowledged", FencedCommit, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Commit && e.Type == history.OK && e.Generation > 1 && h.committedBefore(e.Records[i].Partition, h.begun(e))
		})
		if ok {
			h.everywhereOp(h.events[a.event], func(e *history.Event) { e.Generation = -1 })
		}
		return ok
	}},
	{"both members own a partition", TwoOwners, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool { return is(history.Assign, "")(e, i) && !h.deletingAt(e.Time) })
		if ok {
			e := h.events[a.event]
			e.Client, e.Member, e.Op = "m9", "m9", 1
			h.events = slices.Insert(h.events, a.event, e)
		}
		return ok
	}},
	{"a new owner begins too late", StartSkip, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return is(history.Assign, "")(e, i) && e.Records[i].Offset >= 0 && h.given(e, i)
		})
		if ok {
			h.record(a).Offset = h.last(h.record(a).Partition) + 1
		}
		return ok
	}},
	{"a checksum differs in one replica", ReplicaDiffers, func(h *hand) bool { return h.changeReplica(func(r *history.Record) { r.CRC ^= 1 << 31 }) }},
	{"a value differs in one replica", InconsistentOffsets, func(h *hand) bool {
		return h.changeReplica(func(r *history.Record) { r.Value = history.Value{Client: "p0", Seq: 1 << 30}.String() })
	}},
	{"a record leaves one replica", ReplicaHole, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Replica && e.Records[i].Value != "" && i > 0 && h.lowest(e.Records[i].Partition) < never
		})
		if ok {
			remove(&h.events[a.event], a.record)
		}
		return ok
	}},
	{"a replica ends too early", BeyondReplica, func(h *hand) bool {
		a, ok := h.pick(func(e *history.Event, i int) bool {
			return e.Kind == history.Replica && len(e.Records) > 3 && e.Records[0].Offset >= h.lowest(e.Records[0].Partition)
		})
		if ok {
			h.events[a.event].Records = h.events[a.event].Records[:1]
		}
		return ok
	}},
	{"a leader epoch goes back", EpochBack, func(h *hand) bool {
		a, ok := h.pick(h.safe(func(e *history.Event, i int) bool {
			return e.Kind == history.Replica && e.Records[i].Epoch > 0 && !strings.HasPrefix(e.Records[i].Value, "loose/") && i > 0 && e.Records[i-1].Epoch > 0
		}))
		if ok {
			h.everywhere(h.record(a).Value, func(e *history.Event, i int) { e.Records[i].Epoch = 0 }, history.Poll, history.Replica)
		}
		return ok
	}},
}

// TestEveryMutationIsFound: one fault in a correct history is reported as what it is.
func TestEveryMutationIsFound(t *testing.T) {
	for _, m := range slices.Concat(mutations, vanishing, unacknowledged, forgetful, belated) {
		t.Run(m.name, func(t *testing.T) {
			done := 0
			for seed := uint64(0); seed < 120 && done < 30; seed++ {
				h := &hand{events: deep(generate(seed, 200)), random: rand.New(rand.NewPCG(seed, 2))}
				if !m.mutate(h) {
					continue
				}
				done++
				r := judge(t, h.events)
				if !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Kind == m.want && c.Anomalies > 0 }) {
					t.Fatalf("seed %d: no %s in\n%s", seed, m.want, text(t, r))
				}
			}
			if done < 15 {
				t.Errorf("only %d of 120 histories had a place for it", done)
			}
		})
	}
}

// deep copies a history, records too.
func deep(events []history.Event) []history.Event {
	for i := range events {
		events[i].Records = slices.Clone(events[i].Records)
	}
	return events
}

// TestEveryKindHasAMutation: a kind of anomaly without one would not be known to be found.
func TestEveryKindHasAMutation(t *testing.T) {
	for _, r := range rules {
		if r.kind != Unavailable && !slices.ContainsFunc(mutations, func(m mutation) bool { return m.want == r.kind }) {
			t.Errorf("%s has none", r.kind)
		}
	}
}
