package check

import (
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// differ is a record of a replica that is not what another replica has at its offset.
type differ struct {
	offset int64
	id     valueID
	epoch  int32
	crc    uint32
	by     origin
}

// copied is a record of a replica whose value was seen at another offset.
type copied struct {
	offset int64
	id     valueID
}

// settled is the end of what all replicas have to agree on: of what was firmly acknowledged, read, drained, or answered as an end. Above it the replicas of a cluster that
// was not at rest may have tails of their own, which are cut when they follow their leader.
func (p *part) settled() int64 {
	end := int64(0)
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		if s.read || s.acked {
			end = offset + 1
		}
		return true
	})
	for _, d := range p.drains {
		end = max(end, d.end)
	}
	for _, q := range p.ends {
		end = max(end, q.end)
	}
	return end
}

// judgeDiffers reports what replicas have differently below what is settled, and values that they have twice there, or that all have twice.
func (c *Checker) judgeDiffers(p *part, settled int64) {
	for _, d := range p.differs {
		if d.offset < settled {
			c.differs(p, d)
		}
	}
	for _, d := range p.copies {
		s := p.slots.at(d.offset)
		if d.offset < settled || s.value == d.id && p.everywhere(d.offset, s) {
			c.twice(p, d.offset, d.id)
		}
	}
}

func (c *Checker) differs(p *part, d differ) {
	s := p.slots.at(d.offset)
	c.foundAs(ReplicaDiffers, p, d.offset, subject{offset: d.offset, id: d.id}, func(a *Anomaly) {
		a.Value = c.text(d.id)
		a.Evidence = append(a.Evidence, c.saidFirst(s), c.evidence(d.by))
		switch {
		case s.value != d.id:
			a.Value = c.text(s.value)
			a.Detail = fmt.Sprintf("%s is there, and so is %s", c.text(s.value), c.text(d.id))
			a.Evidence = append(a.Evidence, c.sendOf(s.value)...)
		case s.epoch != d.epoch && d.epoch != history.Unknown:
			a.Detail = fmt.Sprintf("%s is there in leader epoch %d and in %d", c.text(d.id), s.epoch, d.epoch)
		default:
			a.Detail = fmt.Sprintf("the checksum of its batch is %08x in one replica, and %08x in another", d.crc, s.crc)
		}
		a.Evidence = append(a.Evidence, c.sendOf(d.id)...)
	})
}
