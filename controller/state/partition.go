package state

import (
	"cmp"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
)

// edit is one partition that is being changed: the state before, and a copy to work on that put writes when it differs.
type edit struct {
	tp    cluster.TopicPartition
	topic *cluster.Topic
	old   *cluster.Partition
	*cluster.Partition
	changed bool
	// bump asks for a new leader epoch even when the leader stays, touch for a new partition epoch even when nothing else changes.
	bump, touch bool
}

// edit begins to change a partition.
func (a *apply) edit(tp cluster.TopicPartition, p *cluster.Partition) *edit {
	return &edit{tp: tp, topic: a.topicOf(tp), old: p, Partition: p.Clone()}
}

func (a *apply) topicOf(tp cluster.TopicPartition) *cluster.Topic {
	if a.topic == nil || a.topic.ID != tp.Topic {
		t, ok := a.conf.Topic(tp.Topic)
		invariant.Check(ok, "controller/state: partition %v without topic", tp)
		a.topic = t
	}
	return a.topic
}

// eligible reports whether b may lead p or join its ISR: alive, not draining, and with the copy that p speaks of.
func (a *apply) eligible(p *cluster.Partition, b cluster.BrokerID) bool {
	br, ok := a.txn.Broker(b)
	return ok && br.Eligible() && p.Directory(b) == br.Directory
}

// alive reports whether b, with the copy that p speaks of, has a session.
func (a *apply) alive(p *cluster.Partition, b cluster.BrokerID) bool {
	br, ok := a.txn.Broker(b)
	return ok && !br.Fenced && p.Directory(b) == br.Directory
}

func (a *apply) minISR(e *edit) int { return a.conf.MinISR(e.topic, e.Partition) }

func (a *apply) eligibleFor(p *cluster.Partition) func(cluster.BrokerID) bool {
	return func(b cluster.BrokerID) bool { return a.eligible(p, b) }
}

// setLeader makes b the leader. It marks the election as clean; an unclean one says so afterwards.
func (e *edit) setLeader(b cluster.BrokerID) {
	if b == e.Leader {
		return
	}
	e.LastLeader = cluster.NoBroker
	if b == cluster.NoBroker {
		e.LastLeader = e.Leader
	}
	e.Leader = b
	e.UncleanLast = false
	e.bump = true
}

// setISR replaces the ISR. Who leaves it goes to the ELR while the ISR is below minISR: the watermark stands still there, so whoever was in
// sync is still complete. At or above minISR the watermark moves without them, and the ELR is emptied (KIP-966).
func (e *edit) setISR(isr []cluster.BrokerID, minISR int) {
	complete := append(slices.Clone(e.ISR), e.ELR...)
	if planted.On(planted.IncompleteInELR) {
		complete = slices.Clone(e.Replicas)
	}
	e.ISR = sorted(isr)
	e.ELR = nil
	if len(e.ISR) < minISR {
		e.ELR = sorted(slices.DeleteFunc(complete, func(b cluster.BrokerID) bool { return slices.Contains(e.ISR, b) }))
	}
}

// forget takes b out of ISR and ELR: its copy is not complete.
func (e *edit) forget(b cluster.BrokerID) {
	e.ISR = without(e.ISR, b)
	e.ELR = without(e.ELR, b)
}

// retire takes b, whose broker is fenced or restarted, out of the ISR, unless it is the last member: then it stays on record as the one that has everything, so
// that nobody else is elected later (cases 38 and 58). When nobody leads, or it led itself, it goes to the ELR, whatever the size of the ISR: the watermark stands
// still until there is a leader, and who leads then with enough others empties the ELR.
func (e *edit) retire(b cluster.BrokerID, minISR int) {
	switch {
	case !e.InISR(b) || len(e.ISR) == 1:
	case e.Leader == cluster.NoBroker || e.Leader == b:
		e.ISR, e.ELR = without(e.ISR, b), sorted(append(slices.Clone(e.ELR), b))
	default:
		e.setISR(without(e.ISR, b), minISR)
	}
}

