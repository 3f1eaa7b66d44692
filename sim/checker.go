package sim

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// checker holds what anybody was told, and finds what contradicts it. The numbers of the invariants are those of docs/hard-cases.md.
type checker struct {
	w         *World
	violation string
	ledgers   []ledger // by partition number
	values    []value  // by number; 0 is unused
	leaders   map[leadership]incarnation
	down      map[place]reached
}

// ledger is what is known to be committed in one partition, by offset.
type ledger struct{ slots []slot }

// slot is one committed record: acknowledged, read, or below a watermark.
type slot struct {
	known bool
	value int64
	sum   uint64 // of the bytes of its batch, 0 while they were not seen
}

// value is one record that a client has sent.
type value struct {
	tp       cluster.TopicPartition
	producer *producer
	refused  bool // for certain not appended
	placed   bool
	at       record.Offset // once it is committed
}

// leadership is one leader epoch of one partition; incarnation is one life of a broker.
type leadership struct {
	tp    cluster.TopicPartition
	epoch record.LeaderEpoch
}

type incarnation struct {
	id   cluster.BrokerID
	life int
}

// place is one replica; reached is how far its log was when its host lost power.
type place struct {
	id cluster.BrokerID
	tp cluster.TopicPartition
}

type reached struct{ end, flushed record.Offset }

func newChecker(w *World) *checker {
	return &checker{w: w, ledgers: make([]ledger, w.mix.partitions), values: make([]value, 1), leaders: map[leadership]incarnation{}, down: map[place]reached{}}
}

// fail notes the first violation; the history ends with it.
func (c *checker) fail(format string, args ...any) {
	if c.violation == "" {
		c.violation = fmt.Sprintf(format, args...)
		c.w.note("violation " + c.violation)
	}
}

func (c *checker) failed() bool { return c.violation != "" }

// must is for what never fails in a simulation.
func (c *checker) must(err error) {
	if err != nil {
		c.fail("unexpected: %v", err)
	}
}

// newValues numbers the records of a batch.
func (c *checker) newValues(p *producer, count int64) int64 {
	first := int64(len(c.values))
	for range count {
		c.values = append(c.values, value{tp: p.tp, producer: p})
	}
	return first
}

// refused notes that values were for certain not appended.
func (c *checker) refused(first, count int64) {
	for i := first; i < first+count; i++ {
		if c.values[i].placed {
			c.fail("I4: %d of partition %d is refused, and at %d", i, c.values[i].tp.Partition, c.values[i].at)
		}
		c.values[i].refused = true
	}
}

// acknowledged notes what a client was told to be safe (I1).
func (c *checker) acknowledged(tp cluster.TopicPartition, base record.Offset, first, count int64) {
	if base < 0 {
		c.fail("I1: %d of partition %d is acknowledged at %d", first, tp.Partition, base)
		return
	}
	for i := range count {
		c.commit(tp, base+record.Offset(i), first+i, 0, "an acknowledgement said")
	}
}

