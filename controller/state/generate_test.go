package state_test

import (
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// command makes a random command, mostly one that fits the present state.
func (r *run) command() cluster.Command {
	b := cluster.BrokerID(r.rng.IntN(4))
	epoch := r.epochOf(b)
	if r.rng.IntN(20) == 0 {
		epoch--
	}
	tp, p, ok := r.pick()
	switch n := r.rng.IntN(100); {
	case n < 8:
		return cluster.FenceBroker{Broker: b, Epoch: epoch}
	case n < 26:
		return cluster.UnfenceBroker{Broker: b, Epoch: epoch}
	case n < 33:
		return r.register(b)
	case n < 36:
		return cluster.DrainBroker{Broker: b, Epoch: epoch}
	case n < 42:
		return r.create()
	case n < 43:
		return cluster.AllocateProducerIDs{Broker: b, Epoch: epoch, Count: 10}
	case n < 45:
		return r.configs()
	case n < 48:
		return r.shards()
	case !ok:
		return r.create()
	case n < 68:
		return r.isr(tp, p)
	case n < 76:
		return r.elect(tp, p)
	case n < 80:
		return r.reassign(tp, p)
	case n < 86:
		return cluster.FinishReassign{Partition: tp, PartitionEpoch: p.PartitionEpoch - cluster.PartitionEpoch(r.rng.IntN(8)/7)}
	case n < 88:
		return cluster.SetLogStart{Partition: tp, LeaderEpoch: p.LeaderEpoch, LogStart: record.Offset(r.rng.IntN(100))}
	case n < 90:
		return r.confirm()
	case n < 91:
		return cluster.DeleteTopic{ID: tp.Topic}
	case n < 92:
		return cluster.AddPartitions{Topic: tp.Topic, Have: r.countOf(tp.Topic), Assignment: [][]cluster.BrokerID{r.replicas(len(p.Replicas))}}
	}
	return r.groups(tp)
}

func (r *run) epochOf(b cluster.BrokerID) cluster.BrokerEpoch {
	if br, ok := r.state.Image().Broker(b); ok {
		return br.Epoch
	}
	return cluster.NoBrokerEpoch
}

func (r *run) countOf(id cluster.TopicID) int32 {
	t, _ := r.state.Image().Topic(id)
	return t.Partitions
}

// pick chooses a partition.
func (r *run) pick() (cluster.TopicPartition, *cluster.Partition, bool) {
	img := r.state.Image()
	if img.PartitionCount() == 0 {
		return cluster.TopicPartition{}, nil, false
	}
	n := r.rng.IntN(img.PartitionCount())
	for tp, p := range img.AllPartitions() {
		if n == 0 {
			return tp, p, true
		}
		n--
	}
	panic("unreachable")
}

func (r *run) register(b cluster.BrokerID) cluster.Command {
	id := func(kind string, n int) (u cluster.UUID) {
		copy(u[:], fmt.Sprint(kind, b, "-", n))
		return u
	}
	dir := id("disk", 0)
	if old, ok := r.state.Image().Broker(b); ok {
		dir = old.Directory
		if r.rng.IntN(8) == 0 {
			dir = id("disk", r.rng.IntN(3)) // wiped, or an earlier disk put back
			if dir != old.Directory {
				r.outdate(b, dir)
			}
		}
	}
	c := cluster.RegisterBroker{PreviousEpoch: cluster.NoBrokerEpoch, Broker: cluster.Broker{ID: b, Directory: dir, Incarnation: id("run", len(r.log)), MinLevel: 1, MaxLevel: cluster.LevelNewest}}
	c.LogsTold = r.rng.IntN(4) > 0
	for tp, p := range r.state.Image().AllPartitions() {
		switch {
		case !p.HasReplica(b):
		case r.rng.IntN(10) == 0:
			c.Damaged = append(c.Damaged, tp)
		case c.LogsTold && r.rng.IntN(10) > 0:
			if r.rng.IntN(6) == 0 {
				c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: tp, Log: cluster.UnknownLog})
				continue
			}
			at := cluster.LogPosition{LastEpoch: record.LeaderEpoch(r.rng.IntN(3)), LogStart: record.Offset(r.rng.IntN(8) / 7), LogEnd: record.Offset(r.rng.IntN(5))}
			c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: tp, Log: at})
		}
	}
	return c
}

// outdate notes in the model that a disk which is put in place is empty, except where the metadata kept the record of its being the only
// complete copy.
func (r *run) outdate(b cluster.BrokerID, dir cluster.DirectoryID) {
	for tp, have := range r.complete {
		if p, ok := r.state.Image().Partition(tp); ok && p.Directory(b) == dir {
			continue
		}
		delete(have, copyOf{b, dir})
	}
}