// elect gives the partition a leader by the rules, and makes the ISR agree with it. A leader that is alive stays, also while it drains: a drain
// moves what can be moved by itself.
func (a *apply) elect(e *edit) {
	if e.Leader != cluster.NoBroker && e.InISR(e.Leader) && a.alive(e.Partition, e.Leader) {
		return
	}
	choice := placement.Elect(e.Partition, a.eligibleFor(e.Partition))
	if choice.Kind == placement.KindNone && (a.conf.UncleanElection(e.topic) || planted.On(planted.UncleanByDefault)) {
		choice = placement.ElectUnclean(e.Partition, a.eligibleFor(e.Partition))
	}
	a.lead(e, choice)
}

// lead carries out an election.
func (a *apply) lead(e *edit, choice placement.Election) {
	e.setLeader(choice.Leader)
	switch choice.Kind {
	case placement.KindISR:
		isr := e.agreeing(choice.Leader)
		if len(isr) < len(e.ISR) {
			e.setISR(isr, a.minISR(e))
		} else if len(e.ISR) >= a.minISR(e) {
			e.ELR = nil // min ISR was lowered while nobody led: from here on the watermark moves without them
		}
	case placement.KindELR:
		// The members of the ISR are complete too, but only those alive may stay: the others would hold the watermark. One that drains is waited for: it may
		// have led, and answer from its lease until it has said that it does not any more (I9).
		isr := slices.DeleteFunc(e.agreeing(choice.Leader), func(b cluster.BrokerID) bool { return !a.alive(e.Partition, b) })
		e.setISR(append(isr, choice.Leader), a.minISR(e))
	case placement.KindUnclean:
		e.ISR, e.ELR, e.Returned = []cluster.BrokerID{choice.Leader}, nil, nil
		e.UncleanLast = true
		e.bump = true
		a.adoptDirectories(e)
	}
	e.Returned = slices.DeleteFunc(e.Returned, func(r cluster.Returned) bool { return e.hasAllOf(r.Broker, choice.Leader) })
}

// returned notes what the log of b, which was complete, has after a restart. It is believed to be complete still, but who leads next is chosen by this.
func (e *edit) returned(b cluster.BrokerID, log cluster.LogPosition) {
	e.Returned = slices.DeleteFunc(e.Returned, func(r cluster.Returned) bool { return r.Broker == b })
	if !e.InISR(b) && !e.InELR(b) {
		return // it would count as one of those that are waited for
	}
	e.Returned = append(e.Returned, cluster.Returned{Broker: b, Log: log})
	slices.SortFunc(e.Returned, func(x, y cluster.Returned) int { return cmp.Compare(x.Broker, y.Broker) })
}

// agreeing are the members of the ISR that have all that a new leader has, as far as is known. One that has come back with less, or has yet to be
// compared with a leader that was never away, may have lost something: it leaves the ISR, and comes back by its leader's proposal.
func (e *edit) agreeing(leader cluster.BrokerID) []cluster.BrokerID {
	return slices.DeleteFunc(slices.Clone(e.ISR), func(b cluster.BrokerID) bool {
		_, back := e.HasReturned(b)
		return back && !e.hasAllOf(b, leader) && !planted.On(planted.ReturnedNotCompared)
	})
}

// hasAllOf reports whether b, which has returned, is the leader or has returned with no less than it.
func (e *edit) hasAllOf(b, leader cluster.BrokerID) bool {
	log, _ := e.HasReturned(b)
	most, back := e.HasReturned(leader)
	return b == leader || back && most.Known() && e.CompareLogs(log, most) >= 0
}

// adoptDirectories lets replicas that are neither in the ISR nor in the ELR start over in the directory that their broker has now.
func (a *apply) adoptDirectories(e *edit) {
	for i, b := range e.Replicas {
		if e.InISR(b) || e.InELR(b) {
			continue
		}
		if br, ok := a.txn.Broker(b); ok && e.Directories[i] != br.Directory {
			e.Directories[i] = br.Directory
			a.revive(e.tp, br.Directory)
		}
	}
}

