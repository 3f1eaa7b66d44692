package state

import (
	"slices"
	"strconv"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// registerBroker begins a new life of a broker. Whatever it led in its life before, it leads no longer: no (partition, leader epoch) is ever
// written by two incarnations.
func (a *apply) registerBroker(c cluster.RegisterBroker) cluster.Result {
	before, known := a.old.Broker(c.Broker.ID)
	if res := a.checkRegistration(c, before); res.Code != cluster.CodeNone {
		return res
	}
	if known && repeated(c, before) {
		return cluster.Result{BrokerEpoch: before.Epoch}
	}
	now := c.Broker
	now.Listeners = slices.Clone(now.Listeners)
	now.Epoch = cluster.BrokerEpoch(a.index)
	now.Fenced, now.Draining = true, false
	if planted.On(planted.RegistrationDoesNotFence) && known && before.Directory == now.Directory {
		now.Fenced = before.Fenced
		a.txn.PutBroker(&now)
		return cluster.Result{BrokerEpoch: now.Epoch}
	}
	a.txn.PutBroker(&now)

	if known && before.Directory != now.Directory {
		// Marks in a directory that was replaced would wait for ever. Should the old disk come back, what it holds is unknown to metadata, and is
		// parked, not deleted.
		a.dropTombstones(before.Directory)
	}
	damaged := sortedPartitions(c.Damaged)
	old := known && outdated(c, before) && !planted.On(planted.OldDiskKeepsPlace)
	logs := sortedLogs(c.Logs)
	a.eachReplica(now.ID, func(e *edit) {
		a.reenter(e, &now, old || containsPartition(damaged, e.tp), func() {
			if log, listed := positionIn(logs, e.tp); listed || c.LogsTold {
				e.returned(now.ID, log)
			}
		})
	})
	a.moveShards()
	return cluster.Result{BrokerEpoch: now.Epoch}
}

func (a *apply) checkRegistration(c cluster.RegisterBroker, before *cluster.Broker) cluster.Result {
	b := &c.Broker
	level := a.old.FeatureLevel()
	switch {
	case b.ID < 0 || b.Directory.IsZero() || b.Incarnation.IsZero():
		return refuse(cluster.CodeInvalidRequest, "a broker registers with an id from 0 on, a directory id and an incarnation id")
	case !c.Cluster.IsZero() && c.Cluster != a.old.ClusterID():
		return refuse(cluster.CodeWrongCluster, "the data directory belongs to cluster %s, this is cluster %s: start the broker with its own data directory or an empty one",
			c.Cluster, a.old.ClusterID())
	case level < b.MinLevel || level > b.MaxLevel:
		return refuse(cluster.CodeUnsupportedFeature, "the cluster is at metadata level %d, broker %d supports %d to %d", level, b.ID, b.MinLevel, b.MaxLevel)
	case before != nil && before.Directory != b.Directory && c.Live:
		return refuse(cluster.CodeDuplicateBroker, "broker %d is alive with another data directory: give this broker an id of its own", b.ID)
	}
	for o := range a.old.Brokers() {
		if o.ID != b.ID && o.Directory == b.Directory {
			return refuse(cluster.CodeDuplicateBroker, "the data directory %s belongs to broker %d, not to broker %d: start the broker with its own", b.Directory, o.ID, b.ID)
		}
	}
	return cluster.Result{}
}

// repeated reports whether this run of the broker is registered already and does not ask to be registered anew: a registration of unknown outcome is
// sent again, and either copy may come late. A second epoch would contradict the clean-stop marker that the first is written into.
func repeated(c cluster.RegisterBroker, before *cluster.Broker) bool {
	return c.Broker.Incarnation == before.Incarnation && c.Broker.Directory == before.Directory && c.PreviousEpoch != before.Epoch
}

// outdated reports whether the directory is older than what the controller knows of this broker: its clean-stop marker names a life before
// the last one, so a backup or an old disk was put in place, and what was written since is missing. It is none if one of the runs that were begun on it since
// is the last one, which then never came to know.
func outdated(c cluster.RegisterBroker, before *cluster.Broker) bool {
	return c.PreviousEpoch != cluster.NoBrokerEpoch && c.PreviousEpoch != before.Epoch && c.Broker.Incarnation != before.Incarnation &&
		(!slices.Contains(c.PreviousStarts, before.Incarnation) || planted.On(planted.StartsIgnored))
}

// reenter does to one partition what the registration of one of its replicas means. returned notes what the log has of one that counts as complete.
func (a *apply) reenter(e *edit, now *cluster.Broker, incomplete bool, returned func()) {
	switch {
	case planted.On(planted.NewDiskKeepsPlace):
		e.Directories[slices.Index(e.Replicas, now.ID)] = now.Directory
		e.retire(now.ID, a.minISR(e))
	case e.Directory(now.ID) != now.Directory:
		// The disk is another one, the copy is gone (case 40). Where it was the last that is known complete, the record of it stays with its
		// directory: nobody else is complete, so the partition stays offline, until that disk returns or an operator accepts the loss.
		if sole(e.Partition, now.ID) {
			break
		}
		e.forget(now.ID)
	case incomplete && len(e.Replicas) > 1 && !planted.On(planted.DamagedKeepsPlace):
		e.forget(now.ID)
	default:
		e.retire(now.ID, a.minISR(e))
		returned()
	}
	a.elect(e)
	a.adoptDirectories(e)
}

// sole reports whether nobody but b is known to be complete.
func sole(p *cluster.Partition, b cluster.BrokerID) bool {
	return len(p.ISR)+len(p.ELR) == 1 && (p.InISR(b) || p.InELR(b))
}

// fenceBroker takes a broker without session out of leadership and ISRs.
func (a *apply) fenceBroker(c cluster.FenceBroker) cluster.Result {
	b, res := a.brokerAt(c.Broker, c.Epoch)
	if b == nil || b.Fenced {
		return res
	}
	fenced := *b
	fenced.Fenced = true
	a.txn.PutBroker(&fenced)
	a.eachReplica(b.ID, func(e *edit) {
		e.retire(b.ID, a.minISR(e))
		if e.Leader == b.ID {
			a.elect(e)
		}
	})
	a.moveShards()
	return cluster.Result{}
}

// unfenceBroker lets a broker lead and join ISRs, and gives it the partitions that waited for it.
func (a *apply) unfenceBroker(c cluster.UnfenceBroker) cluster.Result {
	b, res := a.brokerAt(c.Broker, c.Epoch)
	if b == nil || !b.Fenced {
		return res
	}
	live := *b
	live.Fenced = false
	a.txn.PutBroker(&live)
	a.eachReplica(b.ID, func(e *edit) {
		if e.Leader == cluster.NoBroker {
			a.elect(e)
		}
	})
	a.moveShards()
	return cluster.Result{}
}

// drainBroker begins an orderly shutdown: leaderships move. What no other replica may lead, the coordinator shards, and the places in the ISRs stay until the
// broker is fenced, which the controller does when the broker has applied this: until then it may answer from its lease as the leader that it was, now or a moment
// ago, and its successor must not get ahead of it (I9).
func (a *apply) drainBroker(c cluster.DrainBroker) cluster.Result {
	b, res := a.brokerAt(c.Broker, c.Epoch)
	if b == nil || b.Draining {
		return res
	}
	draining := *b
	draining.Draining = true
	a.txn.PutBroker(&draining)
	a.eachReplica(b.ID, func(e *edit) {
		if e.Leader == b.ID {
			if choice := placement.Elect(e.Partition, a.eligibleFor(e.Partition)); choice.Kind != placement.KindNone {
				a.lead(e, choice)
			}
		}
		if planted.On(planted.DrainLeavesAtOnce) {
			e.retire(b.ID, a.minISR(e))
		}
	})
	return cluster.Result{}
}

// unregisterBroker removes a broker for good.
func (a *apply) unregisterBroker(c cluster.UnregisterBroker) cluster.Result {
	b, ok := a.old.Broker(c.Broker)
	if !ok {
		return refuse(cluster.CodeUnknownBroker, "no broker %d is registered", c.Broker)
	}
	if !b.Fenced {
		return refuse(cluster.CodeInvalidRequest, "broker %d is alive: stop it first", c.Broker)
	}
	held := 0
	for _, p := range a.old.AllPartitions() {
		if p.HasReplica(c.Broker) {
			held++
		}
	}
	if held > 0 {
		return refuse(cluster.CodeInvalidRequest, "broker %d holds replicas of %d partitions: reassign them first", c.Broker, held)
	}
	a.txn.DeleteBroker(c.Broker)
	a.txn.PutConfigs(cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: strconv.Itoa(int(c.Broker))}, nil)
	a.dropTombstones(b.Directory)
	a.moveShards()
	return cluster.Result{}
}

