package check

import (
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// session is a consumer's reading of a partition without a break: from an assign, a seek, or its first poll.
type session struct {
	first int64 // offset from which it has everything
	next  int64 // last offset read + 1; where it has to begin before that
	whole int64 // as next, of what was read before the topic began to be deleted
	// moved is when its position was set, 0 where it never was: until its first records come it holds no older answer.
	moved int64
	began bool // records have come
	// taken says that a new owner has it and did not tell where it begins: its first record does.
	taken bool
	last  origin
}

// gap is a range that a poll left out: an anomaly if something is known to be there, which only the end can say.
type gap struct {
	from, to int64 // to is what was read
	kind     Kind
	before   origin // of the poll that ended at from; none if it began there
	by       origin
}

// polled takes the records of a poll.
func (c *Checker) polled(client int32, op *operation, e *history.Event) error {
	if e.Type != history.OK {
		return nil
	}
	by := origin{client: client, op: e.Op, time: e.Time, what: byPoll}
	if e.Group != "" {
		c.groups.of[client] = c.groups.group(e.Group)
	}
	began := int64(0)
	if op != nil {
		began = op.began
	}
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil || r.Offset < 0 {
			return fmt.Errorf("record %d has no place", i)
		}
		if err := c.readOne(p, e, r, by, began); err != nil {
			return err
		}
		c.follow(p, r, by, began)
	}
	return nil
}

// readOne takes one record that a poll returned.
func (c *Checker) readOne(p *part, e *history.Event, r *history.Record, by origin, began int64) error {
	c.counts.Read++
	id := c.valueOf(r.Value)
	v := c.values.at(id)
	s := c.claim(p, r.Offset, id, r.Epoch, by)
	if s.value == id {
		s.read = true
	}
	if e.Action == history.Drain {
		if began == 0 {
			began = min(c.drainBegan(p, by.client, nil, e), e.Time)
		}
		d, err := p.drain(by.client, e.Broker, began)
		if err != nil {
			return err
		}
		if s.value == id {
			s.drains |= d.bit
		}
	}
	c.place(p, r.Offset, id, v, byPoll)
	v.read = true
	v.firstRead = min(v.firstRead, e.Time)
	p.reached(r.Offset+1, floorRead, by)
	return nil
}

// follow holds a record to the consumer's position.
func (c *Checker) follow(p *part, r *history.Record, by origin, began int64) {
	s := c.sessions[by.client][p.index]
	if s == nil {
		s = c.enter(by.client, p, session{first: r.Offset, next: -1, moved: began})
	}
	skip, back := PollSkip, NonmonotonicPoll
	if s.last == by {
		skip, back = IntPollSkip, IntNonmonotonicPoll
	}
	c.checked[skip]++
	c.checked[back]++
	switch {
	case s.next < 0: // it begins anywhere
		s.first = r.Offset
	case r.Offset < s.next:
		c.found(back, p, r.Offset, func(a *Anomaly) {
			a.Value = c.text(c.valueOf(r.Value))
			a.Detail = fmt.Sprintf("offset %d was returned to a consumer whose next offset is %d", r.Offset, s.next)
			a.Evidence = c.both(s.last, by)
		})
	case r.Offset > s.next:
		p.gaps = append(p.gaps, gap{from: s.next, to: r.Offset, kind: skip, before: s.last, by: by})
	}
	if !s.began {
		c.judgeDeleted(p, r.Offset, s.moved, by)
		if s.taken {
			c.start(registerKey{c.groups.of[by.client], p.index}, r.Offset, s.moved, by)
		}
	}
	s.began = true
	if s.next, s.last = r.Offset+1, by; !p.topic.gone() {
		s.whole = s.next
	}
	c.groups.processed(by.client, p.index, s.next, by)
}

// both is the evidence of an operation and the one before it, if there was one.
func (c *Checker) both(before, by origin) []Evidence {
	var e []Evidence
	if before.client != 0 {
		e = append(e, c.evidence(before))
	}
	if before != by {
		e = append(e, c.evidence(by))
	}
	return e
}

// move ends a consumer's session in a partition and begins the next, at an offset or (-1) anywhere.
func (c *Checker) move(client int32, p *part, offset, time int64) *session {
	c.leave(client, p.index)
	return c.enter(client, p, session{first: max(offset, 0), next: offset, moved: time})
}

func (c *Checker) enter(client int32, p *part, s session) *session {
	if c.sessions[client] == nil {
		c.sessions[client] = map[int32]*session{}
	}
	c.sessions[client][p.index] = &s
	return &s
}

// leave ends a session. What it read from end to end is covered.
func (c *Checker) leave(client, part int32) {
	s := c.sessions[client][part]
	if s == nil {
		return
	}
	p := c.parts[part]
	if !p.topic.gone() { // a deletion that was under way has failed
		s.whole = s.next
	}
	if s.began && s.first < s.whole {
		p.covered = append(p.covered, span{s.first, s.whole - 1})
	}
	delete(c.sessions[client], part)
}

func (c *Checker) sought(client int32, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	for i := range e.Records {
		if p := c.part(e.Records[i].Topic, e.Records[i].Partition); p != nil {
			c.move(client, p, e.Records[i].Offset, e.Time)
			c.groups.skipped(client, p.index, e.Records[i].Offset, origin{client: client, op: e.Op, time: e.Time, what: bySeek})
		}
	}
}

// leaveAll ends every session, when the history ends. The order does not matter: spans are sorted.
func (c *Checker) leaveAll() {
	for client, sessions := range c.sessions {
		for part := range sessions {
			c.leave(client, part)
		}
	}
}

// judgeGaps looks into what polls left out. A value that is certain to be there was skipped.
func (c *Checker) judgeGaps(p *part) {
	for _, g := range p.gaps {
		offset := p.nextReadable(max(g.from, p.lowest))
		if offset >= g.to {
			continue
		}
		s := p.slots.at(offset)
		c.found(g.kind, p, offset, func(a *Anomaly) {
			a.Value = c.text(s.value)
			a.Detail = fmt.Sprintf("a consumer at offset %d was given %d, and %s is at %d", g.from, g.to, c.text(s.value), offset)
			a.Evidence = append(append(c.both(g.before, g.by), c.saidFirst(s)), c.sendOf(s.value)...)
		})
	}
}