// revive takes the tombstone away from a replica that is wanted again where it was to be removed. What its directory still holds is brought
// in line by the leader's epochs, as after any absence.
func (a *apply) revive(tp cluster.TopicPartition, dir cluster.DirectoryID) {
	a.txn.DeleteTombstone(cluster.Tombstone{Partition: tp, Directory: dir})
}

// put writes the partition if it differs, with the epochs that follow from what changed.
func (a *apply) put(e *edit) {
	if e.bump {
		e.LeaderEpoch++
	}
	// Who is not counted as complete is not compared; whom a leader has in the ISR it has seen to be complete.
	e.Returned = slices.DeleteFunc(e.Returned, func(r cluster.Returned) bool {
		return !e.InISR(r.Broker) && !e.InELR(r.Broker) || e.Leader != cluster.NoBroker && e.InISR(r.Broker)
	})
	if e.bump || e.touch || !samePartition(e.old, e.Partition) {
		e.PartitionEpoch++
		checkPartition(e.tp, e.old, e.Partition)
		a.txn.PutPartition(e.tp, e.Partition)
		e.changed = true
	}
}

// samePartition compares all but the epochs.
func samePartition(a, b *cluster.Partition) bool {
	return a.Leader == b.Leader && a.LogStart == b.LogStart && a.LastLeader == b.LastLeader && a.UncleanLast == b.UncleanLast &&
		slices.Equal(a.ISR, b.ISR) && slices.Equal(a.ELR, b.ELR) && slices.Equal(a.Replicas, b.Replicas) &&
		slices.Equal(a.Directories, b.Directories) && slices.Equal(a.Adding, b.Adding) && slices.Equal(a.Removing, b.Removing) &&
		slices.Equal(a.Returned, b.Returned)
}

// checkPartition holds a partition to its invariants; old is nil for a new one.
func checkPartition(tp cluster.TopicPartition, old, p *cluster.Partition) {
	ok := len(p.Replicas) > 0 && len(p.Directories) == len(p.Replicas) && distinct(p.Replicas) &&
		subset(p.ISR, p.Replicas) && subset(p.ELR, p.Replicas) && subset(p.Adding, p.Replicas) && subset(p.Removing, p.Replicas) &&
		slices.IsSorted(p.ISR) && slices.IsSorted(p.ELR) && distinct(p.ISR) && distinct(p.ELR) &&
		!slices.ContainsFunc(p.ELR, p.InISR) && !slices.ContainsFunc(p.Adding, func(b cluster.BrokerID) bool { return slices.Contains(p.Removing, b) }) &&
		(p.Leader == cluster.NoBroker || p.InISR(p.Leader)) && wellReturned(p)
	invariant.Check(ok, "controller/state: partition %v is malformed: %+v", tp, *p)
	if old == nil {
		return
	}
	invariant.Check(p.LeaderEpoch >= old.LeaderEpoch && p.PartitionEpoch > old.PartitionEpoch && p.LogStart >= old.LogStart,
		"controller/state: partition %v goes back: %+v to %+v", tp, *old, *p)
	invariant.Check(p.Leader == old.Leader || p.LeaderEpoch > old.LeaderEpoch, "controller/state: partition %v has a new leader in epoch %d", tp, p.LeaderEpoch)
}

// wellReturned holds what a partition says of restarted replicas to its invariants.
func wellReturned(p *cluster.Partition) bool {
	for i, r := range p.Returned {
		if i > 0 && r.Broker <= p.Returned[i-1].Broker || !p.InELR(r.Broker) && (!p.InISR(r.Broker) || p.Leader != cluster.NoBroker) {
			return false
		}
	}
	return true
}

func sorted(list []cluster.BrokerID) []cluster.BrokerID {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func without(list []cluster.BrokerID, b cluster.BrokerID) []cluster.BrokerID {
	return slices.DeleteFunc(slices.Clone(list), func(o cluster.BrokerID) bool { return o == b })
}

func subset(part, whole []cluster.BrokerID) bool {
	return !slices.ContainsFunc(part, func(b cluster.BrokerID) bool { return !slices.Contains(whole, b) })
}

func distinct(list []cluster.BrokerID) bool {
	for i, b := range list {
		if slices.Contains(list[:i], b) {
			return false
		}
	}
	return true
}
