package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// endOffset is an answer to a question for the end of a partition, or the end that a drain reached.
type endOffset struct {
	began, ended int64
	end          int64
	by           origin
	how          string
}

func (c *Checker) latest(client int32, op *operation, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	for i := range e.Records {
		r := &e.Records[i]
		if p := c.part(r.Topic, r.Partition); p != nil && r.Offset >= 0 {
			by := origin{client: client, op: e.Op, time: e.Time}
			p.ends = append(p.ends, endOffset{op.began, e.Time, r.Offset, by, "was answered as"})
			p.reached(r.Offset, floorEnd, by)
		}
	}
}

// judgeLatest: an end offset is not below what was known of the end before it was asked for: by a firm acknowledgement, a read, an answer, a drain, or a log start. The
// end of a drain is held to what was told of the end before the drain began; records that it lacks are an anomaly of their own.
func (c *Checker) judgeLatest(p *part, floors []floor) {
	c.judgeEnds(p, p.ends, floors)
	var ends []endOffset
	for _, d := range p.drains {
		if d.end >= 0 && !d.gone && d.began < never {
			ends = append(ends, endOffset{d.began, d.by.time, d.end, d.by, fmt.Sprintf("was reached by a drain from broker %d at", d.broker)})
		}
	}
	c.judgeEnds(p, ends, answered(floors))
}

// judgeEnds holds some ends to floors.
func (c *Checker) judgeEnds(p *part, ends []endOffset, floors []floor) {
	slices.SortStableFunc(ends, func(a, b endOffset) int { return cmp.Compare(a.began, b.began) })
	sweep := rising{floors: floors}
	for _, q := range ends {
		c.checked[LatestBack]++
		if before := sweep.before(q.began); q.end < before.end {
			c.latestBack(p, q, before)
		}
	}
}

func (c *Checker) latestBack(p *part, q endOffset, f floor) {
	c.found(LatestBack, p, q.end, func(a *Anomaly) {
		asked := Evidence{What: "end asked for", Client: c.names.texts[q.by.client], Op: q.by.op, Began: q.began, Ended: q.ended}
		a.Detail = fmt.Sprintf("the end %s %d, and it had been at least %d", q.how, q.end, f.end)
		a.Evidence = append(c.evidenceOf(p, f), asked)
	})
}
