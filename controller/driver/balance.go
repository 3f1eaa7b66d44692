package driver

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
)

// watchBalance gives orphaned shards a coordinator at once, and evens out leaders and shards when the cluster has been quiet for a while.
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

// assignShards proposes new coordinators and reports whether anything is left to do.
func (d *Driver) assignShards(now time.Duration, moves int) bool {
	if d.shardsBusy || now < d.retryShard {
		return true
	}
	leaders := make([]cluster.BrokerID, cluster.ShardCount)
	for i := range leaders {
		leaders[i] = d.img.Shard(cluster.ShardID(i)).Leader
	}
	var cmd cluster.AssignShards
	for _, t := range placement.Shards(leaders, d.eligibleBrokers(), placement.Keeping(d.img.Brokers()), moves) {
		cmd.Moves = append(cmd.Moves, cluster.ShardMove{Shard: t.Shard, Epoch: d.img.Shard(t.Shard).Epoch, Leader: t.Leader})
	}
	if len(cmd.Moves) == 0 {
		return false
	}
	d.propose(cmd, &outstanding{shards: true})
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
