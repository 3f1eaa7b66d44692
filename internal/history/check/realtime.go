package check

import (
	"cmp"
	"fmt"
	"slices"
)

// interval is a send, by the times at which it began and was acknowledged.
type interval struct {
	began, ended int64
	offset       int64
	id           valueID
}

// judgeRealTime: a send that was acknowledged before another began has the smaller offset. A sweep over the beginnings carries the highest offset that
// was acknowledged before.
func (c *Checker) judgeRealTime(p *part) {
	var begins []interval
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		v := c.values.at(s.value)
		if !s.value.isForeign() && c.certain(v) && !v.loose && v.place == p.index && v.offset == offset {
			begins = append(begins, interval{v.began, v.ended, offset, s.value})
		}
		return true
	})
	c.checked[RealTime] += int64(len(begins))
	ends := slices.Clone(begins)
	slices.SortStableFunc(begins, func(a, b interval) int { return cmp.Compare(a.began, b.began) })
	slices.SortStableFunc(ends, func(a, b interval) int { return cmp.Compare(a.ended, b.ended) })
	highest := interval{offset: -1}
	next := 0
	for _, b := range begins {
		for ; next < len(ends) && ends[next].ended < b.began; next++ {
			if ends[next].offset > highest.offset {
				highest = ends[next]
			}
		}
		if highest.offset < b.offset {
			continue
		}
		c.found(RealTime, p, b.offset, func(a *Anomaly) {
			a.Value = c.text(b.id)
			a.Detail = fmt.Sprintf("%s began after %s was acknowledged at offset %d", c.text(b.id), c.text(highest.id), highest.offset)
			a.Evidence = append(c.sendOf(highest.id), c.sendOf(b.id)...)
		})
	}
}
