package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// endOffset is an answer to a question for the end of a partition.
type endOffset struct {
	began, ended int64
	end          int64
	by           origin
}

func (c *Checker) latest(client int32, op *operation, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	for i := range e.Records {
		r := &e.Records[i]
		if p := c.part(r.Topic, r.Partition); p != nil && r.Offset >= 0 {
			by := origin{client: client, op: e.Op, time: e.Time}
			p.ends = append(p.ends, endOffset{op.began, e.Time, r.Offset, by})
			p.reached(r.Offset, floorEnd, by)
		}
	}
}

// judgeLatest: an end offset is not below what was known of the end before it was asked for: by a firm acknowledgement, a read, an answer, a drain, or a log start.
func (c *Checker) judgeLatest(p *part, floors []floor) {
	slices.SortStableFunc(p.ends, func(a, b endOffset) int { return cmp.Compare(a.began, b.began) })
	sweep := rising{floors: floors}
	for _, q := range p.ends {
		c.checked[LatestBack]++
		if before := sweep.before(q.began); q.end < before.end {
			c.latestBack(p, q, before)
		}
	}
}

func (c *Checker) latestBack(p *part, q endOffset, f floor) {
	c.found(LatestBack, p, q.end, func(a *Anomaly) {
		asked := Evidence{What: "end asked for", Client: c.names.texts[q.by.client], Op: q.by.op, Began: q.began, Ended: q.ended}
		a.Detail = fmt.Sprintf("the end was answered as %d, and it had been at least %d", q.end, f.end)
		a.Evidence = append(c.evidenceOf(p, f), asked)
	})
}
