package placement

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// Kind says where an elected leader came from.
type Kind int8

// The kinds of election.
const (
	KindNone    Kind = iota // nobody may lead
	KindISR                 // an in-sync replica
	KindELR                 // a replica that left the ISR at min.insync.replicas and is known to be complete
	KindUnclean             // a replica that may lack acknowledged records
)

// String names the kind as metrics do.
func (k Kind) String() string {
	switch k {
	case KindISR:
		return "isr"
	case KindELR:
		return "elr"
	case KindUnclean:
		return "unclean"
	}
	return "none"
}

// Election is the choice of a leader.
type Election struct {
	Leader cluster.BrokerID
	Kind   Kind
}

// Elect chooses the leader of a partition. eligible says that a broker is alive, not draining, and has the copy that the metadata speaks of.
// The present leader stays when it still may lead; then the first in-sync replica in the order of the assignment; then the first
// eligible leader replica. KindNone comes back with NoBroker.
//
// Those that have returned from a restart are left aside: their disks may have lost what they had flushed. When there is nobody else, one leads whose log is the
// longest of all that are complete, once all of these are back and have told (case 60). One whose log could not be opened (cluster.UnknownLog) has not: nobody can say what it has, and
// it is waited for like one that is away.
func Elect(p *cluster.Partition, eligible func(cluster.BrokerID) bool) Election {
	if p.Leader != cluster.NoBroker && p.InISR(p.Leader) && eligible(p.Leader) {
		return Election{p.Leader, KindISR}
	}
	stayed := func(b cluster.BrokerID) bool {
		_, back := p.HasReturned(b)
		return eligible(b) && (!back || planted.On(planted.ReturnedNotCompared))
	}
	if e := firstComplete(p, stayed); e.Kind != KindNone {
		return e
	}
	told := 0
	for _, r := range p.Returned {
		if r.Log.Known() {
			told++
		}
	}
	if told < len(p.ISR)+len(p.ELR) {
		return Election{cluster.NoBroker, KindNone} // who is still away may have more
	}
	return fullest(p, eligible, longest(p, func(cluster.BrokerID) bool { return true }))
}

// ElectLate chooses as Elect does and, when that waits for others to return, the longest log among those that have; if there is none, one whose log could not be opened at first: whoever
// calls it eligible knows that it works by now. Whoever waits decides how long.
func ElectLate(p *cluster.Partition, eligible func(cluster.BrokerID) bool) Election {
	if e := Elect(p, eligible); e.Kind != KindNone {
		return e
	}
	if e := fullest(p, eligible, longest(p, eligible)); e.Kind != KindNone {
		return e
	}
	return firstComplete(p, func(b cluster.BrokerID) bool { return eligible(b) && p.Unopened(b) })
}

// firstComplete chooses an in-sync replica, or else an eligible leader replica.
func firstComplete(p *cluster.Partition, may func(cluster.BrokerID) bool) Election {
	if b, ok := first(p.Replicas, func(b cluster.BrokerID) bool { return p.InISR(b) && may(b) }); ok {
		return Election{b, KindISR}
	}
	if b, ok := first(p.Replicas, func(b cluster.BrokerID) bool { return p.InELR(b) && may(b) }); ok {
		return Election{b, KindELR}
	}
	return Election{cluster.NoBroker, KindNone}
}

// longest finds the log that has most among those of the returned that count; the zero position if none does.
func longest(p *cluster.Partition, counts func(cluster.BrokerID) bool) (most cluster.LogPosition) {
	found := false
	for _, r := range p.Returned {
		if counts(r.Broker) && (!found || p.CompareLogs(r.Log, most) > 0) {
			most, found = r.Log, true
		}
	}
	return most
}

// fullest chooses one of the returned whose log has as much, unless that is known to lack something.
func fullest(p *cluster.Partition, eligible func(cluster.BrokerID) bool, most cluster.LogPosition) Election {
	return firstComplete(p, func(b cluster.BrokerID) bool {
		log, back := p.HasReturned(b)
		return back && eligible(b) && log.LogEnd >= p.DeletedTo() && p.CompareLogs(log, most) >= 0
	})
}

// ElectUnclean chooses as ElectLate does and, when nobody may lead, the last leader or else the first eligible replica at all: records can be
// lost. One whose log could not be opened does not lead.
func ElectUnclean(p *cluster.Partition, alive func(cluster.BrokerID) bool) Election {
	eligible := func(b cluster.BrokerID) bool { return alive(b) && !p.Unopened(b) }
	if e := ElectLate(p, eligible); e.Kind != KindNone {
		return e
	}
	if p.HasReplica(p.LastLeader) && eligible(p.LastLeader) {
		return Election{p.LastLeader, KindUnclean}
	}
	if b, ok := first(p.Replicas, eligible); ok {
		return Election{b, KindUnclean}
	}
	return Election{cluster.NoBroker, KindNone}
}

// Preferred returns the preferred replica when it should take the leadership: it is in sync, eligible, and does not lead. Where nobody leads it has to be whom Elect
// chooses: who is waited for may have more.
func Preferred(p *cluster.Partition, eligible func(cluster.BrokerID) bool) (cluster.BrokerID, bool) {
	if len(p.Replicas) == 0 {
		return cluster.NoBroker, false
	}
	b := p.Replicas[0]
	if b == p.Leader || slices.Contains(p.Removing, b) || !p.InISR(b) || !eligible(b) {
		return cluster.NoBroker, false
	}
	if p.Leader == cluster.NoBroker && Elect(p, eligible).Leader != b {
		return cluster.NoBroker, false
	}
	return b, true
}

func first(list []cluster.BrokerID, ok func(cluster.BrokerID) bool) (cluster.BrokerID, bool) {
	if i := slices.IndexFunc(list, ok); i >= 0 {
		return list[i], true
	}
	return cluster.NoBroker, false
}
