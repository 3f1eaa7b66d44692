package replication_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
)

// checker holds what clients were told, and finds what contradicts it.
type checker struct {
	w *world
	// committed holds the entry at each offset that was acknowledged with acks=isr or lay below a leader's watermark.
	committed map[record.Offset]entry
	top       record.Offset
	// writers tells which incarnation appended in each leader epoch (I8).
	writers map[record.LeaderEpoch]cluster.BrokerEpoch
	latest  record.Offset // largest answer to "latest"
	broken  string
}

func newChecker(w *world) *checker {
	c := &checker{w: w, committed: map[record.Offset]entry{}, writers: map[record.LeaderEpoch]cluster.BrokerEpoch{}}
	w.onAppend = func(n *node, a replication.Append) {
		if owner, ok := c.writers[a.Epoch]; ok && owner != n.epoch {
			c.fail("I8: leader epoch %d is written by broker epochs %d and %d", a.Epoch, owner, n.epoch)
		}
		c.writers[a.Epoch] = n.epoch
	}
	w.onRespond = func(n *node, r replication.Response) {
		if r.Code == cluster.CodeNone && w.acksOf[r.Request] == replication.AcksISR {
			e := n.log.at(r.Base)
			if e.value != w.written[r.Request] {
				c.fail("I1: request %d is acknowledged at %d, where %d is", r.Request, r.Base, e.value)
			}
			c.commit(r.Base, e)
		}
	}
	return c
}

func (c *checker) fail(format string, args ...any) {
	if c.broken == "" {
		c.broken = fmt.Sprintf(format, args...)
	}
}

func (c *checker) commit(o record.Offset, e entry) {
	if old, ok := c.committed[o]; ok && old != e {
		c.fail("I2: offset %d is %v and was %v", o, e, old)
	}
	c.committed[o] = e
	c.top = max(c.top, o+1)
}

// look examines the whole world after a step.
func (c *checker) look() {
	for _, n := range c.w.nodes {
		if !n.up {
			continue
		}
		r := n.replica
		if r.Role() != replication.Leader {
			continue
		}
		// What consumers of this leader could read (I6) becomes part of what must stay.
		for o := max(n.log.start, r.HighWatermark()-4); o < r.HighWatermark(); o++ {
			c.commit(o, n.log.at(o))
		}
		if r.LeaderEpoch() == c.w.ctl.partition.LeaderEpoch {
			c.lookLeader(n)
		}
	}
	for _, n := range c.w.nodes {
		c.lookDisk(n)
	}
}

// lookLeader checks that the leader of the newest epoch has everything, and that "latest" does not go back (I1, I9).
func (c *checker) lookLeader(n *node) {
	for o := n.log.start; o < c.top; o++ {
		want, ok := c.committed[o]
		if ok && (o >= n.log.end() || n.log.at(o) != want) {
			c.fail("I1: leader %d of epoch %d lacks %v at offset %d: %s", n.id, n.replica.LeaderEpoch(), want, o, &n.log)
			return
		}
	}
	if n.replica.Settled() {
		if n.replica.HighWatermark() < c.latest {
			c.fail("I9: latest is %d after %d", n.replica.HighWatermark(), c.latest)
		}
		c.latest = n.replica.HighWatermark()
	}
}

// lookDisk checks that a replica agrees with what is committed below its own watermark (I2).
func (c *checker) lookDisk(n *node) {
	if !n.up {
		return
	}
	for o := max(n.log.start, n.replica.HighWatermark()-8); o < n.replica.HighWatermark(); o++ {
		if want, ok := c.committed[o]; ok && n.log.at(o) != want {
			c.fail("I2: broker %d has %v at %d, committed is %v", n.id, n.log.at(o), o, want)
		}
	}
}

// walk is one random history. It returns what was broken, or "", and the steps taken.
func walk(seed uint64, steps int, trace func(string, ...any)) (string, *world) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(3, 2)
	w.trace = trace
	c := newChecker(w)
	for _, n := range w.nodes {
		w.ctl.unfence(n.id)
	}
	// Swarm: each history has its own mixture.
	m := mixture{
		loss:    rng.IntN(10),
		reorder: rng.IntN(2) == 0,
		crash:   rng.IntN(12),
		fence:   1 + rng.IntN(12),
		flush:   50 + rng.IntN(200),
		tick:    10 + rng.IntN(60),
	}
	for step := 0; step < steps && c.broken == ""; step++ {
		act(w, rng, m)
		c.look()
	}
	if c.broken == "" {
		heal(w, c)
	}
	return c.broken, w
}

// mixture says how often what happens, in thousandths, and what the wire is like.
type mixture struct {
	loss    int // in hundredths of messages
	reorder bool
	crash   int
	fence   int
	flush   int
	tick    int
}

