package check

import (
	"cmp"
	"fmt"
	"slices"
)

// judgeStarts looks into what was left out between an owner and the next. A commit from outside the group that may have been there before moves the group on purpose.
func (c *Checker) judgeStarts() {
	moved := map[registerKey]resets{}
	for _, s := range c.groups.starts {
		p := c.parts[s.part]
		if _, ok := moved[s.registerKey]; !ok {
			moved[s.registerKey] = resetsOf(c.groups.registers[s.registerKey])
		}
		from := max(s.from, p.lowest, moved[s.registerKey].highest(s.by.time))
		offset := p.nextReadable(from)
		if offset >= s.to {
			continue
		}
		at := p.slots.at(offset)
		c.foundAs(StartSkip, p, offset, subject{offset: offset, group: s.group}, func(a *Anomaly) {
			a.Value = c.text(at.value)
			a.Detail = fmt.Sprintf("group %s: a new owner began at %d, and nobody was given what is from %d on", c.groups.texts[s.group], s.to, from)
			a.Evidence = append([]Evidence{c.evidence(s.before), c.evidence(s.by), c.saidFirst(at)}, c.sendOf(at.value)...)
		})
	}
}

// resets are the commits from outside a group, by their beginning, each with the highest offset so far.
type resets []reset

type reset struct{ began, highest int64 }

func resetsOf(reg *register) resets {
	var out resets
	if reg == nil {
		return out
	}
	for _, w := range reg.commits {
		if w.generation == 0 && w.status != failed {
			out = append(out, reset{w.began, w.offset})
		}
	}
	slices.SortFunc(out, func(a, b reset) int { return cmp.Compare(a.began, b.began) })
	for i := 1; i < len(out); i++ {
		out[i].highest = max(out[i].highest, out[i-1].highest)
	}
	return out
}

// highest is the highest offset of those that had begun at a time, -1 for none.
func (r resets) highest(time int64) int64 {
	count, _ := slices.BinarySearchFunc(r, time+1, func(r reset, time int64) int { return cmp.Compare(r.began, time) })
	if count == 0 {
		return -1
	}
	return r[count-1].highest
}
