package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// trim is a deletion of records from below, by DeleteRecords.
type trim struct {
	part  *part
	start int64 // -1: where the readable end was, and nobody said where that is; anything may have been deleted
	time  int64 // of its acknowledgement, never for unknown
	by    origin
}

// trimming takes what a deletion says of its log starts: when it begins, and again when it was done, as the start may lie higher than was asked for.
func (c *Checker) trimming(op *operation, e *history.Event) {
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil {
			continue
		}
		if op.trims == nil {
			op.trims = map[*part]*trim{}
		}
		t := op.trims[p]
		if t == nil {
			t = &trim{part: p, start: history.Unknown}
			op.trims[p] = t
		}
		t.start = max(t.start, r.Offset)
	}
}

// trimmed notes a deletion that was acknowledged. p.trims rise in time and in start: one that another has made needless is left out. They come nearly in order.
func (p *part) trimmed(t trim) {
	at := len(p.trims)
	for at > 0 && p.trims[at-1].time > t.time {
		at--
	}
	if at > 0 && p.trims[at-1].start >= t.start {
		return
	}
	after := at
	for after < len(p.trims) && p.trims[after].start <= t.start {
		after++
	}
	p.trims = slices.Replace(p.trims, at, after, t)
}

// deletedBefore is the furthest deletion that was acknowledged before a time, one of nothing if there was none.
func (p *part) deletedBefore(time int64) trim {
	before, _ := slices.BinarySearchFunc(p.trims, time, func(t trim, time int64) int { return cmp.Compare(t.time, time) })
	if before == 0 {
		return trim{}
	}
	return p.trims[before-1]
}

// judgeDeleted holds the first records after a move to what had been deleted before it.
func (c *Checker) judgeDeleted(p *part, offset, moved int64, by origin) {
	if moved == 0 || len(p.trims) == 0 {
		return
	}
	c.checked[DeletedRead]++
	t := p.deletedBefore(moved)
	if offset >= t.start {
		return
	}
	c.found(DeletedRead, p, offset, func(a *Anomaly) {
		a.Detail = fmt.Sprintf("offset %d was read, and everything below %d had been deleted", offset, t.start)
		a.Evidence = []Evidence{{What: "deleted", Client: c.names.texts[t.by.client], Op: t.by.op, Ended: t.time}, c.evidence(by)}
	})
}
