package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// Broker is one broker as a place for replicas.
type Broker struct {
	ID   cluster.BrokerID
	Rack string
	// Eligible brokers are alive and not draining. Others get replicas only where there are not enough eligible ones, and are never
	// preferred leaders.
	Eligible bool
	// Replicas and Leaders are what the broker has already, of all topics.
	Replicas, Leaders int
}

// Brokers lists the registered brokers with their present load.
func Brokers(img *cluster.Image) []Broker {
	var out []Broker
	for b := range img.Brokers() {
		out = append(out, Broker{ID: b.ID, Rack: b.Rack, Eligible: b.Eligible()})
	}
	at := func(id cluster.BrokerID) *Broker {
		i, ok := slices.BinarySearchFunc(out, id, func(b Broker, id cluster.BrokerID) int { return cmp.Compare(b.ID, id) })
		if !ok {
			return &Broker{}
		}
		return &out[i]
	}
	for _, p := range img.AllPartitions() {
		for _, r := range p.Replicas {
			at(r).Replicas++
		}
		if p.Leader != cluster.NoBroker {
			at(p.Leader).Leaders++
		}
	}
	return out
}

// Request asks for the placement of new partitions of one topic.
type Request struct {
	Brokers           []Broker
	Partitions        int
	ReplicationFactor int
	// Seed breaks ties, so that small topics do not all begin on the same brokers.
	Seed uint64
}

// place is a broker with what this assignment has given it so far.
type place struct {
	Broker
	replicas, leaders int
	tie               uint64
}

// Assign places new partitions: per partition the preferred leader first. Replicas of a partition are spread over as many racks as there are;
// then the topic is even over the brokers, then the cluster is. The error is an *cluster.Error: CodeInvalidReplication when there are fewer brokers
// than replicas or none is alive (retriable), CodeInvalidPartitions for a count below one.
func Assign(r Request) ([][]cluster.BrokerID, error) {
	if r.Partitions < 1 {
		return nil, cluster.Refuse(cluster.CodeInvalidPartitions, fmt.Sprintf("%d partitions asked for; at least 1 is needed", r.Partitions))
	}
	if r.ReplicationFactor < 1 || r.ReplicationFactor > len(r.Brokers) {
		return nil, cluster.Refuse(cluster.CodeInvalidReplication,
			fmt.Sprintf("replication factor %d with %d registered brokers", r.ReplicationFactor, len(r.Brokers)))
	}
	if !slices.ContainsFunc(r.Brokers, func(b Broker) bool { return b.Eligible }) {
		return nil, cluster.Refuse(cluster.CodeInvalidReplication, "no registered broker is alive and ready; retry")
	}
	places := make([]*place, len(r.Brokers))
	for i, b := range r.Brokers {
		places[i] = &place{Broker: b}
	}
	out := make([][]cluster.BrokerID, r.Partitions)
	for n := range out {
		for _, p := range places {
			p.tie = mix(r.Seed, uint64(n), uint64(p.ID))
		}
		out[n] = assignOne(places, r.ReplicationFactor)
	}
	evenLeaders(out, places)
	return out, nil
}

// assignOne places one partition and counts it.
func assignOne(places []*place, rf int) []cluster.BrokerID {
	chosen := make([]*place, 0, rf)
	for range rf {
		best := bestPlace(places, chosen)
		best.replicas++
		chosen = append(chosen, best)
	}
	// The leader is the chosen one that leads least; the followers come in tie order, so that the partitions of a dead leader spread over
	// all the others.
	slices.SortFunc(chosen, func(a, b *place) int { return cmp.Compare(a.tie, b.tie) })
	lead := 0
	for i, p := range chosen {
		if compareLead(p, chosen[lead]) < 0 {
			lead = i
		}
	}
	leader := chosen[lead]
	leader.leaders++
	out := []cluster.BrokerID{leader.ID}
	for _, p := range chosen {
		if p != leader {
			out = append(out, p.ID)
		}
	}
	return out
}

// bestPlace is the place for the next replica beside those chosen.
func bestPlace(places, chosen []*place) *place {
	var best *place
	for _, p := range places {
		if slices.Contains(chosen, p) {
			continue
		}
		if best == nil || comparePlace(p, best, chosen) < 0 {
			best = p
		}
	}
	return best
}

func comparePlace(a, b *place, chosen []*place) int {
	return cmp.Or(
		compareEligible(a, b),
		cmp.Compare(sameRack(a, chosen), sameRack(b, chosen)),
		cmp.Compare(a.replicas, b.replicas),
		cmp.Compare(a.Replicas+a.replicas, b.Replicas+b.replicas),
		cmp.Compare(a.tie, b.tie),
	)
}

func compareLead(a, b *place) int {
	return cmp.Or(
		compareEligible(a, b),
		cmp.Compare(a.leaders, b.leaders),
		cmp.Compare(a.Leaders+a.leaders, b.Leaders+b.leaders),
		cmp.Compare(a.tie, b.tie),
	)
}

func compareEligible(a, b *place) int {
	switch {
	case a.Eligible == b.Eligible:
		return 0
	case a.Eligible:
		return -1
	}
	return 1
}

// sameRack counts the chosen ones in the rack of p. Brokers without a rack are each their own.
func sameRack(p *place, chosen []*place) int {
	n := 0
	for _, c := range chosen {
		if p.Rack != "" && c.Rack == p.Rack {
			n++
		}
	}
	return n
}

// mix is splitmix64 over three numbers: a tie-breaker without order.
func mix(a, b, c uint64) uint64 {
	h := a
	for _, v := range [...]uint64{b, c} {
		h += 0x9e3779b97f4a7c15 + v
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
