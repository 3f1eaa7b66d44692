package sim

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// checker holds what anybody was told, and finds what contradicts it. The numbers of the invariants are those of docs/hard-cases.md.
type checker struct {
	w         *World
	violation string
	ledgers   map[cluster.TopicPartition]*ledger // of all that ever were
	values    []value                            // by number; 0 is unused
	leaders   map[leadership]incarnation
	down      map[place]reached
	left      map[place]record.Offset // what is flushed of replicas whose brokers are down
}

// ledger is what is known about one partition, and to be committed there, by offset.
type ledger struct {
	tp    cluster.TopicPartition
	topic *topic
	slots []slot
	// start is up to where somebody has, or may have, deleted records.
	start record.Offset
	// deleted is how far that was before a forced election took it back: replicas that have not heard of it begin there.
	deleted record.Offset
	// tried is, for each broker, when its log failed last while it led: its start may have been about to move.
	tried map[cluster.BrokerID]retention
	// gone says that the metadata has deleted the partition: nothing is promised any more.
	gone bool
	// inFlight counts produce requests under way.
	inFlight int
	// latest is the largest answer to "latest" that anybody has received.
	latest record.Offset
	// acked is the end of the newest acknowledged write that anybody has heard of.
	acked record.Offset
	// losses are those that an operator has accepted.
	losses []loss
}

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
	refused  bool  // for certain not appended
	sentMs   int64 // its timestamp
	placed   bool
	// forgotten says that the brokers may have forgotten that they have it before the producer knew: it may be stored again.
	forgotten bool
	at        record.Offset // once it is committed
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
	return &checker{w: w, ledgers: map[cluster.TopicPartition]*ledger{}, values: make([]value, 1), leaders: map[leadership]incarnation{}, down: map[place]reached{}, left: map[place]record.Offset{}}
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
		c.values = append(c.values, value{tp: p.tp, producer: p, sentMs: p.timestamp()})
	}
	return first
}

// refused notes that values were for certain not appended.
func (c *checker) refused(first, count int64) {
	for i := first; i < first+count; i++ {
		if c.values[i].placed {
			c.fail("I4: %d of %s is refused, and at %d", i, c.w.named(c.values[i].tp), c.values[i].at)
		}
		c.values[i].refused = true
	}
}

// acknowledged notes what a client was told to be safe (I1).
func (c *checker) acknowledged(tp cluster.TopicPartition, base record.Offset, first, count int64) {
	if base < 0 {
		c.fail("I1: %d of %s is acknowledged at %d", first, c.w.named(tp), base)
		return
	}
	for i := range count {
		c.commit(tp, base+record.Offset(i), first+i, 0, "an acknowledgement said")
	}
}

