package check

import "fmt"

// drain is one reading of a partition from end to end while one broker leads it. The last reading of all is what decides whether a value is lost.
type drain struct {
	client int32
	broker int32
	bit    uint16
	began  int64
	end    int64 // where it stopped, -1 for not complete
}

// maxDrains bounds the drains of a partition that are told apart, by the bits of slot.drains.
const maxDrains = 16

// drain finds the drain of a client; nil when there are too many.
func (p *part) drain(client, broker int32, began int64) *drain {
	for _, d := range p.drains {
		if d.client == client {
			return d
		}
	}
	if len(p.drains) == maxDrains {
		return nil
	}
	d := &drain{client: client, broker: broker, bit: 1 << len(p.drains), began: began, end: -1}
	p.drains = append(p.drains, d)
	return d
}

func (d *drain) mark(s *slot) {
	if d != nil {
		s.drains |= d.bit
	}
}

// judgeLost asks for every firm acknowledged value where it is now. Values below the log start and in deleted topics need not be anywhere.
func (c *Checker) judgeLost(p *part) {
	covered := p.covered.merged()
	p.slots.each(p.lowest, never, func(offset int64, s *slot) bool {
		if !s.acked {
			return true
		}
		v := c.values.at(s.value)
		c.checked[LostWrite]++
		if !v.read && covered.has(offset) {
			c.foundValue(LostWrite, p, offset, s.value, fmt.Sprintf("%s was acknowledged, consumers read across its offset, and it is in no read", c.text(s.value)))
			return true
		}
		drained := false
		for _, d := range p.drains {
			if d.end < 0 || v.ended >= d.began {
				continue
			}
			drained = true
			c.checked[Unseen]++
			if s.drains&d.bit == 0 {
				c.unseen(p, offset, s, v, d)
			}
		}
		if !v.read && !drained && !p.topic.deleted {
			c.counts.Undrained++
		}
		return true
	})
}

func (c *Checker) unseen(p *part, offset int64, s *slot, v *value, d *drain) {
	others := "and no read has it"
	if v.read {
		others = "though it was read elsewhere"
	}
	c.foundValue(Unseen, p, offset, s.value, fmt.Sprintf("%s was acknowledged and is not in the drain %s from broker %d, which ended at %d, %s",
		c.text(s.value), c.names.texts[d.client], d.broker, d.end, others))
}
