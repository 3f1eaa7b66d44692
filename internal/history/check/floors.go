package check

import (
	"cmp"
	"fmt"
	"slices"
)

// floor is an end offset that is known from a time on: the readable end of a partition does not go back, so no later answer is below it, and what is sent later does not lie
// below it.
type floor struct {
	end    int64
	time   int64
	op     int64 // of the event; an acknowledgement is that of the value at end-1
	client int32
	source floorSource
}

// floorSource is what a floor is known by.
type floorSource uint8

const (
	floorRead    floorSource = iota // the record at end-1 was read
	floorEnd                        // end was answered as the end
	floorDrained                    // a drain reached end
	floorStart                      // end was seen as the log start, or everything below it was deleted
	floorAcked                      // the send of the value at end-1 was firmly acknowledged
	floorWeak                       // it was acknowledged by the leader alone, and the value was seen there: it had its place, and was not readable yet
)

// reached notes a floor if it is higher than those before it. They come nearly in the order of their times, so one is kept for every event that goes on.
func (p *part) reached(end int64, source floorSource, by origin) {
	if n := len(p.floors); n == 0 || end > p.floors[n-1].end {
		p.floors = append(p.floors, floor{end: end, time: by.time, op: by.op, client: by.client, source: source})
	}
}

// floorsOf are all floors of a partition, in the order of their times.
func (c *Checker) floorsOf(p *part) []floor {
	floors := slices.Clone(p.floors)
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		switch v := c.values.at(s.value); {
		case s.acked:
			floors = append(floors, floor{end: offset + 1, time: v.ended, source: floorAcked})
		case c.holds(p, offset, s):
			floors = append(floors, floor{end: offset + 1, time: v.ended, source: floorWeak})
		}
		return true
	})
	slices.SortStableFunc(floors, func(a, b floor) int { return cmp.Compare(a.time, b.time) })
	return floors
}

// holds says that the value at an offset was acknowledged there, and is certain to be there.
func (c *Checker) holds(p *part, offset int64, s *slot) bool {
	if s.value.isForeign() {
		return false
	}
	v := c.values.at(s.value)
	return c.certain(v) && v.place == p.index && v.offset == offset
}

// answered are those floors that somebody was told as the end or the beginning of the log, without a record that shows them.
func answered(floors []floor) []floor {
	return slices.DeleteFunc(slices.Clone(floors), func(f floor) bool { return f.source != floorEnd && f.source != floorDrained && f.source != floorStart })
}

// rising carries the highest floor along times that do not go back.
type rising struct {
	floors  []floor
	next    int
	highest floor
	// weak says that what was acknowledged by the leader alone counts.
	weak bool
}

// before is the highest floor that was known before a time; its end is 0 for none.
func (r *rising) before(time int64) floor {
	for ; r.next < len(r.floors) && r.floors[r.next].time < time; r.next++ {
		if f := r.floors[r.next]; f.end > r.highest.end && (r.weak || f.source != floorWeak) {
			r.highest = f
		}
	}
	return r.highest
}

// evidenceOf is the event that a floor is known by.
func (c *Checker) evidenceOf(p *part, f floor) []Evidence {
	switch f.source {
	case floorAcked, floorWeak:
		return c.sendOf(p.slots.at(f.end - 1).value)
	}
	what := [...]string{floorRead: "read", floorEnd: "end answered", floorDrained: "drained", floorStart: "log start"}[f.source]
	return []Evidence{{What: what, Client: c.names.texts[f.client], Op: f.op, Ended: f.time}}
}

// said tells in words what a floor says.
func (c *Checker) said(p *part, f floor) string {
	switch f.source {
	case floorRead:
		return fmt.Sprintf("offset %d had been read", f.end-1)
	case floorEnd:
		return fmt.Sprintf("the end had been answered as %d", f.end)
	case floorDrained:
		return fmt.Sprintf("a drain had reached the end %d", f.end)
	case floorStart:
		return fmt.Sprintf("the log start had been %d", f.end)
	}
	return fmt.Sprintf("%s was acknowledged at offset %d", c.text(p.slots.at(f.end-1).value), f.end-1)
}