// commit notes that a value is at an offset for ever, or finds that it cannot be.
func (c *checker) commit(tp cluster.TopicPartition, at record.Offset, number int64, sum uint64, who string) {
	if number <= 0 || number >= int64(len(c.values)) || c.values[number].tp != tp {
		c.fail("I4: %s %d at %d of %s, which was never sent there", who, number, at, c.w.named(tp))
		return
	}
	v := &c.values[number]
	if v.refused {
		c.fail("I4: %s %d at %d of %s, which was refused", who, number, at, c.w.named(tp))
	}
	l := c.ledgers[tp]
	// Who remembers a producer's batch that was deleted since answers for it, and who does not, as a replica that began after the deletion, takes its repeat for
	// a new one (KIP-360): one copy is below the start.
	if v.placed && v.at > at && at < l.start {
		return
	}
	if v.placed && v.at != at && v.at >= l.start && !v.forgotten {
		c.fail("I5: %s %d at %d of %s, and it is at %d", who, number, at, c.w.named(tp), v.at)
	}
	// Offsets have no gaps here, so that there cannot be more of them than records, with room for those that are stored again.
	if at >= record.Offset(2*len(c.values)) {
		c.fail("I2: %s %d at %d of %s, where %d records were ever sent", who, number, at, c.w.named(tp), len(c.values)-1)
		return
	}
	if !v.placed || v.at != at {
		c.inOrder(l, v, number, at, who)
	}
	v.placed, v.at = true, at
	for record.Offset(len(l.slots)) <= at {
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[at]
	switch {
	case !s.known:
		*s = slot{known: true, value: number, sum: sum}
	case s.value != number:
		c.fail("I2: %s %d at %d of %s, where %d is committed", who, number, at, c.w.named(tp), s.value)
	case s.sum == 0:
		s.sum = sum
	case sum != 0 && s.sum != sum:
		c.fail("I2: %s other bytes around %d at %d of %s", who, number, at, c.w.named(tp))
	}
}

// witness is who has a batch below its watermark: as a leader or not, and up to which leader epoch it knows the partition.
type witness struct {
	who   string
	epoch record.LeaderEpoch
	leads bool
}

// committedBatch notes a batch that is below somebody's watermark.
func (c *checker) committedBatch(tp cluster.TopicPartition, b record.Batch, from witness) {
	l, who := c.ledgers[tp], from.who
	if l.outdated(from.epoch, b.NextOffset()) || !from.leads && l.forgotten(b) {
		return
	}
	sum, at := sumOf(b.Bytes()), b.BaseOffset()
	for r, err := range b.All(maxDecompress) {
		if err != nil {
			c.fail("I10: %s a bad batch at %d of %s: %v", who, b.BaseOffset(), c.w.named(tp), err)
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

// applied looks at what an entry of the metadata log has changed.
func (c *checker) applied(before, after *cluster.Image, cmd cluster.Command) {
	for change := range cluster.Diff(before, after).Partitions() {
		switch {
		case change.Old == nil:
			c.w.partitionCreated(change.Key, after)
		case change.New == nil:
			c.w.partitionDeleted(change.Key)
		default:
			c.partitionChanged(c.ledgers[change.Key], change.Old, change.New)
			c.strongISR(change.Key, after, change.New)
			c.reassigned(after, change, cmd)
		}
	}
}

// partitionChanged looks at a new state of a partition.
func (c *checker) partitionChanged(l *ledger, old, now *cluster.Partition) {
	l.start = max(l.start, now.LogStart)
	c.losing(l, old, now)
	if now.LeaderEpoch > old.LeaderEpoch && now.Leader != cluster.NoBroker {
		c.w.cov.Elections++
	}
	if len(now.ISR) < len(old.ISR) && l.inFlight > 0 {
		c.w.cov.ShrinksInFlight++
	}
	if len(now.ISR) > len(old.ISR) {
		c.w.cov.Expansions++
	}
	c.w.note("partition", c.w.key(l.tp), int64(now.Leader), int64(now.LeaderEpoch), int64(now.PartitionEpoch), int64(len(now.ISR)), int64(len(now.ELR)))
}

// reassigned looks at what a reassignment does: it never leaves fewer in sync, or complete, than min.insync.replicas by its own doing (case 53).
func (c *checker) reassigned(image *cluster.Image, change cluster.Change[cluster.TopicPartition, *cluster.Partition], cmd cluster.Command) {
	old, now := change.Old, change.New
	switch cmd.(type) {
	case cluster.Reassign:
	case cluster.FinishReassign:
		c.broughtAll(change.Key, image, old, now)
	default:
		return
	}
	if len(old.Adding)+len(old.Removing) > 0 && len(now.Adding)+len(now.Removing) == 0 {
		c.w.cov.Reassignments++
	}
	topic, _ := image.Topic(change.Key.Topic)
	if min := image.MinISR(topic, now); len(now.ISR) < min && len(now.ISR) < len(old.ISR) {
		c.fail("I1: a reassignment takes the ISR of %s from %v to %v, below min.insync.replicas %d", c.w.named(change.Key), old.ISR, now.ISR, min)
	} else if left := len(now.ISR) + len(now.ELR); left < min && left < len(old.ISR)+len(old.ELR) && image.MinISR(topic, old) <= min { // a lower one clears the ELR (case 143)
		c.fail("I1: a reassignment takes the complete replicas of %s from %v and %v to %v and %v, below min.insync.replicas %d", c.w.named(change.Key), old.ISR, old.ELR, now.ISR, now.ELR, min)
	}
}
