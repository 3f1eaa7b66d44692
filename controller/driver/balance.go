package driver

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
)

// watchBalance gives orphaned shards a coordinator at once, new ones when the brokers are together, and evens out leaders and shards when the cluster has been quiet for a while.
func (d *Driver) watchBalance(now time.Duration) {
	if !d.unbalanced {
		return
	}
	settled := now >= d.unsettled+d.cfg.Settle && now >= d.nextBalance
	moves := 0
	if settled {
		moves = d.cfg.ShardMoves
	}
	more := d.assignShards(now, moves)
	if !settled {
		return
	}
	d.nextBalance = now + d.cfg.BalanceEvery
	more = d.preferLeaders() || more
	d.unbalanced = more
}

// assignShards proposes new coordinators and reports whether anything is left to do. A shard leaves a live broker in two steps: first it has no coordinator, and it
// gets the next one when every live broker has acted on that. The old one may answer from its lease until then, and must not be overtaken.
func (d *Driver) assignShards(now time.Duration, moves int) bool {
	d.gathering = false
	if d.shardsBusy || now < d.retryShard {
		return true
	}
	leaders := make([]cluster.BrokerID, cluster.ShardCount)
	for i := range leaders {
		leaders[i] = d.img.Shard(cluster.ShardID(i)).Leader
	}
	var cmd cluster.AssignShards
	waits, early := false, now < d.unsettled+d.cfg.Gather
	for _, t := range placement.Shards(leaders, d.eligibleBrokers(), placement.Keeping(d.img.Brokers()), moves) {
		now := d.img.Shard(t.Shard)
		move := cluster.ShardMove{Shard: t.Shard, Epoch: now.Epoch, Leader: t.Leader}
		if b, ok := d.img.Broker(now.Leader); ok && !b.Fenced {
			move.Leader = cluster.NoBroker
		}
		if now.Epoch == 0 && early {
			waits, d.gathering = true, true
			continue
		}
		if now.Leader == cluster.NoBroker && !d.letGo(t.Shard) {
			waits = true
			continue
		}
		cmd.Moves = append(cmd.Moves, move)
	}
	if len(cmd.Moves) == 0 {
		return waits
	}
	d.propose(cmd, &outstanding{shards: true})
	return true
}

// seeShards notes since which entry shards have no coordinator.
func (d *Driver) seeShards() {
	for i := range d.orphanedAt {
		switch {
		case d.img.Shard(cluster.ShardID(i)).Leader != cluster.NoBroker:
			d.orphanedAt[i] = 0
		case d.orphanedAt[i] == 0:
			d.orphanedAt[i] = d.img.Index()
		}
	}
}

// letGo reports whether nobody can believe any more that it coordinates a shard: every live broker has acted on the entry that took the coordinator away, or a later
// one. A shard that never had a coordinator needs no waiting.
func (d *Driver) letGo(shard cluster.ShardID) bool {
	if d.img.Shard(shard).Epoch == 0 {
		return true
	}
	for b := range d.img.Brokers() {
		if !b.Fenced && d.brokers[b.ID].applied < d.orphanedAt[shard] {
			return false
		}
	}
	return true
}

// preferLeaders moves leaderships back to preferred replicas, a bounded number in a round, and reports whether some are left.
func (d *Driver) preferLeaders() bool {
	if !d.img.BrokerConfig(cluster.NoBroker).AutoLeaderRebalance {
		return false
	}
	var changes []cluster.PartitionChange
	more := false
	for tp, p := range d.img.AllPartitions() {
		b, ok := placement.Preferred(p, d.candidate(tp, p))
		if !ok || p.Leader == cluster.NoBroker {
			continue
		}
		if _, waits := d.retry[tp]; waits || d.busy[tp] || len(changes) == d.cfg.LeaderMoves {
			more = true
			continue
		}
		changes = append(changes, cluster.PartitionChange{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: b})
	}
	d.elect(changes)
	return more
}
