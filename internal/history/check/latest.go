package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// floor is an end offset that is known from a time on, by a read or by an answer: no later answer may be below it. One is kept for every poll that reads on.
type floor struct {
	end    int64
	time   int64
	op     int64
	client int32 // 0 for a send
	// answered says that it is an answer; it is a read else, or the acknowledgement of the value at end-1.
	answered bool
}

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
			p.ends = append(p.ends, endOffset{op.began, e.Time, r.Offset, origin{client: client, op: e.Op, time: e.Time}})
		}
	}
}

// judgeLatest: an end offset is above everything that was firmly acknowledged, read, or answered before it was asked for.
func (c *Checker) judgeLatest(p *part) {
	if len(p.ends) == 0 {
		return
	}
	floors := slices.Clone(p.read)
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		if s.acked {
			v := c.values.at(s.value)
			floors = append(floors, floor{end: offset + 1, time: v.ended})
		}
		return true
	})
	for _, q := range p.ends {
		floors = append(floors, floor{end: q.end, time: q.ended, op: q.by.op, client: q.by.client, answered: true})
	}
	slices.SortStableFunc(floors, func(a, b floor) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(p.ends, func(a, b endOffset) int { return cmp.Compare(a.began, b.began) })
	highest := floor{end: -1}
	next := 0
	for _, q := range p.ends {
		c.checked[LatestBack]++
		for ; next < len(floors) && floors[next].time < q.began; next++ {
			if floors[next].end > highest.end {
				highest = floors[next]
			}
		}
		if q.end < highest.end {
			c.latestBack(p, q, highest)
		}
	}
}

func (c *Checker) latestBack(p *part, q endOffset, f floor) {
	c.found(LatestBack, p, q.end, func(a *Anomaly) {
		asked := Evidence{What: "end asked for", Client: c.names.texts[q.by.client], Op: q.by.op, Began: q.began, Ended: q.ended}
		before := Evidence{What: "read", Client: c.names.texts[f.client], Op: f.op, Ended: f.time}
		switch {
		case f.answered:
			before.What = "end answered"
		case f.client == 0:
			before = c.sendOf(p.slots.at(f.end - 1).value)[0]
		}
		a.Detail = fmt.Sprintf("the end was answered as %d, and it had been at least %d", q.end, f.end)
		a.Evidence = []Evidence{before, asked}
	})
}