func (r *run) replicas(n int) []cluster.BrokerID {
	all := []cluster.BrokerID{0, 1, 2, 3}
	r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

func (r *run) create() cluster.Command {
	r.nextID++
	c := cluster.CreateTopic{ID: cluster.UUID{r.nextID}, Name: fmt.Sprint("t", r.rng.IntN(6))}
	rf := 1 + r.rng.IntN(4)
	for range 1 + r.rng.IntN(3) {
		c.Assignment = append(c.Assignment, r.replicas(rf))
	}
	if r.rng.IntN(3) == 0 {
		c.Configs = cluster.Configs{{Key: "min.insync.replicas", Value: fmt.Sprint(1 + r.rng.IntN(3))}}
	}
	if r.rng.IntN(8) == 0 {
		c.Configs = c.Configs.With("unclean.leader.election.enable", "true")
	}
	return c
}

func (r *run) configs() cluster.Command {
	c := cluster.AlterConfigs{Resource: cluster.ConfigResource{Name: fmt.Sprint("t", r.rng.IntN(6))}}
	if r.rng.IntN(3) == 0 {
		c.Resource = cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}
	}
	c.Ops = []cluster.ConfigOp{{Key: "min.insync.replicas", Value: fmt.Sprint(1 + r.rng.IntN(3)), Delete: r.rng.IntN(3) == 0}}
	return c
}

func (r *run) isr(tp cluster.TopicPartition, p *cluster.Partition) cluster.Command {
	change := cluster.ISRChange{Partition: tp, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch - cluster.PartitionEpoch(r.rng.IntN(8)/7)}
	for _, b := range p.Replicas {
		if b == p.Leader || r.rng.IntN(4) > 0 {
			change.ISR = append(change.ISR, cluster.ISRMember{Broker: b, Epoch: r.epochOf(b)})
		}
	}
	// Proposals with a member that is not eligible are refused whole; a real leader knows and leaves it out, most of the time.
	if r.rng.IntN(4) > 0 {
		change.ISR = slices.DeleteFunc(change.ISR, func(m cluster.ISRMember) bool { return m.Broker != p.Leader && !r.state.Image().Eligible(m.Broker) })
	}
	return cluster.AlterPartition{Leader: p.Leader, LeaderBroker: r.epochOf(p.Leader), Changes: []cluster.ISRChange{change}}
}

func (r *run) elect(tp cluster.TopicPartition, p *cluster.Partition) cluster.Command {
	c := cluster.PartitionChange{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: p.Replicas[r.rng.IntN(len(p.Replicas))], BumpEpoch: r.rng.IntN(5) == 0, Unclean: r.rng.IntN(10) == 0}
	if r.rng.IntN(6) == 0 {
		c.Leader = cluster.NoBroker
	}
	if r.rng.IntN(6) == 0 {
		c.Offline = []cluster.BrokerID{p.Replicas[r.rng.IntN(len(p.Replicas))]}
	}
	if r.rng.IntN(4) == 0 {
		c.Offline, c.Leader = slices.Concat(p.ISR, p.ELR), cluster.NoBroker // nobody works any more
	}
	return cluster.ElectLeaders{Changes: []cluster.PartitionChange{c}}
}

func (r *run) reassign(tp cluster.TopicPartition, p *cluster.Partition) cluster.Command {
	if r.rng.IntN(4) == 0 {
		return cluster.Reassign{Partition: tp}
	}
	return cluster.Reassign{Partition: tp, Replicas: r.replicas(1 + r.rng.IntN(3))}
}

func (r *run) confirm() cluster.Command {
	var c cluster.ConfirmRemoved
	for t := range r.state.Image().Tombstones() {
		if r.rng.IntN(2) == 0 {
			c.Tombstones = append(c.Tombstones, t)
		}
	}
	return c
}

func (r *run) shards() cluster.Command {
	id := cluster.ShardID(r.rng.IntN(cluster.ShardCount))
	return cluster.AssignShards{Moves: []cluster.ShardMove{{Shard: id, Epoch: r.state.Image().Shard(id).Epoch, Leader: cluster.BrokerID(r.rng.IntN(5)) - 1}}}
}

// groups commits, deletes and rebalances in one of a few groups, with a batch that is mostly the next one.
func (r *run) groups(tp cluster.TopicPartition) cluster.Command {
	group := fmt.Sprint("g", r.rng.IntN(5))
	id := cluster.ShardOf(group)
	shard := r.state.Groups().Shard(id)
	var recs []cluster.GroupRecord
	for range 1 + r.rng.IntN(4) {
		other, _, _ := r.pick()
		switch r.rng.IntN(8) {
		case 0:
			recs = append(recs, cluster.GroupState{Group: group, Type: cluster.GroupNative, Epoch: int32(len(r.log)), Members: []cluster.GroupMember{{ID: "m", Assigned: []cluster.TopicPartition{tp}}}})
		case 1:
			recs = append(recs, cluster.GroupDeleted{Group: group})
		case 2:
			recs = append(recs, cluster.OffsetDeleted{Group: group, Partition: other})
		default:
			recs = append(recs, cluster.OffsetCommitted{Group: group, Partition: other, Committed: cluster.CommittedOffset{Offset: record.Offset(len(r.log)), LeaderEpoch: -1}})
		}
	}
	return cluster.GroupAppend{Broker: shard.Leader, Batches: []cluster.GroupBatch{{Shard: id, ShardEpoch: shard.Epoch,
		Sequence: shard.NextSequence + int64(r.rng.IntN(8)/7), Records: recs}}}
}
