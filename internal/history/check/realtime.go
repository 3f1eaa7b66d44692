package check

import (
	"cmp"
	"fmt"
	"slices"
)

// laterSend is a send whose value is certain to lie at an offset.
type laterSend struct {
	began, offset int64
	id            valueID
	early         bool // it was read before it began: an anomaly of its own
}

// judgeRealTime: what is sent lies behind all that was acknowledged, read, or told as the end before its send began, whatever became of the send. Even what the leader
// alone acknowledged, and was seen: in the log that it is in, all that is below it had been there before. A sweep over the beginnings carries the highest of these ends.
func (c *Checker) judgeRealTime(p *part, floors []floor) {
	sends := c.sendsIn(p)
	c.checked[RealTime] += int64(len(sends))
	slices.SortStableFunc(sends, func(a, b laterSend) int { return cmp.Compare(a.began, b.began) })
	sweep := rising{floors: floors, weak: true}
	for _, b := range sends {
		before := sweep.before(b.began)
		if before.end <= b.offset || b.early && before.end == b.offset+1 {
			continue
		}
		c.found(RealTime, p, b.offset, func(a *Anomaly) {
			a.Value = c.text(b.id)
			a.Detail = fmt.Sprintf("%s began after %s", c.text(b.id), c.said(p, before))
			a.Evidence = append(c.evidenceOf(p, before), c.sendOf(b.id)...)
			if s := p.slots.at(b.offset); !s.acked {
				a.Evidence = append(a.Evidence, c.saidFirst(s))
			}
		})
	}
}

// sendsIn are the sends whose values are certain to be in a partition: acknowledged there, read, or in every replica. One that failed is an anomaly of
// its own.
func (c *Checker) sendsIn(p *part) []laterSend {
	var sends []laterSend
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		v := c.values.at(s.value)
		sent := v.status == okay || v.status == unknown
		if sent && (s.read || s.acked || c.holds(p, offset, s) || p.everywhere(offset, s)) {
			sends = append(sends, laterSend{v.began, offset, s.value, v.firstRead < v.began})
		}
		return true
	})
	return sends
}
