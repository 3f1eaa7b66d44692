package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// client is a consumer as a good client would be: it acts on replies in the order in which they come, stops reading what it must revoke at
// some later moment, and drops everything when it is fenced.
type client struct {
	id       string
	instance string
	running  bool // a stopped client neither sends nor reads
	joined   bool // thinks that it is a member
	epoch    int32
	seen     uint64
	owned    []cluster.TopicPartition // what it reads
	revoke   []cluster.TopicPartition // part of owned that it is about to give up
	inbox    []MemberReply            // answers and pushes under way to it, in order
}

// world is a group, its clients, and everything that can go wrong between them.
type world struct {
	t       *testing.T
	r       *rand.Rand
	rig     *rig
	clients []*client
	next    int
	healed  bool // no answer is lost any more
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 81)), rig: newRig(t)}
	config := DefaultConfig()
	config.MaxMembers = 200
	w.rig.group = New("g", config)
	w.rig.topics = fakeTopics{"a": 7, "b": 12}
	return w
}

const testSession = 10 * time.Second

func (w *world) send(c *client, hb Heartbeat) {
	hb.Group, hb.MemberID, hb.InstanceID = "g", c.id, c.instance
	out := w.rig.step(hb)
	w.rig.out.Reset()
	if out.Reply.Code != cluster.CodeNone {
		if hb.Epoch != EpochJoin && !hb.Poll {
			c.drop()
		}
		return
	}
	switch n := w.r.IntN(10); {
	case n == 0 && !w.healed: // the answer is lost, and with it the connection and all that was under way on it
		c.inbox = nil
	default:
		c.inbox = append(c.inbox, out.Reply.Member)
	}
}

// drop is what a fenced client does.
func (c *client) drop() {
	c.joined, c.epoch, c.seen = false, 0, 0
	c.owned, c.revoke, c.inbox = nil, nil, nil
}

func (w *world) heartbeat(c *client) {
	if !c.joined {
		c.drop()
		c.joined = true
		topics := [][]string{{"a", "b"}, {"a"}, {"b"}, {"a", "b", "c"}}
		w.send(c, Heartbeat{Epoch: EpochJoin, Topics: topics[w.r.IntN(4)], SessionTimeout: testSession, RebalanceTimeout: testSession})
		return
	}
	if c.epoch == 0 {
		c.joined = len(c.inbox) > 0 // the answer to the join was lost: join again
		return
	}
	w.send(c, Heartbeat{Epoch: c.epoch, Seen: c.seen, Owned: append([]cluster.TopicPartition{}, c.owned...)})
}

// receive acts on the oldest answer.
func (c *client) receive() {
	if len(c.inbox) == 0 {
		return
	}
	reply := c.inbox[0]
	c.inbox = c.inbox[1:]
	c.epoch = reply.Epoch
	if reply.Changed {
		c.seen = reply.Version
		c.revoke = intersect(c.owned, reply.Revoke)
		c.owned = union(reply.Assigned, c.revoke)
	}
}

// release stops reading what is to be revoked.
func (c *client) release() {
	c.owned, c.revoke = subtract(c.owned, c.revoke), nil
}

// check is invariant I7: of the clients that are members, no two read the same partition.
func (w *world) check() {
	w.t.Helper()
	checkInvariants(w.t, w.rig.group)
	readers := map[cluster.TopicPartition]string{}
	for _, c := range w.clients {
		if w.rig.group.member(c.id) == nil {
			continue // fenced, though it may not know yet: its commits are refused
		}
		for _, tp := range c.owned {
			if other, taken := readers[tp]; taken {
				w.t.Fatalf("%s is read by %s and by %s", formatPartitions([]cluster.TopicPartition{tp}), other, c.id)
			}
			readers[tp] = c.id
		}
	}
}

// step does one random thing.
func (w *world) step() {
	running := slices.DeleteFunc(slices.Clone(w.clients), func(c *client) bool { return !c.running })
	if len(running) == 0 || len(w.clients) < 100 && w.r.IntN(8) == 0 {
		c := &client{id: fmt.Sprintf("c%03d", w.next), running: true}
		if w.r.IntN(4) == 0 {
			c.instance = fmt.Sprintf("i%d", w.r.IntN(5)) // now and then one that is taken
		}
		w.next++
		w.clients = append(w.clients, c)
		return
	}
	c := running[w.r.IntN(len(running))]
	switch n := w.r.IntN(100); {
	case n < 40:
		w.heartbeat(c)
	case n < 70:
		c.receive()
	case n < 85:
		c.release()
	case n < 92:
		if c.epoch > 0 { // a door pushes
			w.send(c, Heartbeat{Epoch: c.epoch, Poll: true})
		}
	case n < 94:
		c.running = false
	case n < 96:
		w.clients[w.r.IntN(len(w.clients))].running = true
	case n < 97:
		w.rig.step(Heartbeat{Group: "g", MemberID: c.id, InstanceID: c.instance, Epoch: EpochLeave})
		c.drop()
		c.running = false
	case n < 98 && c.instance != "":
		w.rig.step(Heartbeat{Group: "g", MemberID: c.id, InstanceID: c.instance, Epoch: EpochStaticLeave})
		c.drop()
		c.running = false
	case n < 99:
		w.rig.takeOver()
	default:
		w.rig.topics = fakeTopics{"a": 7 + int32(w.r.IntN(5)), "b": 12}
		w.rig.step(TopicsChanged{})
	}
}

// Case 81: members join, leave, stop, resume and lose answers at random, the coordinator moves, topics grow. At no time do two members read one
// partition; when the trouble ends, the group settles within one session timeout.
func TestCase81_RandomMembershipNeverHasTwoOwners(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 1500 {
				w.step()
				w.check()
				if w.r.IntN(4) == 0 {
					w.rig.now += time.Duration(w.r.IntN(1000)) * time.Millisecond
					w.rig.step(Tick{})
					w.check()
				}
				w.rig.out.Reset()
			}
			w.settle()
		})
	}
}

// settle lets everybody who runs behave for one session timeout, and then demands a stable, complete and balanced group.
func (w *world) settle() {
	w.t.Helper()
	w.healed = true
	for _, c := range w.clients {
		if c.instance != "" { // clients that fight over an instance id never settle: that is theirs to settle
			c.running = false
			c.drop()
		}
	}
	const rounds = 4 * time.Second // of heartbeats, after the last one that stopped is fenced
	for end := w.rig.now + testSession + rounds; w.rig.now < end; w.rig.now += time.Second {
		for _, c := range w.clients {
			if c.running {
				w.heartbeat(c)
				for len(c.inbox) > 0 {
					c.receive()
				}
				c.release()
				w.check()
			}
		}
		w.rig.step(Tick{})
	}
	if w.rig.group.State() == StateReconciling {
		w.rig.show()
		w.t.Fatalf("not settled after a session timeout:\n%s", w.rig.out.String())
	}
	for _, c := range w.clients {
		m := w.rig.group.member(c.id)
		if (m != nil) != c.running {
			w.t.Fatalf("client %s runs: %v, is a member: %v", c.id, c.running, m != nil)
		}
		if m != nil && !slices.Equal(m.Assigned, c.owned) {
			w.t.Fatalf("client %s reads %s, was given %s", c.id, formatPartitions(c.owned), formatPartitions(m.Assigned))
		}
	}
}
