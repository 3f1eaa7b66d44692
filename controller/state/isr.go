package state

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/internal/planted"
)

// electLeaders carries out decided elections, each under its own preconditions.
func (a *apply) electLeaders(c cluster.ElectLeaders) cluster.Result {
	res := cluster.Result{Items: make([]cluster.ItemResult, len(c.Changes))}
	for i := range c.Changes {
		res.Items[i] = a.electOne(&c.Changes[i])
	}
	return res
}

func (a *apply) electOne(c *cluster.PartitionChange) cluster.ItemResult {
	p, ok := a.txn.Partition(c.Partition)
	if !ok {
		return item(cluster.CodeUnknownTopic)
	}
	if p.PartitionEpoch != c.PartitionEpoch {
		return item(cluster.CodeStalePartitionEpoch)
	}
	if c.Leader == p.Leader && !c.BumpEpoch && len(c.Offline) == 0 {
		return item(cluster.CodeElectionNotNeeded)
	}
	e := a.edit(c.Partition, p)
	e.bump = c.BumpEpoch
	a.takeOut(e, c.Offline)
	if code := a.leadBy(e, c); code != cluster.CodeNone {
		return item(code)
	}
	a.adoptDirectories(e)
	a.put(e)
	return accepted(e)
}

// takeOut takes replicas whose logs do not work out of ISR and ELR, where another complete one is left. Where they are all that are complete, all stay: each of them had everything when
// the last leadership ended, and nothing is acknowledged without a leader, so that whichever works first may lead. That they do not work stays on record with them
// (cluster.UnknownLog), or the next broker to come would have one of them elected.
func (a *apply) takeOut(e *edit, offline []cluster.BrokerID) {
	left := slices.DeleteFunc(slices.Concat(e.ISR, e.ELR), func(b cluster.BrokerID) bool { return slices.Contains(offline, b) })
	marks := a.old.FeatureLevel() >= cluster.LevelLogs
	for _, b := range offline {
		switch {
		case len(left) == 0 && marks:
			e.returned(b, cluster.UnknownLog)
		case !sole(e.Partition, b):
			e.forget(b)
		}
	}
}

// leadBy makes c.Leader the leader if it may be one as of now.
func (a *apply) leadBy(e *edit, c *cluster.PartitionChange) cluster.Code {
	b := c.Leader
	if b == cluster.NoBroker {
		e.setLeader(b)
		return cluster.CodeNone
	}
	if slices.Contains(c.Offline, b) {
		return cluster.CodeNoEligibleLeader
	}
	switch br, ok := a.txn.Broker(b); {
	case !ok || !br.Eligible() || !e.HasReplica(b):
		return cluster.CodeNoEligibleLeader
	case e.InISR(b) && a.eligible(e.Partition, b):
		a.lead(e, placement.Election{Leader: b, Kind: placement.KindISR})
	case e.InELR(b) && a.eligible(e.Partition, b):
		a.lead(e, placement.Election{Leader: b, Kind: placement.KindELR})
	case c.Unclean:
		// The copy may lack records, or be gone altogether with its disk: then the broker's present directory takes its place.
		e.Directories[slices.Index(e.Replicas, b)] = br.Directory
		a.lead(e, placement.Election{Leader: b, Kind: placement.KindUnclean})
	default:
		return cluster.CodeNoEligibleLeader
	}
	return cluster.CodeNone
}

// alterPartition carries out a leader's proposals of new ISRs.
func (a *apply) alterPartition(c cluster.AlterPartition) cluster.Result {
	b, res := a.brokerAt(c.Leader, c.LeaderBroker)
	if b == nil {
		return res
	}
	if b.Fenced {
		return refuse(cluster.CodeBrokerFenced, "broker %d is fenced", c.Leader)
	}
	res.Items = make([]cluster.ItemResult, len(c.Changes))
	for i := range c.Changes {
		res.Items[i] = a.alterOne(c.Leader, &c.Changes[i])
	}
	return res
}

// alterOne is a compare-and-set on the partition epoch (case 34), with every new member known to the leader in its present life (case 40).
func (a *apply) alterOne(leader cluster.BrokerID, c *cluster.ISRChange) cluster.ItemResult {
	p, ok := a.txn.Partition(c.Partition)
	switch {
	case !ok:
		return item(cluster.CodeUnknownTopic)
	case c.LeaderEpoch < p.LeaderEpoch:
		return item(cluster.CodeFencedLeaderEpoch)
	case c.LeaderEpoch > p.LeaderEpoch:
		return item(cluster.CodeUnknownLeaderEpoch)
	case p.Leader != leader:
		return item(cluster.CodeNotLeader)
	case p.PartitionEpoch != c.PartitionEpoch && !planted.On(planted.AlterWithoutCompare):
		return item(cluster.CodeStalePartitionEpoch)
	}
	isr := make([]cluster.BrokerID, len(c.ISR))
	for i, m := range c.ISR {
		isr[i] = m.Broker
	}
	if !slices.Contains(isr, leader) || !subset(isr, p.Replicas) || !distinct(isr) {
		return item(cluster.CodeInvalidRequest)
	}
	for _, m := range c.ISR {
		if !a.mayBeInSync(p, m, leader) {
			return item(cluster.CodeIneligibleReplica)
		}
	}
	e := a.edit(c.Partition, p)
	if !slices.Equal(sorted(isr), e.ISR) {
		e.setISR(isr, a.minISR(e))
		a.put(e)
	}
	return accepted(e)
}

// mayBeInSync holds an ISR member to the leader's knowledge of it. A member that drains may stay, and join no more: it leaves when it is fenced.
func (a *apply) mayBeInSync(p *cluster.Partition, m cluster.ISRMember, leader cluster.BrokerID) bool {
	br, ok := a.txn.Broker(m.Broker)
	if !ok || br.Epoch != m.Epoch && !planted.On(planted.AlterWithoutBrokerEpoch) {
		return false
	}
	if m.Broker == leader || p.InISR(m.Broker) {
		return a.alive(p, m.Broker)
	}
	return a.eligible(p, m.Broker)
}

// setLogStart commits what DeleteRecords asked for (case 65). A lower start is no change.
func (a *apply) setLogStart(c cluster.SetLogStart) cluster.Result {
	p, ok := a.old.Partition(c.Partition)
	switch {
	case !ok:
		return a.noPartition(c.Partition)
	case c.LeaderEpoch < p.LeaderEpoch:
		return refuse(cluster.CodeFencedLeaderEpoch, "the leader epoch is %d, not %d", p.LeaderEpoch, c.LeaderEpoch)
	case c.LeaderEpoch > p.LeaderEpoch:
		return refuse(cluster.CodeUnknownLeaderEpoch, "the leader epoch is %d, not %d", p.LeaderEpoch, c.LeaderEpoch)
	}
	e := a.edit(c.Partition, p)
	e.LogStart = max(e.LogStart, c.LogStart)
	if planted.On(planted.LogStartGoesBack) {
		e.LogStart = c.LogStart
	}
	a.put(e)
	return cluster.Result{}
}

func item(code cluster.Code) cluster.ItemResult { return cluster.ItemResult{Code: code} }

func accepted(e *edit) cluster.ItemResult { return cluster.ItemResult{Partition: e.Partition} }
