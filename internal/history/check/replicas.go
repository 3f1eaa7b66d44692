package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// replicaLog is the log of one broker, as it was read from its disk.
type replicaLog struct {
	broker     int32
	bit        uint16
	start, end int64 // of its records; end is exclusive, and may be given without a record
	epoch      int32 // of the last record
	began      int64 // time from which it shows the log: what came later need not be in it
	by         origin
	gone       bool // its topic was, when the last of it was read
}

// maxLogs bounds the replicas of a partition, by the bits of slot.logs.
const maxLogs = 16

var (
	errManyLogs = errors.New("more than 16 replicas of a partition")
	errLogOrder = errors.New("a replica's offsets do not rise: one dump of each replica can be judged")
	errLogPlace = errors.New("a replica's record has no partition or no offset")
)

func (p *part) log(broker int32, start, began int64) (*replicaLog, error) {
	for _, l := range p.logs {
		if l.broker == broker {
			return l, nil
		}
	}
	if len(p.logs) == maxLogs {
		return nil, errManyLogs
	}
	l := &replicaLog{broker: broker, bit: 1 << len(p.logs), start: start, end: start, epoch: history.Unknown, began: began}
	p.logs = append(p.logs, l)
	return l, nil
}

// dumped takes records of a replica. One without a value says only where the log ends.
func (c *Checker) dumped(client int32, op *operation, e *history.Event) error {
	if e.Type != history.OK {
		return nil
	}
	by := origin{client: client, op: e.Op, time: e.Time, what: byReplica}
	began := e.Time
	if op != nil {
		began = op.began
	}
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil || r.Offset < 0 {
			return errLogPlace
		}
		l, err := p.log(e.Broker, r.Offset, began)
		if err != nil {
			return err
		}
		if r.Offset < l.end {
			return errLogOrder
		}
		l.end, l.by = r.Offset, by
		if r.Value == "" {
			continue
		}
		l.end++
		c.inLog(p, l, r, by)
	}
	return nil
}

func (c *Checker) inLog(p *part, l *replicaLog, r *history.Record, by origin) {
	c.checked[ReplicaDiffers]++
	id := c.valueOf(r.Value)
	s := c.claim(p, r.Offset, id, r.Epoch, by)
	s.logs |= l.bit
	c.place(p, r.Offset, id, c.values.at(id), byReplica)
	c.values.at(id).stored = true
	if r.Epoch != history.Unknown && r.Epoch < l.epoch {
		c.epochBack(p, r.Offset, id, r.Epoch, l.epoch, r.Offset-1)
	}
	if r.Epoch != history.Unknown {
		l.epoch = r.Epoch
	}
	if s.value != id {
		s.mixed = true
		return
	}
	if s.crc != 0 && r.CRC != 0 && s.crc != r.CRC {
		p.differs = append(p.differs, differ{offset: r.Offset, id: id, epoch: r.Epoch, crc: r.CRC, by: by})
	}
	if s.crc == 0 {
		s.crc = r.CRC
	}
}

// judgeLogs holds the replicas of a partition to each other, the leader epochs to their order, and reads to what every replica has.
func (c *Checker) judgeLogs(p *part, floors []floor) {
	before := int64(-1)
	epoch := int32(history.Unknown)
	var lastRead *slot
	lastOffset := int64(-1)
	settled := p.settled()
	c.judgeDiffers(p, settled)
	p.slots.each(0, never, func(offset int64, s *slot) bool {
		if s.read {
			lastRead, lastOffset = s, offset
		}
		c.judgeHoles(p, offset, s)
		if s.epoch == history.Unknown {
			return true
		}
		c.checked[EpochBack]++
		if s.epoch < epoch && offset < settled {
			c.epochBack(p, offset, s.value, s.epoch, epoch, before)
		}
		before, epoch = offset, s.epoch
		return true
	})
	slices.SortStableFunc(p.logs, func(a, b *replicaLog) int { return cmp.Compare(a.began, b.began) })
	ends := rising{floors: answered(floors)}
	for _, l := range p.logs {
		if l.gone {
			continue
		}
		c.checked[BeyondReplica]++
		if f := ends.before(l.began); f.end > l.end && (lastRead == nil || lastOffset < l.end) {
			c.found(BeyondReplica, p, f.end, func(a *Anomaly) {
				a.Detail = fmt.Sprintf("%s, and the replica of broker %d ends at %d", c.said(p, f), l.broker, l.end)
				a.Evidence = append(c.evidenceOf(p, f), c.evidence(l.by))
			})
		}
		if lastRead != nil && lastOffset >= l.end {
			c.found(BeyondReplica, p, lastOffset, func(a *Anomaly) {
				a.Value = c.text(lastRead.value)
				a.Detail = fmt.Sprintf("offset %d was read, and the replica of broker %d ends at %d", lastOffset, l.broker, l.end)
				a.Evidence = append([]Evidence{c.saidFirst(lastRead), c.evidence(l.by)}, c.sendOf(lastRead.value)...)
			})
		}
	}
}

func (c *Checker) epochBack(p *part, offset int64, id valueID, epoch, above int32, before int64) {
	c.foundValue(EpochBack, p, offset, id, fmt.Sprintf("leader epoch %d comes behind epoch %d at offset %d", epoch, above, before))
}

// everywhere says that every dumped replica whose log begins at or below an offset has it, and that there is one.
func (p *part) everywhere(offset int64, s *slot) bool {
	if s.logs == 0 || s.mixed {
		return false
	}
	for _, l := range p.logs {
		if l.start <= offset && s.logs&l.bit == 0 {
			return false
		}
	}
	return true
}

// nextReadable is the first offset from one on at which a record is known that a consumer who reads on from there is given, never for none: it was read, or firmly
// acknowledged, or is in every replica. What only some replicas have perhaps never was readable.
func (p *part) nextReadable(from int64) int64 {
	if p.readable == nil {
		p.slots.each(0, never, func(offset int64, s *slot) bool {
			if s.read || s.acked || p.everywhere(offset, s) {
				p.readable = append(p.readable, offset)
			}
			return true
		})
	}
	if at, _ := slices.BinarySearch(p.readable, from); at < len(p.readable) {
		return p.readable[at]
	}
	return never
}

// judgeHoles: what one replica has, or what has to be there, another has too, if its log reaches there.
func (c *Checker) judgeHoles(p *part, offset int64, s *slot) {
	since := int64(-never) // what is in a log was there before
	if s.logs == 0 {
		if since = c.lasting(p, offset, s); offset < p.lowest {
			return
		}
	}
	for _, l := range p.logs {
		if offset < l.start || offset >= l.end || since >= l.began || l.gone {
			continue
		}
		c.checked[ReplicaHole]++
		if s.logs&l.bit == 0 {
			c.foundValue(ReplicaHole, p, offset, s.value, fmt.Sprintf("the replica of broker %d reaches from %d to %d and does not have it", l.broker, l.start, l.end))
		}
	}
}
