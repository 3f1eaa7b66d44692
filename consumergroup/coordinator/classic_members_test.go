package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// classicConsumer is a member of one classic group that asks whoever coordinates it, one request at a time.
type classicConsumer struct {
	name       string
	id         string // empty: joins as a new member
	ids        int
	generation int32
	assign     []group.Assignment // to send with the sync
	phase      string             // "join", "sync" or "read": what it does next
	node       int
	ticket     Ticket // 0: nothing under way
}

// classicDoubt is two brokers that share a log, and the consumers of one classic group.
type classicDoubt struct {
	doubtful
	consumers []*classicConsumer
	leaders   map[int32]string          // by generation
	readers   map[int32]map[byte]string // by generation and partition
	healed    bool
}

// act has one consumer take its answer, give it up, or ask again.
func (d *classicDoubt) act(c *classicConsumer) {
	if c.ticket != 0 {
		reply, ok := d.nodes[c.node].answers[c.ticket]
		switch {
		case ok:
			c.ticket = 0
			d.take(c, reply)
		case c.node != d.leader && d.r.IntN(4) == 0: // it has heard that another broker coordinates
			c.ticket, c.phase = 0, "join"
		}
		return
	}
	var in group.Input
	switch c.phase {
	case "join":
		c.ids++
		in = group.Join{
			Group: "g", MemberID: c.id, NewMemberID: fmt.Sprintf("%s-%d", c.name, c.ids), SessionTimeout: time.Minute, RebalanceTimeout: time.Minute,
			ProtocolType: "consumer", Protocols: []group.Protocol{{Name: "range"}}, RequireMemberID: true,
		}
	case "sync":
		in = group.Sync{Group: "g", MemberID: c.id, Generation: c.generation, Assignments: c.assign}
	default:
		if d.r.IntN(20) == 0 && !d.healed { // the leader wants another assignment, a follower is told again
			c.phase = "join"
			return
		}
		in = group.ClassicHeartbeat{Group: "g", MemberID: c.id, Generation: c.generation}
	}
	c.node = d.leader
	c.ticket = d.nodes[c.node].ask("g", in)
	d.nodes[c.node].take()
}

func (d *classicDoubt) take(c *classicConsumer, reply group.Reply) {
	switch {
	case reply.Code == cluster.CodeUnknownMember:
		if c.phase == "read" { // nobody's session ends in this test, and who has an assignment is in the log
			d.t.Fatalf("%s in generation %d is told: %s", c.id, c.generation, reply.Message)
		}
		c.id, c.phase = "", "join"
	case reply.Code == cluster.CodeTimedOut:
		d.unknown++
	case reply.Code == cluster.CodeIllegalGeneration, reply.Code == cluster.CodeRebalanceInProgress:
		c.phase = "join"
	case reply.Code != cluster.CodeNone: // asks again
	case reply.Join != nil && reply.Join.MemberIDRequired:
		c.id = reply.Join.MemberID
	case reply.Join != nil:
		d.joined(c, reply.Join)
	case reply.Sync != nil:
		c.phase = "read"
		d.read(c, reply.Sync.Assignment)
	}
}

// joined demands that everybody in a generation hears of the same leader, and has the leader share out four partitions.
func (d *classicDoubt) joined(c *classicConsumer, j *group.JoinReply) {
	if leader := d.leaders[j.Generation]; leader != "" && leader != j.Leader {
		d.t.Fatalf("generation %d is led by %s and by %s", j.Generation, leader, j.Leader)
	}
	d.leaders[j.Generation] = j.Leader
	c.generation, c.phase, c.assign = j.Generation, "sync", nil
	first := d.r.IntN(4) // another assignment every time, so that two for one generation would show
	for i, m := range j.Members {
		a := group.Assignment{MemberID: m.MemberID}
		for partition := range 4 {
			if (partition+first)%len(j.Members) == i {
				a.Assignment = append(a.Assignment, byte(partition))
			}
		}
		c.assign = append(c.assign, a)
	}
}

// read demands that in no generation, at any time, two members are given one partition.
func (d *classicDoubt) read(c *classicConsumer, partitions []byte) {
	if d.readers[c.generation] == nil {
		d.readers[c.generation] = map[byte]string{}
	}
	for _, partition := range partitions {
		if other := d.readers[c.generation][partition]; other != "" && other != c.id {
			d.t.Fatalf("in generation %d partition %d is read by %s and by %s", c.generation, partition, other, c.id)
		}
		d.readers[c.generation][partition] = c.id
	}
}

// Cases 81, 147 and 148 together, for classic groups: consumers rebalance while answers of the log are lost, lost batches are applied late, and the
// shard moves to and fro. No generation has two leaders or two readers of a partition, and nobody who reads is told that it is unknown.
func TestCase81_ClassicGenerationsThroughDoubtAndTakeover(t *testing.T) {
	unknown, generations := 0, 0
	for seed := range uint64(100) {
		log := newModelLog()
		d := &classicDoubt{leaders: map[int32]string{}, readers: map[int32]map[byte]string{}}
		d.doubtful = doubtful{t: t, r: rand.New(rand.NewPCG(seed, 148)), log: log, nodes: []*node{classicNode(t, log, 0), classicNode(t, log, 1)}}
		d.tell()
		for i := range 1000 {
			if i%60 == 0 && len(d.consumers) < 4 {
				d.consumers = append(d.consumers, &classicConsumer{name: fmt.Sprint("c", len(d.consumers)), phase: "join"})
			}
			if d.r.IntN(2) == 0 {
				d.act(d.consumers[d.r.IntN(len(d.consumers))])
			} else {
				d.trouble()
			}
		}
		d.settle(seed)
		unknown += d.unknown
		generations += len(d.readers)
	}
	if unknown < 300 || generations < 300 {
		t.Fatalf("only %d answers were lost and %d generations assigned: the test shows little", unknown, generations)
	}
}

// settle heals everything, and demands that all consumers read.
func (d *classicDoubt) settle(seed uint64) {
	d.healed = true
	for range 200 {
		d.tell()
		for _, n := range d.nodes {
			for n.append != nil || len(n.loads) > 0 {
				n.load()
				if n.append != nil {
					n.finish()
				}
			}
			n.now += time.Second // ids that nobody came back with run out
			n.core.Tick(n.env())
			n.take()
		}
		for _, c := range d.consumers {
			d.act(c)
			d.nodes[d.leader].finishAll()
		}
	}
	for _, c := range d.consumers {
		if newest := d.consumers[0].generation; c.phase != "read" || c.generation != newest {
			d.t.Fatalf("seed %d: %s is at %q in generation %d in the end, c0 in %d", seed, c.id, c.phase, c.generation, newest)
		}
	}
}
