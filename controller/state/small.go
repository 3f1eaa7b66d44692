package state

import (
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/record"
)

// maxProducerBlock bounds one block of producer ids, so that a bad request cannot use them up.
const maxProducerBlock = 1_000_000

// firstProducerID is the first producer id of a cluster.
const firstProducerID record.ProducerID = 1

func (a *apply) initCluster(c cluster.InitCluster) cluster.Result {
	if !a.old.ClusterID().IsZero() {
		return refuse(cluster.CodeInvalidRequest, "the cluster has the id %s already", a.old.ClusterID())
	}
	if c.Cluster.IsZero() {
		return refuse(cluster.CodeInvalidRequest, "a cluster id must not be zero")
	}
	a.txn.SetCluster(c.Cluster, c.CreatedMs)
	a.txn.SetFeatureLevel(c.FeatureLevel)
	a.txn.SetNextProducerID(firstProducerID)
	return cluster.Result{}
}

// allocateProducerIDs gives out a block of producer ids; none is ever given out twice (case 72).
func (a *apply) allocateProducerIDs(c cluster.AllocateProducerIDs) cluster.Result {
	b, res := a.brokerAt(c.Broker, c.Epoch)
	if b == nil {
		return res
	}
	if c.Count < 1 || c.Count > maxProducerBlock {
		return refuse(cluster.CodeInvalidRequest, "a block of %d producer ids; 1 to %d are allowed", c.Count, maxProducerBlock)
	}
	first := a.old.NextProducerID()
	a.txn.SetNextProducerID(first + record.ProducerID(c.Count))
	return cluster.Result{FirstProducerID: first}
}

// setFeatureLevel finalizes a level. It only rises, and never above what a registered broker supports.
func (a *apply) setFeatureLevel(c cluster.SetFeatureLevel) cluster.Result {
	if c.Level < a.old.FeatureLevel() {
		return refuse(cluster.CodeUnsupportedFeature, "the metadata level is %d and never falls", a.old.FeatureLevel())
	}
	for b := range a.old.Brokers() {
		if c.Level < b.MinLevel || c.Level > b.MaxLevel {
			return refuse(cluster.CodeUnsupportedFeature, "broker %d supports the metadata levels %d to %d, not %d", b.ID, b.MinLevel, b.MaxLevel, c.Level)
		}
	}
	a.txn.SetFeatureLevel(c.Level)
	return cluster.Result{}
}

// assignShards moves coordinator shards, each under its shard epoch.
func (a *apply) assignShards(c cluster.AssignShards) cluster.Result {
	res := cluster.Result{Items: make([]cluster.ItemResult, len(c.Moves))}
	for i, m := range c.Moves {
		res.Items[i].Code = a.assignShard(m)
	}
	return res
}

func (a *apply) assignShard(m cluster.ShardMove) cluster.Code {
	if m.Shard < 0 || m.Shard >= cluster.ShardCount {
		return cluster.CodeInvalidRequest
	}
	now := a.txn.Shard(m.Shard)
	if now.Epoch != m.Epoch {
		return cluster.CodeStaleShardEpoch
	}
	if now.Leader == m.Leader {
		return cluster.CodeElectionNotNeeded
	}
	if b, ok := a.txn.Broker(m.Leader); m.Leader != cluster.NoBroker && (!ok || !b.Eligible()) {
		return cluster.CodeNoEligibleLeader
	}
	a.giveShard(m.Shard, m.Leader)
	return cluster.CodeNone
}

// giveShard begins a new shard epoch: the batches of the old one are refused from here on, and the sequence starts over.
func (a *apply) giveShard(id cluster.ShardID, leader cluster.BrokerID) {
	s := a.txn.Shard(id)
	a.txn.PutShard(id, cluster.Shard{Leader: leader, Epoch: s.Epoch + 1})
	a.groups.next[id] = 0
}

// moveShards gives the shards whose leader may not lead any more to the brokers that lead fewest. Nothing else moves: shards that have none yet, or are on
// their way from one live broker to another, and spreading those that are well placed, are the driver's business.
func (a *apply) moveShards() {
	var eligible []cluster.BrokerID
	for b := range a.txn.Image().Brokers() {
		if b.Eligible() {
			eligible = append(eligible, b.ID)
		}
	}
	leaders := make([]cluster.BrokerID, cluster.ShardCount)
	for id := range leaders {
		leaders[id] = a.txn.Shard(cluster.ShardID(id)).Leader
	}
	for _, t := range placement.Shards(leaders, eligible, placement.Keeping(a.txn.Image().Brokers()), 0) {
		if leaders[t.Shard] == cluster.NoBroker {
			continue
		}
		a.giveShard(t.Shard, t.Leader)
	}
}
