package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

const classicPartitions = 12

// consumer is a classic client as a good one would be: it stops reading before it joins again, reads what it is assigned, and assigns when it
// leads. Nothing it is told reaches it for sure.
type consumer struct {
	name     string
	instance string
	modern   bool // takes its id in two steps
	running  bool
	memberID string

	phase      consumerPhase
	waiter     uint64 // the request under way
	generation int32
	toAssign   []Assignment
	reads      []byte // partitions
}

type consumerPhase int

const (
	mustJoin consumerPhase = iota
	waitsForJoin
	mustSync
	waitsForSync
	reading
)

func (c *consumer) rejoin() { c.phase, c.waiter, c.reads, c.toAssign = mustJoin, 0, nil, nil }

func (c *consumer) startOver() { c.rejoin(); c.memberID = "" }

// classicWorld is a group, its consumers, and everything that can go wrong between them.
type classicWorld struct {
	t         *testing.T
	r         *rand.Rand
	rig       *rig
	consumers []*consumer
	asked     map[uint64]*consumer
	waiters   uint64
	ids       int
	healed    bool
}

func newClassicWorld(t *testing.T, seed uint64) *classicWorld {
	w := &classicWorld{t: t, r: rand.New(rand.NewPCG(seed, 82)), rig: newRig(t), asked: map[uint64]*consumer{}}
	config := DefaultConfig()
	config.MaxMembers = 200
	config.InitialRebalanceDelay = time.Duration(seed%2) * time.Second
	w.rig.group = New("g", config)
	return w
}

// ask hands a request of a consumer, or of nobody, to the group, and its answers to who waits for them.
func (w *classicWorld) ask(c *consumer, in Input) {
	w.waiters++
	env := w.rig.env()
	env.Waiter = w.waiters
	if c != nil {
		c.waiter = w.waiters
		w.asked[w.waiters] = c
	}
	out := w.rig.stepIn(env, in)
	w.rig.out.Reset()
	for _, done := range out.Completed {
		w.answer(done.Waiter, done.Reply)
	}
	if !out.Parked {
		w.answer(env.Waiter, out.Reply)
	}
	w.check()
}

// answer brings an answer to a consumer, unless it is lost or the consumer has given it up: then it asks again.
func (w *classicWorld) answer(waiter uint64, reply Reply) {
	c := w.asked[waiter]
	delete(w.asked, waiter)
	if c == nil || c.waiter != waiter {
		return
	}
	c.waiter = 0
	if w.r.IntN(10) == 0 && !w.healed {
		switch c.phase {
		case waitsForJoin:
			c.phase = mustJoin
		case waitsForSync:
			c.phase = mustSync
		}
		return
	}
	switch {
	case reply.Code == cluster.CodeUnknownMember:
		c.startOver()
	case reply.Code == cluster.CodeFencedInstance:
		c.startOver()
		c.running = false
	case reply.Code != cluster.CodeNone:
		c.rejoin()
	case reply.Join != nil && reply.Join.MemberIDRequired:
		c.memberID, c.phase = reply.Join.MemberID, mustJoin
	case reply.Join != nil:
		c.joined(reply.Join)
	case reply.Sync != nil:
		c.phase, c.reads = reading, reply.Sync.Assignment
	}
}

func (c *consumer) joined(j *JoinReply) {
	c.memberID, c.generation, c.phase, c.toAssign = j.MemberID, j.Generation, mustSync, nil
	if j.Leader != j.MemberID || j.SkipAssignment {
		return
	}
	c.toAssign = make([]Assignment, len(j.Members))
	for i, m := range j.Members {
		c.toAssign[i].MemberID = m.MemberID
	}
	for partition := range byte(classicPartitions) {
		a := &c.toAssign[int(partition)%len(c.toAssign)]
		a.Assignment = append(a.Assignment, partition)
	}
}

// act is the next thing that a running consumer does.
func (w *classicWorld) act(c *consumer) {
	switch c.phase {
	case mustJoin:
		c.phase, c.reads = waitsForJoin, nil
		w.ids++
		w.ask(c, Join{
			Group: "g", MemberID: c.memberID, InstanceID: c.instance, ClientID: c.name, NewMemberID: fmt.Sprintf("%s-%d", c.name, w.ids),
			SessionTimeout: testSession, RebalanceTimeout: testSession, ProtocolType: ProtocolTypeConsumer,
			Protocols:       []Protocol{{"range", metadataOf([]string{"a", "a+b"}[w.r.IntN(20)/19])}},
			RequireMemberID: c.modern, CanSkipAssignment: c.modern,
		})
	case mustSync:
		c.phase = waitsForSync
		w.ask(c, Sync{Group: "g", MemberID: c.memberID, InstanceID: c.instance, Generation: c.generation, Assignments: c.toAssign})
	case reading:
		w.ask(c, ClassicHeartbeat{Group: "g", MemberID: c.memberID, InstanceID: c.instance, Generation: c.generation})
	case waitsForJoin, waitsForSync:
		if w.r.IntN(20) == 0 && !w.healed { // its connection breaks
			c.rejoin()
		}
	}
}

