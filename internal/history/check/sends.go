package check

import "fmt"

// judgeValues holds every value against its send: was it sent, before it was read, to where it is; and puts firm acknowledgements where they say to be.
// Then it holds each client's sends to their order.
func (c *Checker) judgeValues() {
	order := producerOrder{last: map[int32]ordered{}}
	c.values.each(func(id valueID, v *value) {
		seen := v.read || v.stored
		if seen {
			c.checked[Phantom]++
		}
		if v.status == neverSent {
			c.judgePhantom(id, v)
			return
		}
		if !v.loose {
			c.checked[Duplicate]++
		}
		if seen && v.want >= 0 {
			c.checked[Misplaced]++
		}
		if v.placed && v.want >= 0 && v.place != v.want {
			c.misplaced(c.parts[v.place], v.offset, id, v)
		}
		if v.read {
			c.checked[EarlyRead]++
			if v.firstRead < v.began {
				c.foundValue(EarlyRead, c.parts[v.place], v.offset, id, fmt.Sprintf("%s was read %.6f s before its send began", c.text(id), seconds(v.began-v.firstRead)))
			}
		}
		switch v.status {
		case unknown:
			order.check(c, id, v)
		case failed:
			c.checked[AbortedRead]++
			if seen {
				c.foundValue(AbortedRead, c.parts[v.place], v.offset, id, fmt.Sprintf("the send of %s failed, and %s", c.text(id), seenWhere(v)))
			}
		case okay:
			c.acknowledge(id, v)
			order.check(c, id, v)
		}
	})
}

func (c *Checker) misplaced(p *part, offset int64, id valueID, v *value) {
	want := c.parts[v.want]
	c.foundValue(Misplaced, p, offset, id, fmt.Sprintf("%s was sent to %s-%d", c.text(id), want.topic.id, want.number))
}

func (c *Checker) judgePhantom(id valueID, v *value) {
	why := "nobody sent it"
	if id.isForeign() {
		why = "no client can have sent it: it is mangled or foreign"
	}
	c.foundValue(Phantom, c.parts[v.place], v.offset, id, fmt.Sprintf("%s %s, and %s", c.text(id), seenWhere(v), why))
}

func seenWhere(v *value) string {
	switch {
	case v.read && v.stored:
		return "was read and is in a replica"
	case v.read:
		return "was read"
	}
	return "is in a replica"
}

// foundValue reports an anomaly of the value at an offset, with who saw it there and who sent it.
func (c *Checker) foundValue(kind Kind, p *part, offset int64, id valueID, detail string) {
	c.found(kind, p, offset, func(a *Anomaly) {
		a.Value, a.Detail = c.text(id), detail
		if s := p.slots.at(offset); s.value == id {
			a.Evidence = append(a.Evidence, c.saidFirst(s))
		}
		a.Evidence = append(a.Evidence, c.sendOf(id)...)
	})
}

// acknowledge puts a value where its acknowledgement says that it is. What was acknowledged weakly counts where it was seen.
func (c *Checker) acknowledge(id valueID, v *value) {
	if v.acked < 0 || v.weak {
		return
	}
	p := c.parts[v.place]
	if !p.firm() || v.offset != v.acked {
		return // the second is a duplicate, and reported as one
	}
	s := c.claim(p, v.acked, id, -1, origin{client: int32(id >> seqBits), op: v.op, time: v.ended, what: byAck})
	if s.value == id {
		s.acked = true
	}
}

// certain says that an acknowledged value holds its offset: firmly, or because it was seen there.
func (c *Checker) certain(v *value) bool {
	return v.status == okay && v.acked >= 0 && v.acked == v.offset && (v.read || v.stored || !v.weak && c.parts[v.place].firm())
}

// producerOrder holds the sends of one client after another to the order of their sequence.
type producerOrder struct {
	client valueID
	last   map[int32]ordered // by partition
}

type ordered struct {
	offset int64
	id     valueID
}

func (o *producerOrder) check(c *Checker, id valueID, v *value) {
	if client := id >> seqBits; client != o.client {
		o.client = client
		clear(o.last)
	}
	if known := c.certain(v) || v.status == unknown && v.read; v.loose || !known {
		return
	}
	c.checked[NonmonotonicSend]++
	before, ok := o.last[v.place]
	if ok && v.offset < before.offset {
		p := c.parts[v.place]
		c.found(NonmonotonicSend, p, v.offset, func(a *Anomaly) {
			a.Value = c.text(id)
			a.Detail = fmt.Sprintf("%s was sent after %s, which is at offset %d", c.text(id), c.text(before.id), before.offset)
			a.Evidence = append(c.sendOf(before.id), c.sendOf(id)...)
		})
	}
	o.last[v.place] = ordered{v.offset, id}
}
