package check

import (
	"cmp"
	"fmt"
	"slices"
)

// trim is a deletion of records from below, by DeleteRecords.
type trim struct {
	part  *part
	start int64
	time  int64 // of its acknowledgement, never for unknown
	by    origin
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

// judgeDeleted holds the first records after a move to what had been deleted before it.
func (c *Checker) judgeDeleted(p *part, offset, moved int64, by origin) {
	if moved == 0 || len(p.trims) == 0 {
		return
	}
	c.checked[DeletedRead]++
	before, _ := slices.BinarySearchFunc(p.trims, moved, func(t trim, moved int64) int { return cmp.Compare(t.time, moved) })
	if before == 0 || offset >= p.trims[before-1].start {
		return
	}
	t := p.trims[before-1]
	c.found(DeletedRead, p, offset, func(a *Anomaly) {
		a.Detail = fmt.Sprintf("offset %d was read, and everything below %d had been deleted", offset, t.start)
		a.Evidence = []Evidence{{What: "deleted", Client: c.names.texts[t.by.client], Op: t.by.op, Ended: t.time}, c.evidence(by)}
	})
}
