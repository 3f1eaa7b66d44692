package placement

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
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
func Elect(p *cluster.Partition, eligible func(cluster.BrokerID) bool) Election {
	if p.Leader != cluster.NoBroker && p.InISR(p.Leader) && eligible(p.Leader) {
		return Election{p.Leader, KindISR}
	}
	if b, ok := first(p.Replicas, func(b cluster.BrokerID) bool { return p.InISR(b) && eligible(b) }); ok {
		return Election{b, KindISR}
	}
	if b, ok := first(p.Replicas, func(b cluster.BrokerID) bool { return p.InELR(b) && eligible(b) }); ok {
		return Election{b, KindELR}
	}
	return Election{cluster.NoBroker, KindNone}
}

// ElectUnclean chooses as Elect does and, when nobody may lead, the last leader or else the first eligible replica at all: records can be
// lost.
func ElectUnclean(p *cluster.Partition, eligible func(cluster.BrokerID) bool) Election {
	if e := Elect(p, eligible); e.Kind != KindNone {
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

// Preferred returns the preferred replica when it should take the leadership: it is in sync, eligible, and does not lead.
func Preferred(p *cluster.Partition, eligible func(cluster.BrokerID) bool) (cluster.BrokerID, bool) {
	if len(p.Replicas) == 0 {
		return cluster.NoBroker, false
	}
	b := p.Replicas[0]
	if b == p.Leader || slices.Contains(p.Removing, b) || !p.InISR(b) || !eligible(b) {
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
