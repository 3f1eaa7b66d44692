package placement

import (
	"cmp"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Copy is what a broker says of its replica of a partition.
type Copy struct {
	// Works says that there is a log that can be served.
	Works     bool
	LastEpoch record.LeaderEpoch // of the last record; record.NoEpoch without one
	LogEnd    record.Offset
}

// Forced chooses whom an operator's unclean election makes the leader. The others cut their logs to its own, so it is the eligible replica that has most: one that
// has not said that its log does not work; among these one that the metadata knows to be complete; then one that has answered that it has records, the newest, the longest
// log; then one that has not answered, because it may have some; then the first place in the assignment. answer is false for a broker that has not answered. lossy says
// that the replica may lack acknowledged records; without an eligible one NoBroker comes back.
func Forced(p *cluster.Partition, eligible func(cluster.BrokerID) bool, answer func(cluster.BrokerID) (Copy, bool)) (leader cluster.BrokerID, lossy bool) {
	live := slices.DeleteFunc(slices.Clone(p.Replicas), func(b cluster.BrokerID) bool { return !eligible(b) })
	if len(live) == 0 {
		return cluster.NoBroker, false
	}
	complete := func(b cluster.BrokerID) bool { return p.InISR(b) || p.InELR(b) }
	leader = slices.MaxFunc(live, func(x, y cluster.BrokerID) int {
		cx, okx := answer(x)
		cy, oky := answer(y)
		return cmp.Or(trueLast(!okx || cx.Works, !oky || cy.Works), trueLast(complete(x), complete(y)), cmp.Compare(hope(cx, okx), hope(cy, oky)),
			cmp.Compare(cx.LastEpoch, cy.LastEpoch), cmp.Compare(cx.LogEnd, cy.LogEnd))
	})
	return leader, !complete(leader)
}

// hope is larger for a copy from which more of the records is to be hoped for.
func hope(c Copy, answered bool) int {
	switch {
	case !answered:
		return 1
	case c.LastEpoch == record.NoEpoch:
		return 0
	}
	return 2
}

// trueLast compares so that what is true is larger.
func trueLast(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}
