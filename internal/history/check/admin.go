package check

import "github.com/moldau-log/moldau/internal/history"

// administering takes an admin operation that begins. What is going to be deleted need not be there from now on; only a clear failure takes that back, so
// the deletion counts when the operation has ended in another way, or never.
func (c *Checker) administering(op *operation, e *history.Event) {
	switch e.Action {
	case history.DeleteRecords:
		c.trimming(op, e)
	case history.DeleteGroup:
		c.deleting(op, c.names.client(e.Client), e)
	}
	if op.topic = topicOf(e); e.Action == history.DeleteTopic && op.topic != "" {
		c.names.topic(op.topic).deleting(e.Time)
	}
}

func topicOf(e *history.Event) string {
	if e.Topic == "" && len(e.Records) > 0 {
		return e.Records[0].Topic
	}
	return e.Topic
}

// administered takes how an admin operation ended, or what was seen in one without an invoke.
func (c *Checker) administered(client int32, op *operation, e *history.Event) error {
	invoked := op
	if op == nil {
		op = &operation{kind: e.Kind, action: e.Action, began: e.Time, group: e.Group}
		c.administering(op, e)
	}
	by := origin{client: client, op: e.Op, time: e.Time}
	c.committed(op, e)
	if e.Action == history.DeleteGroup {
		c.deleted(op, e)
	}
	if op.action == history.DeleteTopic && op.topic != "" {
		c.names.topic(op.topic).deleted(op.began, e.Type == history.Fail)
	}
	if e.Type == history.Fail {
		return nil
	}
	if e.Action == history.DeleteRecords {
		c.trimming(op, e)
	}
	c.happened(op, by, e.Type == history.OK)
	if e.Type != history.OK {
		return nil
	}
	switch e.Action {
	case history.Relaxed, history.Unclean:
		if len(e.Records) == 0 {
			c.names.topic(e.Topic).relaxed = true
		}
	}
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil {
			continue
		}
		switch e.Action {
		case history.LogStart:
			p.lowest = max(p.lowest, r.Offset)
			p.reached(r.Offset, floorStart, by)
		case history.Relaxed, history.Unclean:
			p.relaxed = true
		case history.Drained:
			began := c.drainBegan(p, client, invoked, e)
			d, err := p.drain(client, e.Broker, began)
			if err != nil {
				return err
			}
			if invoked != nil {
				d.began = min(d.began, began)
			}
			d.end, d.by = r.Offset, by
			p.reached(r.Offset, floorDrained, by)
		}
	}
	return nil
}

// happened takes that a deletion was done, or may have been.
func (c *Checker) happened(op *operation, by origin, certain bool) {
	for _, t := range op.trims {
		if t.start < 0 {
			t.part.emptied = true
			continue
		}
		t.part.lowest = max(t.part.lowest, t.start)
		if t.time = never; certain {
			t.time, t.by = by.time, by
			t.part.trimmed(*t)
			t.part.reached(t.start, floorStart, by)
		}
	}
}

// unfinished takes what never ended: a deletion may have happened, and a send waits for its answer.
func (c *Checker) unfinished() {
	for _, op := range c.pending {
		switch op.kind {
		case history.Admin:
			c.happened(op, origin{}, false)
			if op.action == history.DeleteTopic && op.topic != "" {
				c.names.topic(op.topic).deleted(op.began, false)
			}
		case history.Send:
			for _, id := range op.values {
				if want := c.values.at(id).want; want >= 0 {
					p := c.parts[want]
					p.stuck = min(p.stuck, op.began)
				}
			}
		}
	}
}
