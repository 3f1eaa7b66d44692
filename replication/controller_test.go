package replication_test

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication"
)

// modelController is an idealised controller: one partition, commands applied at once, images sent to everybody.
type modelController struct {
	world     *world
	minISR    int
	partition cluster.Partition
	brokers   map[cluster.BrokerID]*replication.Peer
	lastEpoch cluster.BrokerEpoch
	// leaders remembers who was elected in each epoch.
	elections int
}

func newModelController(w *world, count, minISR int) *modelController {
	c := &modelController{world: w, minISR: minISR, brokers: map[cluster.BrokerID]*replication.Peer{}}
	for i := range count {
		id := cluster.BrokerID(i + 1)
		c.partition.Replicas = append(c.partition.Replicas, id)
		c.partition.ISR = append(c.partition.ISR, id)
		c.brokers[id] = &replication.Peer{Broker: id, Epoch: cluster.NoBrokerEpoch}
	}
	c.partition.Leader = cluster.NoBroker
	return c
}

// publish sends the present state to every broker.
func (c *modelController) publish() {
	state := c.partition.Clone()
	var peers []replication.Peer
	for _, b := range state.Replicas {
		peers = append(peers, *c.brokers[b])
	}
	for _, b := range state.Replicas {
		if c.brokers[b].Epoch != cluster.NoBrokerEpoch {
			c.world.send(message{from: controllerID, to: b, image: state, peers: peers})
		}
	}
}

// register gives a broker a new epoch; it starts fenced and loses what it leads, and its place in no set (its flushed records are there).
func (c *modelController) register(b cluster.BrokerID) cluster.BrokerEpoch {
	c.lastEpoch++
	p := c.brokers[b]
	p.Epoch, p.Eligible = c.lastEpoch, false
	if c.partition.Leader == b {
		c.elect(c.candidate(b))
	}
	c.publish()
	return c.lastEpoch
}

// canSpare reports whether somebody else has everything.
func (c *modelController) canSpare(b cluster.BrokerID) bool {
	return len(without(c.partition.ISR, b))+len(without(c.partition.ELR, b)) > 0
}

// wiped takes a broker out of ISR and ELR: it comes back with an empty disk.
func (c *modelController) wiped(b cluster.BrokerID) {
	p := &c.partition
	if p.Leader == b {
		c.elect(c.candidate(b))
	}
	if p.Leader == b {
		c.elect(cluster.NoBroker)
	}
	p.ISR = without(p.ISR, b)
	p.ELR = without(p.ELR, b)
	p.PartitionEpoch++
	if p.Leader == cluster.NoBroker {
		c.elect(c.candidate(b))
	}
	c.publish()
}

// fence takes a broker out of leadership and ISR; who left at the minimum stays electable.
func (c *modelController) fence(b cluster.BrokerID) {
	c.brokers[b].Eligible = false
	p := &c.partition
	if p.Leader == b {
		c.elect(c.candidate(b))
	}
	if slices.Contains(p.ISR, b) && p.Leader != b {
		p.ISR = without(p.ISR, b)
		c.keepELR([]cluster.BrokerID{b})
		p.PartitionEpoch++
	}
	c.publish()
}

// unfence makes a broker eligible and elects it where nobody leads.
func (c *modelController) unfence(b cluster.BrokerID) {
	c.brokers[b].Eligible = true
	if c.partition.Leader == cluster.NoBroker {
		c.elect(c.candidate(cluster.NoBroker))
	}
	c.publish()
}

// candidate is the first eligible member of ISR, then ELR.
func (c *modelController) candidate(not cluster.BrokerID) cluster.BrokerID {
	for _, set := range [][]cluster.BrokerID{c.partition.ISR, c.partition.ELR} {
		for _, b := range c.partition.Replicas {
			if b != not && slices.Contains(set, b) && c.brokers[b].Eligible {
				return b
			}
		}
	}
	return cluster.NoBroker
}

// elect begins a leader epoch.
func (c *modelController) elect(b cluster.BrokerID) {
	p := &c.partition
	if b == cluster.NoBroker && p.Leader == cluster.NoBroker {
		return
	}
	p.Leader = b
	p.LeaderEpoch++
	p.PartitionEpoch++
	c.elections++
	if b != cluster.NoBroker && !slices.Contains(p.ISR, b) {
		left := p.ISR
		p.ISR = []cluster.BrokerID{b}
		p.ELR = without(p.ELR, b)
		c.keepELR(left)
	}
}

// keepELR notes who left the ISR.
func (c *modelController) keepELR(left []cluster.BrokerID) {
	p := &c.partition
	if len(p.ISR) >= c.minISR {
		p.ELR = nil
		return
	}
	for _, b := range left {
		if !slices.Contains(p.ELR, b) && !slices.Contains(p.ISR, b) {
			p.ELR = append(p.ELR, b)
		}
	}
	slices.Sort(p.ELR)
}

// receive decides an ISR proposal and answers.
func (c *modelController) receive(m message) {
	answer := &replication.AlterPartitionResult{LeaderEpoch: m.alter.LeaderEpoch, PartitionEpoch: m.alter.PartitionEpoch}
	answer.Code = c.alter(m)
	if answer.Code == cluster.CodeNone {
		answer.State = c.partition.Clone()
	}
	c.world.send(message{from: controllerID, to: m.from, answer: answer})
	if answer.Code == cluster.CodeNone {
		c.publish()
	}
}

func (c *modelController) alter(m message) cluster.Code {
	p := &c.partition
	switch {
	case m.fromEpoch != c.brokers[m.from].Epoch:
		return cluster.CodeStaleBrokerEpoch
	case m.from != p.Leader || m.alter.LeaderEpoch != p.LeaderEpoch:
		return cluster.CodeFencedLeaderEpoch
	case m.alter.PartitionEpoch != p.PartitionEpoch:
		return cluster.CodeStalePartitionEpoch
	}
	for _, member := range m.alter.ISR {
		b := c.brokers[member.Broker]
		if b.Epoch != member.Epoch || (!b.Eligible && !slices.Contains(p.ISR, b.Broker)) {
			return cluster.CodeIneligibleReplica
		}
	}
	old := p.ISR
	if slices.Equal(old, isrOf(m.alter)) {
		return cluster.CodeNone // nothing changes, not even the epoch
	}
	p.ISR = isrOf(m.alter)
	p.ELR = slices.DeleteFunc(slices.Clone(p.ELR), func(b cluster.BrokerID) bool { return slices.Contains(p.ISR, b) })
	c.keepELR(old)
	p.PartitionEpoch++
	return cluster.CodeNone
}

func without(set []cluster.BrokerID, b cluster.BrokerID) []cluster.BrokerID {
	return slices.DeleteFunc(slices.Clone(set), func(x cluster.BrokerID) bool { return x == b })
}
