package check

import (
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// origin is the event that says something.
type origin struct {
	client int32
	op     int64
	time   int64
	what   source
}

// saidFirst is the evidence of the event that said first what is at an offset.
func (c *Checker) saidFirst(s *slot) Evidence {
	return Evidence{What: s.what.String(), Client: c.names.texts[s.client], Op: s.op, Ended: s.time}
}

func (c *Checker) evidence(o origin) Evidence {
	return Evidence{What: o.what.String(), Client: c.names.texts[o.client], Op: o.op, Ended: o.time}
}

// sendOf is the send of a value, if there was one.
func (c *Checker) sendOf(id valueID) []Evidence {
	if id.isForeign() || c.values.at(id).status == neverSent {
		return nil
	}
	v := c.values.at(id)
	what := [...]string{neverSent: "", unknown: "sent, outcome unknown", okay: "sent, acknowledged", failed: "sent, failed"}[v.status]
	return []Evidence{{What: what, Client: c.names.texts[id>>seqBits], Op: v.op, Began: v.began, Ended: v.ended}}
}

// claim takes that a value is at an offset: from a poll, a replica, or a firm acknowledgement. Two values at one offset, or two epochs, are an anomaly.
func (c *Checker) claim(p *part, offset int64, id valueID, epoch int32, by origin) *slot {
	s := p.slots.at(offset)
	if s.value == 0 {
		*s = slot{value: id, time: by.time, op: by.op, client: by.client, epoch: epoch, what: by.what}
		return s
	}
	switch {
	case s.value != id, epoch != history.Unknown && s.epoch != history.Unknown && epoch != s.epoch:
		c.conflict(p, offset, s, id, epoch, by)
	case s.epoch == history.Unknown:
		s.epoch = epoch
	}
	return s
}

// conflict takes that two sources differ. Whether two replicas may do so is known at the end.
func (c *Checker) conflict(p *part, offset int64, s *slot, id valueID, epoch int32, by origin) {
	if s.what == byReplica && by.what == byReplica {
		p.differs = append(p.differs, differ{offset: offset, id: id, epoch: epoch, by: by})
		return
	}
	c.foundAs(InconsistentOffsets, p, offset, subject{offset: offset, id: id}, func(a *Anomaly) {
		a.Value = c.text(s.value)
		a.Detail = fmt.Sprintf("%s is there, and so is %s", c.text(s.value), c.text(id))
		a.Evidence = append(append(append(a.Evidence, c.saidFirst(s), c.evidence(by)), c.sendOf(s.value)...), c.sendOf(id)...)
		if s.value == id {
			a.Detail = fmt.Sprintf("%s is there in leader epoch %d and in %d", c.text(id), s.epoch, epoch)
			a.Evidence = append(append([]Evidence{}, c.saidFirst(s), c.evidence(by)), c.sendOf(id)...)
		}
	})
}

// place takes that a value is at an offset, weakly acknowledged ones too. One value at two offsets is an anomaly; in replicas, that is known at the end. A producer whose
// retries may store it twice has it in the partition that it was sent to all the same.
func (c *Checker) place(p *part, offset int64, id valueID, v *value, what source) {
	if !v.placed {
		v.placed, v.place, v.offset = true, p.index, offset
		return
	}
	if v.place == p.index && v.offset == offset {
		return
	}
	if v.loose {
		if v.want >= 0 && v.want != p.index {
			c.misplaced(p, offset, id, v)
		}
		return
	}
	if what == byReplica {
		p.copies = append(p.copies, copied{offset, id})
		return
	}
	c.twice(p, offset, id)
}

func (c *Checker) twice(p *part, offset int64, id valueID) {
	v := c.values.at(id)
	c.foundAs(Duplicate, p, offset, subject{offset: offset, id: id}, func(a *Anomaly) {
		first := c.parts[v.place]
		a.Value = c.text(id)
		a.Detail = fmt.Sprintf("%s is also at %s-%d offset %d", c.text(id), first.topic.id, first.number, v.offset)
		if s := first.slots.at(v.offset); s.value == id {
			a.Evidence = append(a.Evidence, c.saidFirst(s))
		}
		if s := p.slots.at(offset); s.value == id {
			a.Evidence = append(a.Evidence, c.saidFirst(s))
		}
		a.Evidence = append(a.Evidence, c.sendOf(id)...)
	})
}