// check is invariant I7 for classic groups: of the consumers whose commits would be accepted, no two read the same partition.
func (w *classicWorld) check() {
	w.t.Helper()
	checkClassic(w.t, w.rig.group)
	readers := map[byte]string{}
	for _, c := range w.consumers {
		if c.phase != reading {
			continue
		}
		p, _ := w.rig.group.checkGeneration(c.memberID, c.instance, c.generation)
		if p == nil || w.rig.group.classicState() == StateCompleting {
			continue
		}
		for _, partition := range c.reads {
			if other, taken := readers[partition]; taken {
				w.t.Fatalf("%d is read by %s and by %s in generation %d", partition, other, c.name, c.generation)
			}
			readers[partition] = c.name
		}
	}
}

func (w *classicWorld) takeOver() {
	var refused []uint64
	refused = append(refused, w.rig.group.Abandon()...)
	generation := w.rig.group.state.Epoch
	w.rig.takeOver()
	w.rig.out.Reset()
	if w.rig.group.state.Epoch != generation {
		w.t.Fatalf("a new coordinator goes on in generation %d, not %d", w.rig.group.state.Epoch, generation)
	}
	for _, waiter := range refused {
		w.answer(waiter, Reply{Code: cluster.CodeCoordinatorLoading})
	}
	w.check()
}

// step does one random thing.
func (w *classicWorld) step() {
	running := slices.DeleteFunc(slices.Clone(w.consumers), func(c *consumer) bool { return !c.running })
	if len(running) == 0 || len(w.consumers) < 100 && w.r.IntN(40) == 0 {
		c := &consumer{name: fmt.Sprintf("c%03d", len(w.consumers)), running: true, modern: w.r.IntN(4) > 0}
		if w.r.IntN(4) == 0 {
			c.instance = fmt.Sprintf("i%d", w.r.IntN(5)) // now and then one that is taken
		}
		w.consumers = append(w.consumers, c)
		return
	}
	c := running[w.r.IntN(len(running))]
	switch n := w.r.IntN(200); {
	case n < 190:
		w.act(c)
	case n < 192:
		c.running = false // SIGSTOP: it goes on believing what it believes
	case n < 195:
		w.consumers[w.r.IntN(len(w.consumers))].running = true
	case n < 196: // it crashes and begins anew
		c.startOver()
	case n < 198:
		w.ask(nil, Leave{Group: "g", Members: []LeavingMember{{MemberID: c.memberID, InstanceID: c.instance}}})
		c.startOver()
		c.running = false
	case n < 199:
		w.ask(nil, NewCoordinator{})
	default:
		w.takeOver()
	}
}

// Case 81 for classic groups: members join, leave, stop, crash, resume and lose answers at random, and the coordinator moves. At no time may two
// members of the present generation read one partition; when the trouble ends the group settles.
func TestCase81_RandomClassicMembershipNeverHasTwoOwners(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newClassicWorld(t, seed)
			for range 3000 {
				w.step()
				if w.r.IntN(8) == 0 {
					w.rig.now += time.Duration(w.r.IntN(500)) * time.Millisecond
					w.ask(nil, Tick{})
				}
			}
			w.settle()
		})
	}
}

// settle lets everybody who runs behave, and then demands a stable group in which every partition has one reader. That takes at most a session and
// a rebalance timeout, and as long again for ghosts: members whose client never learnt the id that it was given in one step, which come to light
// only in the generation that takes them in.
func (w *classicWorld) settle() {
	w.t.Helper()
	w.healed = true
	for _, c := range w.consumers {
		if c.instance != "" { // clients that fight over an instance id never settle: that is theirs to settle
			c.running = false
			c.startOver()
		}
	}
	w.consumers = append(w.consumers, &consumer{name: "last", running: true, modern: true})
	const rounds = 5 * time.Second
	for end := w.rig.now + 4*testSession + rounds; w.rig.now < end; w.rig.now += time.Second {
		for range 3 { // join, sync, and read
			for _, c := range w.consumers {
				if c.running {
					w.act(c)
				}
			}
		}
		w.ask(nil, Tick{})
	}
	if state := w.rig.group.State(); state != StateStable {
		w.t.Fatalf("not settled: %s, %q", state, w.rig.group.why(w.rig.env()))
	}
	readers := 0
	for _, c := range w.consumers {
		member := w.rig.group.member(c.memberID) != nil
		if c.running != member || member && c.phase != reading {
			w.t.Fatalf("consumer %s runs: %v, is a member: %v, phase %d", c.name, c.running, member, c.phase)
		}
		if member {
			readers += len(c.reads)
		}
	}
	if members := w.rig.group.Members(); readers != classicPartitions {
		w.t.Fatalf("%d members read %d of %d partitions", members, readers, classicPartitions)
	}
}