// act does one random thing.
func act(w *world, rng *rand.Rand, m mixture) {
	n := w.nodes[rng.IntN(len(w.nodes))]
	roll := rng.IntN(1000)
	chance := func(thousandths int) bool {
		roll -= thousandths
		return roll < 0
	}
	switch {
	case chance(m.crash):
		if n.up {
			n.crash()
		}
	case chance(m.fence):
		w.ctl.fence(n.id)
	case chance(25):
		switch {
		case !n.up:
			if rng.IntN(3) == 0 && w.ctl.canSpare(n.id) {
				n.log = modelLog{} // a new disk (case 40)
				w.ctl.wiped(n.id)
			}
			n.start()
		case !w.ctl.brokers[n.id].Eligible:
			w.ctl.unfence(n.id)
		}
	case chance(m.tick):
		w.now += time.Duration(rng.IntN(3000)) * time.Millisecond
		for _, n := range w.nodes {
			if n.up {
				n.step(&replication.ControllerContact{Until: w.now + time.Second})
				n.step(&replication.Tick{})
			}
		}
	case chance(15):
		if n.up && n.replica.Role() == replication.Follower {
			n.subscribe()
		}
	case chance(m.flush):
		if n.up && rng.IntN(2) == 0 {
			n.beginFlush()
		} else if n.up {
			n.finishFlush()
		}
	case chance(60):
		if leader := w.ctl.partition.Leader; leader != cluster.NoBroker && rng.IntN(4) > 0 {
			n = w.node(leader)
		}
		if n.up {
			n.produce(replication.Acks(rng.IntN(2)), w.now+30*time.Second)
		}
	case len(w.wire) > 0:
		i := 0
		if m.reorder {
			i = rng.IntN(len(w.wire))
			if rng.IntN(4) > 0 {
				i = rng.IntN(min(len(w.wire), 8))
			}
		}
		if chosen := w.wire[i]; chosen.image != nil {
			i = slices.IndexFunc(w.wire, func(m message) bool { return m.image != nil && m.to == chosen.to })
		}
		w.pass(w.take(i), rng, m.loss)
	}
}

// pass delivers a message or loses it. Metadata is never lost, only late and in order: it is
// a log.
func (w *world) pass(m message, rng *rand.Rand, loss int) {
	switch {
	case m.image != nil || rng.IntN(100) >= loss:
		w.deliver(m)
	case m.alter != nil || m.answer != nil:
		lostAlter(w, m, rng)
	}
}

// lostAlter answers a proposer whose request or answer was lost: it learns only that it does not know.
func lostAlter(w *world, m message, rng *rand.Rand) {
	change, proposer := m.alter, m.from
	if m.answer != nil {
		change, proposer = &cluster.ISRChange{LeaderEpoch: m.answer.LeaderEpoch, PartitionEpoch: m.answer.PartitionEpoch}, m.to
	} else if rng.IntN(2) == 0 {
		w.send(m) // it arrives later, after the proposer has given up
	}
	w.send(message{from: controllerID, to: proposer, answer: &replication.AlterPartitionResult{
		LeaderEpoch: change.LeaderEpoch, PartitionEpoch: change.PartitionEpoch, Code: cluster.CodeTimedOut,
	}})
}

// heal ends all faults and demands convergence: one leader, byte-identical logs, the whole ISR (I11 without its time bound).
func heal(w *world, c *checker) {
	for _, n := range w.nodes {
		if !n.up {
			n.start()
		}
	}
	for range 40 {
		for _, n := range w.nodes {
			if !w.ctl.brokers[n.id].Eligible {
				w.ctl.unfence(n.id)
			}
			if n.replica.Role() == replication.Follower {
				n.subscribe()
			}
			n.wantFlush = true
		}
		w.settle(nil)
		w.now += time.Second
		for _, n := range w.nodes {
			n.step(&replication.Tick{})
		}
		c.look()
	}
	leader := w.ctl.partition.Leader
	if leader == cluster.NoBroker || len(w.ctl.partition.ISR) != len(w.nodes) {
		c.fail("after healing: leader %d, ISR %v, ELR %v", leader, w.ctl.partition.ISR, w.ctl.partition.ELR)
		return
	}
	want := w.node(leader)
	for _, n := range w.nodes {
		if n.log.start != want.log.start || !slices.Equal(n.log.entries, want.log.entries) {
			c.fail("after healing: broker %d has %s, leader %d has %s", n.id, &n.log, leader, &want.log)
		}
		if n.replica.HighWatermark() != want.log.end() {
			c.fail("after healing: broker %d has watermark %d of %d", n.id, n.replica.HighWatermark(), want.log.end())
		}
	}
}

// traceOf repeats a history and returns its last lines.
func traceOf(seed uint64, steps int) string {
	var lines []string
	walk(seed, steps, func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

const walkSteps = 600

// TestWalk runs random histories of three replicas with loss, reordering, fencing and crashes that lose what was not flushed, and checks I1, I2,
// I6, I8 and I9 after every step, then convergence.
func TestWalk(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 200
	}
	acknowledged, elections := 0, 0
	for seed := range seeds {
		broken, w := walk(seed, walkSteps, nil)
		if broken != "" {
			t.Fatalf("seed %d: %s\n%s", seed, broken, traceOf(seed, walkSteps))
		}
		for _, r := range w.answers {
			if r.Code == cluster.CodeNone {
				acknowledged++
			}
		}
		elections += w.ctl.elections
	}
	t.Logf("%d histories, %d acknowledged requests, %d elections", seeds, acknowledged, elections)
	if acknowledged < int(seeds)*3 || elections < int(seeds)*2 {
		t.Errorf("the walk hardly walks: %d acknowledged, %d elections in %d histories", acknowledged, elections, seeds)
	}
}