// commit notes that a value is at an offset for ever, or finds that it cannot be.
func (c *checker) commit(tp cluster.TopicPartition, at record.Offset, number int64, sum uint64, who string) {
	if number <= 0 || number >= int64(len(c.values)) || c.values[number].tp != tp {
		c.fail("I4: %s %d at %d of partition %d, which was never sent there", who, number, at, tp.Partition)
		return
	}
	v := &c.values[number]
	if v.refused {
		c.fail("I4: %s %d at %d of partition %d, which was refused", who, number, at, tp.Partition)
	}
	if v.placed && v.at != at {
		c.fail("I5: %s %d at %d of partition %d, and it is at %d", who, number, at, tp.Partition, v.at)
	}
	v.placed, v.at = true, at
	l := &c.ledgers[tp.Partition]
	for record.Offset(len(l.slots)) <= at {
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[at]
	switch {
	case !s.known:
		*s = slot{known: true, value: number, sum: sum}
	case s.value != number:
		c.fail("I2: %s %d at %d of partition %d, where %d is committed", who, number, at, tp.Partition, s.value)
	case s.sum == 0:
		s.sum = sum
	case sum != 0 && s.sum != sum:
		c.fail("I2: %s other bytes around %d at %d of partition %d", who, number, at, tp.Partition)
	}
}

// committedBatch notes a batch that is below somebody's watermark.
func (c *checker) committedBatch(tp cluster.TopicPartition, b record.Batch, who string) {
	sum, at := sumOf(b.Bytes()), b.BaseOffset()
	for r, err := range b.All(maxDecompress) {
		if err != nil {
			c.fail("I10: %s a bad batch at %d of partition %d: %v", who, b.BaseOffset(), tp.Partition, err)
			return
		}
		c.commit(tp, at, numberOf(r.Value), sum, who)
		at++
	}
}

func sumOf(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return max(h.Sum64(), 1)
}

// numberOf is the number of a record, -1 for what no client has made.
func numberOf(v []byte) int64 {
	digits, _, _ := strings.Cut(string(v), ":")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// turned looks at a replica after each of its turns.
func (c *checker) turned(r *replica, before *partition.Status) {
	now := &r.at
	leads := now.Role == partition.RoleLeader
	goesOn := leads && before.Role == partition.RoleLeader && now.LeaderEpoch == before.LeaderEpoch
	if now.LogEnd < before.LogEnd {
		c.w.cov.Truncations++
		c.w.note("truncated", int64(r.b.id), int64(r.tp.Partition), int64(before.LogEnd), int64(now.LogEnd))
		if now.LogEnd < before.HighWatermark {
			c.fail("I2: broker %d cuts partition %d to %d, below its watermark %d", r.b.id, r.tp.Partition, now.LogEnd, before.HighWatermark)
		}
	}
	if goesOn && now.HighWatermark < before.HighWatermark {
		c.fail("I9: the watermark of leader %d of partition %d falls from %d to %d", r.b.id, r.tp.Partition, before.HighWatermark, now.HighWatermark)
	}
	if now.Role != before.Role || now.LeaderEpoch != before.LeaderEpoch {
		c.w.note("role", int64(r.b.id), int64(r.tp.Partition), int64(now.Role), int64(now.LeaderEpoch), int64(now.LogEnd), int64(now.HighWatermark))
	}
	if goesOn && now.HighWatermark > before.HighWatermark {
		c.onDisk(r)
	}
	if leads && !goesOn {
		c.leads(r)
		c.complete(r)
	}
	if int64(now.HighWatermark) > r.seen && (leads || now.Role == partition.RoleFollower) {
		c.compare(r)
	}
}

// onDisk checks that what a leader calls committed is flushed on every in-sync replica that follows it.
func (c *checker) onDisk(r *replica) {
	for _, id := range r.at.ISR {
		b := c.w.brokers[id]
		m := b.replica(r.tp)
		if b.up && m != nil && m.at.LeaderEpoch == r.at.LeaderEpoch && m.at.Role != partition.RoleOffline && m.at.Flushed < r.at.HighWatermark {
			c.fail("I1: the watermark of leader %d of partition %d is %d, broker %d is in sync and has flushed %d",
				r.b.id, r.tp.Partition, r.at.HighWatermark, id, m.at.Flushed)
		}
	}
}

// leads notes which life of which broker leads in a leader epoch: no other may (I8).
func (c *checker) leads(r *replica) {
	key, who := leadership{r.tp, r.at.LeaderEpoch}, incarnation{r.b.id, r.b.life}
	if other, ok := c.leaders[key]; ok && other != who {
		c.fail("I8: in leader epoch %d partition %d is led by broker %d in life %d and by broker %d in life %d",
			key.epoch, r.tp.Partition, other.id, other.life, who.id, who.life)
	}
	c.leaders[key] = who
}

// complete checks that the leader of the newest epoch has everything that is committed (I1).
func (c *checker) complete(r *replica) {
	p, ok := c.w.meta.state.Image().Partition(r.tp)
	if !ok || p.LeaderEpoch != r.at.LeaderEpoch {
		return // it is about to learn that it does not lead any more
	}
	has := map[record.Offset]slot{}
	reader := r.Reader()
	for from := record.Offset(0); from < r.at.LogEnd; {
		bytes, end, _, _, err := reader.ReadReplica(from, maxFetchBytes)
		if err != nil || bytes == nil {
			c.fail("unexpected: leader %d cannot read partition %d at %d: %v", r.b.id, r.tp.Partition, from, err)
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
	for at, want := range c.ledgers[r.tp.Partition].slots {
		got := has[record.Offset(at)]
		if want.known && (!got.known || got.value != want.value || (want.sum != 0 && got.sum != want.sum)) {
			c.fail("I1: leader %d of epoch %d of partition %d lacks %d at %d: it has %d, and ends at %d",
				r.b.id, r.at.LeaderEpoch, r.tp.Partition, want.value, at, got.value, r.at.LogEnd)
			return
		}
	}
}

// compare reads what is new below a replica's watermark: it is committed, the same everywhere (I2).
func (c *checker) compare(r *replica) {
	r.seen = int64(c.walk(r, record.Offset(r.seen), func(b record.Batch) {
		c.committedBatch(r.tp, b, fmt.Sprintf("broker %d has", r.b.id))
	}))
}

// walk reads a replica up to its watermark and returns how far it came.
func (c *checker) walk(r *replica, from record.Offset, each func(record.Batch)) record.Offset {
	for from < r.at.HighWatermark {
		res := r.Read(partition.ReadRequest{Offset: from, MaxBytes: maxFetchBytes, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true})
		if res.Code != cluster.CodeNone || res.Slice.Len() == 0 {
			c.fail("unexpected: broker %d cannot read partition %d at %d of %d: %s %v", r.b.id, r.tp.Partition, from, r.at.HighWatermark, res.Code, res.Err)
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
	for _, r := range b.parts {
		if r.at.Role != partition.RoleOffline {
			c.down[place{b.id, r.tp}] = reached{end: r.at.LogEnd, flushed: r.at.Flushed}
		}
	}
}

// recovered compares a log after a power cut with what it was: what was flushed is there.
func (c *checker) recovered(r *replica) {
	key := place{r.b.id, r.tp}
	was, ok := c.down[key]
	delete(c.down, key)
	if !ok {
		return
	}
	c.w.note("recovered", int64(r.b.id), int64(r.tp.Partition), int64(r.at.LogEnd), int64(was.end), int64(was.flushed))
	if r.at.LogEnd < was.end {
		c.w.cov.CrashesWithLoss++
	}
	if r.at.LogEnd < was.flushed {
		c.fail("I1: broker %d had flushed partition %d to %d, after the power cut it ends at %d", r.b.id, r.tp.Partition, was.flushed, r.at.LogEnd)
	}
}

// damaged is for a log that cannot be opened: these disks lose what was not synced, and never anything else.
func (c *checker) damaged(b *broker, tp cluster.TopicPartition, err error) {
	c.fail("I1: broker %d cannot open its log of partition %d: %v", b.id, tp.Partition, err)
}

// applied looks at what an entry of the metadata log has changed.
func (c *checker) applied(before, after *cluster.Image) {
	for _, tp := range c.w.partitions {
		old, ok := before.Partition(tp)
		now, _ := after.Partition(tp)
		if !ok || old == now {
			continue
		}
		if now.LeaderEpoch > old.LeaderEpoch && now.Leader != cluster.NoBroker {
			c.w.cov.Elections++
		}
		if len(now.ISR) < len(old.ISR) && c.w.load != nil && c.w.load.inFlight[tp.Partition] > 0 {
			c.w.cov.ShrinksInFlight++
		}
		if len(now.ISR) > len(old.ISR) {
			c.w.cov.Expansions++
		}
		c.w.note("partition", int64(tp.Partition), int64(now.Leader), int64(now.LeaderEpoch), int64(now.PartitionEpoch), int64(len(now.ISR)), int64(len(now.ELR)))
	}
}

// finish looks at the healed cluster: all replicas are byte-identical and hold exactly what is committed, each producer's records in its order.
func (c *checker) finish() {
	for _, tp := range c.w.partitions {
		p, _ := c.w.meta.state.Image().Partition(tp)
		for _, id := range p.Replicas {
			last := map[*producer]int64{}
			c.walk(c.w.brokers[id].replica(tp), 0, func(b record.Batch) {
				c.committedBatch(tp, b, fmt.Sprintf("after healing broker %d has", id))
				for r, err := range b.All(maxDecompress) {
					c.must(err)
					n := numberOf(r.Value)
					if n <= 0 || n >= int64(len(c.values)) {
						return // reported already
					}
					who := c.values[n].producer
					if n <= last[who] {
						c.fail("I3: on broker %d %d of partition %d comes after %d of the same producer", id, n, tp.Partition, last[who])
					}
					last[who] = n
				}
			})
		}
		c.complete(c.w.brokers[p.Leader].replica(tp))
		for at, s := range c.ledgers[tp.Partition].slots {
			if !s.known {
				c.fail("I2: nothing is known of offset %d of partition %d, below the watermark", at, tp.Partition)
				break
			}
		}
	}
}