// brokerAt finds a broker in the life that the command speaks of, or says why not.
func (a *apply) brokerAt(id cluster.BrokerID, epoch cluster.BrokerEpoch) (*cluster.Broker, cluster.Result) {
	b, ok := a.old.Broker(id)
	if !ok {
		return nil, refuse(cluster.CodeUnknownBroker, "no broker %d is registered", id)
	}
	if b.Epoch != epoch {
		return nil, refuse(cluster.CodeStaleBrokerEpoch, "broker %d is registered with epoch %d, not %d", id, b.Epoch, epoch)
	}
	return b, cluster.Result{}
}

// eachReplica edits every partition that has a replica on b, in key order.
func (a *apply) eachReplica(b cluster.BrokerID, change func(*edit)) {
	for tp, p := range a.old.AllPartitions() {
		if p.HasReplica(b) {
			e := a.edit(tp, p)
			change(e)
			a.put(e)
		}
	}
}

func (a *apply) dropTombstones(dir cluster.DirectoryID) {
	for t := range a.old.TombstonesIn(dir) {
		a.txn.DeleteTombstone(t)
	}
}

func sortedPartitions(list []cluster.TopicPartition) []cluster.TopicPartition {
	out := slices.Clone(list)
	slices.SortFunc(out, cluster.TopicPartition.Compare)
	return out
}

func sortedLogs(list []cluster.ReplicaLog) []cluster.ReplicaLog {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b cluster.ReplicaLog) int { return a.Partition.Compare(b.Partition) })
	return out
}

// positionIn finds how far a log goes; what is not listed is empty.
func positionIn(list []cluster.ReplicaLog, tp cluster.TopicPartition) (log cluster.LogPosition, listed bool) {
	i, ok := slices.BinarySearchFunc(list, tp, func(l cluster.ReplicaLog, tp cluster.TopicPartition) int { return l.Partition.Compare(tp) })
	if !ok {
		return cluster.LogPosition{LastEpoch: record.NoEpoch}, false
	}
	return list[i].Log, true
}

func containsPartition(list []cluster.TopicPartition, tp cluster.TopicPartition) bool {
	_, ok := slices.BinarySearchFunc(list, tp, cluster.TopicPartition.Compare)
	return ok
}
