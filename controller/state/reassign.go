package state

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/internal/planted"
)

// reassign starts, replaces or cancels the move of a partition to other brokers. Replicas that come are added first; those that go stay
// until finishReassign. Only replicas that an earlier, now abandoned move had added go at once.
func (a *apply) reassign(c cluster.Reassign) cluster.Result {
	p, ok := a.old.Partition(c.Partition)
	if !ok {
		return a.noPartition(c.Partition)
	}
	original := minus(p.Replicas, p.Adding)
	target := c.Replicas
	if len(target) == 0 {
		if len(p.Adding)+len(p.Removing) == 0 {
			return refuse(cluster.CodeNoReassignment, "no reassignment of %s is in progress", a.called(c.Partition))
		}
		target = original
	}
	if res := a.checkReplicas(target); res.Code != cluster.CodeNone {
		return res
	}
	e := a.edit(c.Partition, p)
	before := a.minISR(e)
	keep := append(slices.Clone(target), minus(original, target)...)
	dropped := minus(p.Replicas, keep)
	e.place(a, keep)
	e.Adding, e.Removing = nilIfEmpty(minus(target, original)), nilIfEmpty(minus(original, target))
	if res := a.drop(e, dropped, before); res.Code != cluster.CodeNone {
		return res
	}
	a.put(e)
	return cluster.Result{}
}

// finishReassign lets the replicas go that a move takes away, once all that it brings are in sync.
func (a *apply) finishReassign(c cluster.FinishReassign) cluster.Result {
	p, ok := a.old.Partition(c.Partition)
	switch {
	case !ok:
		return a.noPartition(c.Partition)
	case p.PartitionEpoch != c.PartitionEpoch:
		return refuse(cluster.CodeStalePartitionEpoch, "the partition epoch is %d, not %d", p.PartitionEpoch, c.PartitionEpoch)
	case len(p.Adding)+len(p.Removing) == 0:
		return refuse(cluster.CodeNoReassignment, "no reassignment of %s is in progress", a.called(c.Partition))
	case !subset(p.Adding, p.ISR) && !planted.On(planted.ReassignEndsEarly):
		return refuse(cluster.CodeIneligibleReplica, "the replicas %v are not all in sync yet", p.Adding)
	}
	e := a.edit(c.Partition, p)
	before := a.minISR(e)
	dropped := p.Removing
	e.place(a, minus(p.Replicas, p.Removing))
	e.Adding, e.Removing = nil, nil
	if res := a.drop(e, dropped, before); res.Code != cluster.CodeNone {
		return res
	}
	a.put(e)
	return cluster.Result{}
}

// place makes replicas the assignment; who was part of it keeps its directory.
func (e *edit) place(a *apply, replicas []cluster.BrokerID) {
	dirs := make([]cluster.DirectoryID, len(replicas))
	for i, b := range replicas {
		if e.HasReplica(b) {
			dirs[i] = e.Directory(b)
		} else if br, ok := a.txn.Broker(b); ok {
			dirs[i] = br.Directory
			a.revive(e.tp, br.Directory)
		}
	}
	e.Replicas, e.Directories = slices.Clone(replicas), dirs
}

// drop takes replicas out of ISR and ELR, moves the leadership off them, and leaves tombstones. It refuses to make the ISR smaller than the min
// ISR where it was not, to leave fewer complete copies than the min ISR (case 53), to lose the last one, and to leave a partition without leader that had one.
//
// It begins a new leader epoch, in which the leader knows nothing of what its followers have: a replica that goes, and comes back with the next move, begins
// with an empty log, and a leader that hears of both at once must not count what the one before had.
func (a *apply) drop(e *edit, dropped []cluster.BrokerID, minBefore int) cluster.Result {
	isr, elr := minus(e.ISR, dropped), minus(e.ELR, dropped)
	now := a.minISR(e)
	switch {
	case len(dropped) > 0 && len(isr)+len(elr) == 0:
		return refuse(cluster.CodeNotEnoughReplicas, "only the replicas %v that would go are complete", dropped)
	case len(isr) < now && len(isr) < len(e.ISR):
		return refuse(cluster.CodeNotEnoughReplicas, "without %v the ISR would be %v, below min.insync.replicas %d", dropped, isr, now)
	case len(isr)+len(elr) < now && len(elr) < len(e.ELR):
		return refuse(cluster.CodeNotEnoughReplicas, "without %v only %v would be complete, fewer than min.insync.replicas %d", dropped, append(isr, elr...), now)
	}
	e.ISR, e.ELR = isr, elr
	// Under a leader the ELR means something only under one and the same min ISR, and below it. Without one nothing moves on, and it may hold the last
	// complete copies.
	if e.Leader != cluster.NoBroker && (now < minBefore || len(e.ISR) >= now) {
		e.ELR = nil
	}
	if slices.Contains(dropped, e.Leader) {
		choice := placement.Elect(e.Partition, a.eligibleFor(e.Partition))
		if choice.Kind == placement.KindNone {
			return refuse(cluster.CodeNoEligibleLeader, "no replica but %v may lead now; retry", dropped)
		}
		a.lead(e, choice)
	}
	if slices.Contains(dropped, e.LastLeader) {
		e.LastLeader = cluster.NoBroker
	}
	for i, b := range e.old.Replicas {
		if slices.Contains(dropped, b) {
			a.bury(e.tp, e.old, i)
			e.bump = e.bump || !planted.On(planted.DroppedReplicaKeepsEpoch)
		}
	}
	return cluster.Result{}
}

func minus(list, gone []cluster.BrokerID) []cluster.BrokerID {
	return slices.DeleteFunc(slices.Clone(list), func(b cluster.BrokerID) bool { return slices.Contains(gone, b) })
}

func nilIfEmpty(list []cluster.BrokerID) []cluster.BrokerID {
	if len(list) == 0 {
		return nil
	}
	return list
}
