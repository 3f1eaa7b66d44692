package check

import (
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// drain is one reading of a partition from end to end while one broker leads it. The last reading of all is what decides whether a value is lost.
type drain struct {
	client int32
	broker int32
	bit    uint32
	began  int64 // never for not known: it may have looked at any time
	end    int64 // where it stopped, -1 for not complete
	by     origin
	gone   bool // its topic was, when it ended
}

// maxDrains bounds the drains of a partition that are told apart, by the bits of slot.drains.
const maxDrains = 32

var errManyDrains = errors.New("more than 32 drains of a partition")

// drain finds the drain of a client.
func (p *part) drain(client, broker int32, began int64) (*drain, error) {
	for _, d := range p.drains {
		if d.client == client {
			return d, nil
		}
	}
	if len(p.drains) == maxDrains {
		return nil, errManyDrains
	}
	d := &drain{client: client, broker: broker, bit: 1 << len(p.drains), began: began, end: -1}
	p.drains = append(p.drains, d)
	return d, nil
}

// drainBegan is when a drain began of which there is one event: with the invoke of that, with the seek to the partition's beginning, or with the first event of its client.
func (c *Checker) drainBegan(p *part, client int32, op *operation, e *history.Event) int64 {
	if op != nil {
		return op.began
	}
	if s := c.sessions[client][p.index]; s != nil && s.moved > 0 {
		return s.moved
	}
	if first := c.names.first[client]; first < e.Time {
		return first
	}
	return never
}

// hasToHave says that a drain had to return what is at an offset since a time: if it was there when the drain began, or lies below the end that it reached.
func (d *drain) hasToHave(offset, since int64, everywhere bool) bool {
	if d.began == never {
		return (everywhere || since < d.by.time) && offset < d.end
	}
	return since < d.began || everywhere && offset < d.end
}

// lasting says since when the value at an offset has to stay there: since it was firmly acknowledged, or first read; never for neither. What nobody sent, or what
// failed, is an anomaly of its own.
func (c *Checker) lasting(p *part, offset int64, s *slot) (since int64) {
	v := c.values.at(s.value)
	since = never
	if s.acked {
		since = v.ended
	}
	if sent := v.status == unknown || v.status == okay; s.read && sent && v.place == p.index && v.offset == offset {
		since = min(since, v.firstRead)
	}
	return since
}

// judgeLost asks for every value that has to be there where it is now. Values below the log start need not be anywhere, and what was
// seen of a topic that was being deleted says nothing.
func (c *Checker) judgeLost(p *part) {
	covered := p.covered.merged()
	p.slots.each(p.lowest, never, func(offset int64, s *slot) bool {
		v := c.values.at(s.value)
		if s.acked {
			c.checked[LostWrite]++
			if !v.read && covered.has(offset) {
				c.foundValue(LostWrite, p, offset, s.value, fmt.Sprintf("%s was acknowledged, consumers read across its offset, and it is in no read", c.text(s.value)))
				return true
			}
		}
		since := c.lasting(p, offset, s)
		drained := c.judgeDrained(p, offset, s, since)
		dumped := c.judgeDumped(p, offset, s, since)
		if s.acked && !v.read && !drained && !dumped && !p.topic.gone() {
			c.counts.Undrained++
		}
		return true
	})
}

// judgeDrained asks every complete drain for a value that had to be there when it began, or that is below the end that it reached in all replicas. It says whether
// there was such a drain.
func (c *Checker) judgeDrained(p *part, offset int64, s *slot, since int64) (drained bool) {
	v := c.values.at(s.value)
	everywhere := since == never && (v.status == unknown || v.status == okay) && p.everywhere(offset, s)
	for _, d := range p.drains {
		if d.end < 0 || d.gone || !d.hasToHave(offset, since, everywhere) {
			continue
		}
		drained = true
		c.checked[Unseen]++
		if s.drains&d.bit == 0 {
			c.unseen(p, offset, s, fmt.Sprintf("is not in the drain %s from broker %d, which ended at %d", c.names.texts[d.client], d.broker, d.end))
		}
	}
	return drained
}

// judgeDumped asks the dumped replicas for a value that had to be there before. It says whether there was a dump.
func (c *Checker) judgeDumped(p *part, offset int64, s *slot, since int64) (dumped bool) {
	for _, l := range p.logs {
		if since >= l.began || l.gone {
			return false
		}
	}
	if len(p.logs) == 0 {
		return false
	}
	c.checked[Unseen]++
	if s.logs == 0 {
		c.unseen(p, offset, s, fmt.Sprintf("is in none of the %d replicas that were dumped", len(p.logs)))
	}
	return true
}

func (c *Checker) unseen(p *part, offset int64, s *slot, where string) {
	proof, others := "is in every replica", ", and no read has it"
	if s.read {
		proof, others = "was read", ""
	}
	if s.acked {
		proof = "was acknowledged"
		if s.read {
			others = ", though it was read elsewhere"
		}
	}
	c.foundValue(Unseen, p, offset, s.value, fmt.Sprintf("%s %s and %s%s", c.text(s.value), proof, where, others))
}
