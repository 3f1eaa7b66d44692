package sim

import (
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// turned looks at a replica after each of its turns.
func (c *checker) turned(r *replica, before *partition.Status) {
	now := &r.at
	leads := now.Role == partition.RoleLeader
	goesOn := leads && before.Role == partition.RoleLeader && now.LeaderEpoch == before.LeaderEpoch
	if now.LogEnd < before.LogEnd {
		c.w.cov.Truncations++
		c.w.note("truncated", int64(r.b.id), c.w.key(r.tp), int64(before.LogEnd), int64(now.LogEnd))
		r.seen = min(r.seen, int64(now.LogEnd))
		c.remembers(r)
		// Nothing that can be read goes when the watermark is only where the log starts: an empty log may begin anew inside the batch in which it was to begin,
		// and one that has taken the log start from the metadata may turn out to be another one below it.
		if now.LogEnd < before.HighWatermark && before.HighWatermark > before.LogStart && now.LogEnd < c.ledgers[r.tp].cutBy(now.LeaderEpoch) {
			c.fail("I2: broker %d cuts %s to %d, below its watermark %d", r.b.id, c.w.named(r.tp), now.LogEnd, before.HighWatermark)
		}
	}
	if goesOn && now.HighWatermark < before.HighWatermark {
		c.fail("I9: the watermark of leader %d of %s falls from %d to %d", r.b.id, c.w.named(r.tp), before.HighWatermark, now.HighWatermark)
	}
	if now.LogStart != before.LogStart {
		c.startMoved(r, before, goesOn)
	}
	if leads && now.LogStart < r.told.LogStart && !r.b.disk.full(c.w.now) { // a full disk does not let the log start move until there is room
		c.fail("I1: broker %d leads %s from %d on, records below %d were deleted (case 65)", r.b.id, c.w.named(r.tp), now.LogStart, r.told.LogStart)
	}
	if now.Role != before.Role || now.LeaderEpoch != before.LeaderEpoch {
		c.w.note("role", int64(r.b.id), c.w.key(r.tp), int64(now.Role), int64(now.LeaderEpoch), int64(now.LogEnd), int64(now.HighWatermark))
	}
	if goesOn && now.HighWatermark > before.HighWatermark {
		c.onDisk(r)
		defer c.inSync(r)
		if len(now.ISR) < now.MinISR && len(before.ISR) < before.MinISR && !r.enoughMeanwhile(min(now.MinISR, before.MinISR)) && !r.trimmedTo(now.HighWatermark) {
			c.fail("I1: leader %d of %s moves its watermark to %d with the ISR %v, below min.insync.replicas %d (case 39)",
				r.b.id, c.w.named(r.tp), now.HighWatermark, now.ISR, now.MinISR)
		}
	}
	if leads && !goesOn {
		c.leads(r)
		c.complete(r)
	}
	if now.Role == partition.RoleOffline && before.Role != partition.RoleOffline && r.led {
		// What it deleted in its last moment may be on its disk: the log failed after the new start was in place.
		c.ledgers[r.tp].tried[r.b.id] = retention{
			by: r.b.id, images: slices.Clone(r.images), wallMs: r.b.WallMs(), from: before.LogStart, size: before.SizeBytes, watermark: now.HighWatermark,
		}
	}
	if int64(now.HighWatermark) > r.seen && (leads || now.Role == partition.RoleFollower) {
		c.compare(r)
	}
}

// enoughMeanwhile reports whether the metadata, or the answer to a proposal, told the replica in this turn of an in-sync set of at least so many, or as many as were
// enough then, which another may have followed: one that was paused hears of both at once.
func (r *replica) enoughMeanwhile(least int) bool {
	granted := slices.ContainsFunc(r.granted, func(p *cluster.Partition) bool {
		return p.Leader == r.b.id && p.LeaderEpoch == r.at.LeaderEpoch && len(p.ISR) >= least
	})
	return granted || slices.ContainsFunc(r.images, func(image *cluster.Image) bool {
		p, ok := image.Partition(r.tp)
		topic, _ := image.Topic(r.tp.Topic)
		return ok && p.Leader == r.b.id && p.LeaderEpoch == r.at.LeaderEpoch && len(p.ISR) >= min(least, image.MinISR(topic, p))
	})
}

// trimmedTo reports whether it is committed that everything below at is deleted: a leader begins there, whatever its ISR.
func (r *replica) trimmedTo(at record.Offset) bool {
	return r.told != nil && r.at.LogStart == at && at <= r.told.LogStart
}

// startMoved checks that records went only where they may go: below a committed log start, or by retention, which a leader decides and others follow.
func (c *checker) startMoved(r *replica, before *partition.Status, goesOn bool) {
	l, now := c.ledgers[r.tp], &r.at
	c.w.note("start", int64(r.b.id), c.w.key(r.tp), int64(before.LogStart), int64(now.LogStart))
	switch {
	case now.LogStart < before.LogStart && goesOn:
		c.fail("I9: the log start of leader %d of %s goes back from %d to %d", r.b.id, c.w.named(r.tp), before.LogStart, now.LogStart)
	case now.LogStart <= l.start, r.told != nil && now.LogStart <= r.told.LogStart:
		// somebody has deleted that before, or it was committed that it is deleted
		l.start = max(l.start, now.LogStart)
	case !r.led: // one that was deposed in this turn may have decided before it knew
		c.fail("I1: broker %d has deleted %s up to %d, the leaders up to %d", r.b.id, c.w.named(r.tp), now.LogStart, l.start)
	default:
		c.retained(l, now, &retention{by: r.b.id, images: r.images, wallMs: r.b.WallMs(), from: before.LogStart, size: before.SizeBytes, watermark: now.HighWatermark})
	}
}

// onDisk checks that what a leader calls committed is flushed on every in-sync replica that follows it. A leader that has not heard that a broker is there
// again, with another disk, still counts what the former one had; so does one that has not heard that a replica was removed, and is there again, empty.
func (c *checker) onDisk(r *replica) {
	present, _ := c.w.meta.state.Image().Partition(r.tp)
	for _, id := range r.at.ISR {
		b := c.w.brokers[id]
		if present != nil && !present.InISR(id) && present.PartitionEpoch != r.at.PartitionEpoch {
			continue
		}
		if known, ok := r.b.image.Broker(id); c.w.isSpoilt(b) && ok && known.Epoch != b.epoch {
			continue
		}
		m := b.replica(r.tp)
		if b.up && m != nil && m.at.LeaderEpoch == r.at.LeaderEpoch && m.at.Role != partition.RoleOffline && m.at.Flushed < r.at.HighWatermark {
			c.fail("I1: the watermark of leader %d of %s is %d, broker %d is in sync and has flushed %d",
				r.b.id, c.w.named(r.tp), r.at.HighWatermark, id, m.at.Flushed)
		}
	}
}

// inSync looks at who is in sync by the metadata, once what r's watermark says is noted.
func (c *checker) inSync(r *replica) {
	image := c.w.meta.state.Image()
	if p, ok := image.Partition(r.tp); ok && !c.failed() {
		c.strongISR(r.tp, image, p)
	}
}

// leads notes which life of which broker leads in a leader epoch: no other may (I8).
func (c *checker) leads(r *replica) {
	key, who := leadership{r.tp, r.at.LeaderEpoch}, incarnation{r.b.id, r.b.life}
	if other, ok := c.leaders[key]; ok && other != who {
		c.fail("I8: in leader epoch %d %s is led by broker %d in life %d and by broker %d in life %d",
			key.epoch, c.w.named(r.tp), other.id, other.life, who.id, who.life)
	}
	c.leaders[key] = who
}

// complete checks that the leader of the newest epoch has everything that is committed (I1).
func (c *checker) complete(r *replica) {
	p, ok := c.w.meta.state.Image().Partition(r.tp)
	if !ok || p.LeaderEpoch != r.at.LeaderEpoch && !c.ledgers[r.tp].awaits(r.at.LeaderEpoch) {
		return // it is about to learn that it does not lead any more
	}
	if c.w.isSpoilt(r.b) {
		c.reaches(r)
		return
	}
	r.b.disk.fail.Exempt(func() { c.completeReading(r) })
}

func (c *checker) completeReading(r *replica) {
	has := map[record.Offset]slot{}
	reader := r.Reader()
	for from := r.at.LogStart; from < r.at.LogEnd; {
		bytes, end, _, _, err := reader.ReadReplica(from, maxFetchBytes)
		if err != nil || bytes == nil {
			c.fail("unexpected: leader %d cannot read %s at %d: %v", r.b.id, c.w.named(r.tp), from, err)
			return
		}
		raw, err := bytes.AppendTo(nil)
		bytes.Release()
		c.must(err)
		c.must(record.Split(raw, func(b record.Batch) error {
			at, sum := b.BaseOffset(), sumOf(b.Bytes())
			for rec, err := range b.All(maxDecompress) {
				if err != nil {
					return err
				}
				has[at] = slot{known: true, value: numberOf(rec.Value), sum: sum}
				at++
			}
			return nil
		}))
		from = end
	}
	l := c.ledgers[r.tp]
	if l.undecided() {
		c.accept(r, has)
	}
	from := min(r.at.LogStart, l.start) // below lies what may be gone
	for i := range l.slots[min(int(from), len(l.slots)):] {
		at := from + record.Offset(i)
		if want := &l.slots[at]; !want.agrees(has[at]) {
			c.fail("I1: leader %d of epoch %d of %s lacks %d at %d: it has %d, and ends at %d",
				r.b.id, r.at.LeaderEpoch, c.w.named(r.tp), want.value, at, has[at].value, r.at.LogEnd)
			return
		}
	}
}

// compare reads what is new below a replica's watermark: it is committed, the same everywhere (I2).
func (c *checker) compare(r *replica) {
	if c.w.isSpoilt(r.b) {
		return
	}
	r.seen = int64(c.walk(r, max(record.Offset(r.seen), r.at.LogStart), func(b record.Batch) {
		c.committedBatch(r.tp, b, witness{fmt.Sprintf("broker %d has", r.b.id), r.at.LeaderEpoch, r.at.Role == partition.RoleLeader})
	}))
}

// walk reads a replica up to its watermark and returns how far it came: to the watermark, or to the batch that the watermark lies in.
func (c *checker) walk(r *replica, from record.Offset, each func(record.Batch)) record.Offset {
	r.b.disk.fail.Exempt(func() { from = c.walkReading(r, from, each) })
	return from
}

func (c *checker) walkReading(r *replica, from record.Offset, each func(record.Batch)) record.Offset {
	for from < r.at.HighWatermark {
		res := r.Read(partition.ReadRequest{Offset: from, MaxBytes: maxFetchBytes, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true})
		if res.Code == cluster.CodeNone && res.Slice.Len() == 0 && r.at.HighWatermark <= c.ledgers[r.tp].start {
			// After a restart of all the watermark begins at the log start, which may lie inside a batch. A follower whose full disk has not let its own start
			// move keeps that batch, and serves it whole or not at all.
			return from
		}
		if res.Code != cluster.CodeNone || res.Slice.Len() == 0 {
			c.fail("unexpected: broker %d cannot read %s at %d of %d: %s %v", r.b.id, c.w.named(r.tp), from, r.at.HighWatermark, res.Code, res.Err)
			return from
		}
		raw, err := res.Slice.AppendTo(nil)
		res.Slice.Release()
		c.must(err)
		c.must(record.Split(raw, func(b record.Batch) error {
			each(b)
			from = max(from, b.NextOffset())
			return nil
		}))
		if c.failed() {
			return from
		}
	}
	return from
}

// goingDown remembers how far the logs of a host were that loses power.
func (c *checker) goingDown(b *broker) {
	if c.w.isSpoilt(b) {
		return
	}
	for _, r := range b.parts {
		if r.at.Role != partition.RoleOffline {
			c.down[place{b.id, r.tp}] = reached{end: r.at.LogEnd, flushed: r.at.Flushed}
		}
	}
}

// recovered compares a log that was opened with what it was before a power cut: what was flushed is there.
func (c *checker) recovered(r *replica) {
	c.remembers(r)
	c.opensAt(r)
	key := place{r.b.id, r.tp}
	was, ok := c.down[key]
	delete(c.down, key)
	if !ok {
		return
	}
	c.w.note("recovered", int64(r.b.id), c.w.key(r.tp), int64(r.at.LogEnd), int64(was.end), int64(was.flushed))
	if r.at.LogEnd < was.end {
		c.w.cov.CrashesWithLoss++
	}
	if r.at.LogEnd < was.flushed {
		c.fail("I1: broker %d had flushed %s to %d, after the power cut it ends at %d", r.b.id, c.w.named(r.tp), was.flushed, r.at.LogEnd)
	}
}

// remembers compares what a replica knows of producers with what its log tells: a batch that is remembered and not there would be acknowledged when it comes
// again, and one that is there and not remembered would be stored twice (I5).
func (c *checker) remembers(r *replica) {
	if c.w.isSpoilt(r.b) || r.at.Role == partition.RoleOffline || c.w.mix.expiry > 0 {
		return // with an expiry, what the log still has may be forgotten
	}
	r.b.disk.fail.Exempt(func() {
		if err := r.CheckProducers(); err != nil {
			c.fail("I5: broker %d remembers of %s what its log does not tell: %v", r.b.id, c.w.named(r.tp), err)
		}
	})
}

// finish looks at the healed cluster: all replicas are byte-identical and hold exactly what is committed, each producer's records in its order.
func (c *checker) finish() {
	for _, tp := range c.w.live() {
		p, _ := c.w.meta.state.Image().Partition(tp)
		for _, id := range p.Replicas {
			last := map[*producer]int64{}
			r := c.w.brokers[id].replica(tp)
			c.remembers(r)
			end := c.walk(r, r.at.LogStart, func(b record.Batch) {
				c.committedBatch(tp, b, witness{fmt.Sprintf("after healing broker %d has", id), r.at.LeaderEpoch, true})
				for r, err := range b.All(maxDecompress) {
					c.must(err)
					n := numberOf(r.Value)
					if n <= 0 || n >= int64(len(c.values)) {
						return // reported already
					}
					who := c.values[n].producer
					if n <= last[who] && !c.values[n].forgotten {
						c.fail("I3: on broker %d %d of %s comes after %d of the same producer", id, n, c.w.named(tp), last[who])
					}
					last[who] = n
				}
			})
			if end < r.at.LogEnd {
				c.fail("I11: broker %d serves %s up to %d only, it ends at %d", id, c.w.named(tp), end, r.at.LogEnd)
			}
		}
		c.complete(c.w.brokers[p.Leader].replica(tp))
		l := c.ledgers[tp]
		for at := int(c.w.brokers[p.Leader].replica(tp).at.LogStart); at < len(l.slots); at++ {
			if !l.slots[at].known {
				c.fail("I2: nothing is known of offset %d of %s, below the watermark", at, c.w.named(tp))
				break
			}
		}
	}
}
