package state

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// Bounds of one topic. They are part of Apply, so they never change below a feature level.
const (
	maxPartitions = 10_000
	maxReplicas   = 32
)

func (a *apply) createTopic(c cluster.CreateTopic) cluster.Result {
	if err := a.old.CheckNewTopicName(c.Name); err != nil {
		return refuseWith(err)
	}
	if _, taken := a.old.Topic(c.ID); taken || c.ID.IsZero() {
		return refuse(cluster.CodeInvalidRequest, "the topic id %s is zero or taken", c.ID)
	}
	if len(c.Assignment) == 0 || len(c.Assignment) > maxPartitions {
		return refuse(cluster.CodeInvalidPartitions, "%d partitions; 1 to %d are allowed", len(c.Assignment), maxPartitions)
	}
	topic := &cluster.Topic{ID: c.ID, Name: c.Name, Partitions: int32(len(c.Assignment)), ReplicationFactor: int16(min(len(c.Assignment[0]), maxReplicas+1)),
		CreatedMs: c.CreatedMs, Configs: canonical(c.Configs)}
	if res := a.addPartitionsFrom(topic, 0, int(topic.ReplicationFactor), c.Assignment); res.Code != cluster.CodeNone {
		return res
	}
	a.txn.PutTopic(topic)
	return cluster.Result{}
}

func (a *apply) addPartitions(c cluster.AddPartitions) cluster.Result {
	t, ok := a.old.Topic(c.Topic)
	if !ok {
		return refuse(cluster.CodeUnknownTopic, "no topic has the id %s", c.Topic)
	}
	if t.Partitions != c.Have {
		return refuse(cluster.CodeInvalidPartitions, "topic %q has %d partitions, not %d as when the request was made; try again", t.Name, t.Partitions, c.Have)
	}
	if len(c.Assignment) == 0 || len(c.Assignment)+int(t.Partitions) > maxPartitions {
		return refuse(cluster.CodeInvalidPartitions, "%d partitions on top of %d; at most %d are allowed", len(c.Assignment), t.Partitions, maxPartitions)
	}
	grown := *t
	grown.Partitions += int32(len(c.Assignment))
	if res := a.addPartitionsFrom(&grown, t.Partitions, a.old.ReplicationFactor(t), c.Assignment); res.Code != cluster.CodeNone {
		return res
	}
	a.txn.PutTopic(&grown)
	return cluster.Result{}
}

// addPartitionsFrom creates partitions numbered from first on, each with rf replicas.
func (a *apply) addPartitionsFrom(t *cluster.Topic, first int32, rf int, assignment [][]cluster.BrokerID) cluster.Result {
	for n, replicas := range assignment {
		if len(replicas) != rf {
			return refuse(cluster.CodeInvalidAssignment, "partition %d has %d replicas, the topic has a replication factor of %d", first+int32(n), len(replicas), rf)
		}
		if res := a.checkReplicas(replicas); res.Code != cluster.CodeNone {
			return res
		}
		p := a.newPartition(replicas)
		if p.Leader == cluster.NoBroker {
			return refuse(cluster.CodeInvalidReplication, "none of the brokers %v is alive and ready; retry", replicas)
		}
		tp := cluster.TopicPartition{Topic: t.ID, Partition: first + int32(n)}
		checkPartition(tp, nil, p)
		a.txn.PutPartition(tp, p)
	}
	return cluster.Result{}
}

// checkReplicas refuses an assignment that is no set of registered brokers.
func (a *apply) checkReplicas(replicas []cluster.BrokerID) cluster.Result {
	if len(replicas) == 0 || len(replicas) > maxReplicas || !distinct(replicas) {
		return refuse(cluster.CodeInvalidAssignment, "the replicas %v are not 1 to %d different brokers", replicas, maxReplicas)
	}
	for _, b := range replicas {
		if _, ok := a.txn.Broker(b); !ok {
			return refuse(cluster.CodeUnknownBroker, "broker %d is not registered", b)
		}
	}
	return cluster.Result{}
}

// newPartition is a partition without a record: all its replicas that are alive are in sync.
func (a *apply) newPartition(replicas []cluster.BrokerID) *cluster.Partition {
	p := &cluster.Partition{Replicas: slices.Clone(replicas), Leader: cluster.NoBroker, LastLeader: cluster.NoBroker}
	for _, b := range replicas {
		br, _ := a.txn.Broker(b)
		p.Directories = append(p.Directories, br.Directory)
		if !br.Eligible() {
			continue
		}
		p.ISR = append(p.ISR, b)
		if p.Leader == cluster.NoBroker {
			p.Leader = b
		}
	}
	slices.Sort(p.ISR)
	return p
}

// deleteTopic removes a topic with its configs and the offsets committed for it (case 90), and marks its replicas for removal.
func (a *apply) deleteTopic(c cluster.DeleteTopic) cluster.Result {
	t, ok := a.old.Topic(c.ID)
	if !ok {
		return refuse(cluster.CodeUnknownTopic, "no topic has the id %s", c.ID)
	}
	for n, p := range a.old.PartitionsOf(t.ID) {
		tp := cluster.TopicPartition{Topic: t.ID, Partition: n}
		for i := range p.Replicas {
			a.bury(tp, p, i)
		}
		a.txn.DeletePartition(tp)
	}
	a.txn.DeleteTopic(t)
	if !planted.On(planted.OffsetsOutliveTopic) {
		a.groups.deleteTopic(t.ID)
	}
	return cluster.Result{}
}

// bury leaves a tombstone for the i-th replica of p.
func (a *apply) bury(tp cluster.TopicPartition, p *cluster.Partition, i int) {
	if dir := p.Directories[i]; !dir.IsZero() {
		a.txn.PutTombstone(cluster.Tombstone{Partition: tp, Directory: dir})
	}
}

func (a *apply) confirmRemoved(c cluster.ConfirmRemoved) cluster.Result {
	for _, t := range c.Tombstones {
		a.txn.DeleteTombstone(t)
	}
	return cluster.Result{}
}

func (a *apply) alterConfigs(c cluster.AlterConfigs) cluster.Result {
	set := applyOps(a.old.Configs(c.Resource), c.Ops)
	if c.Resource.Kind != cluster.ConfigTopic {
		a.txn.PutConfigs(c.Resource, set)
		a.followConfigs(func(*cluster.Topic) bool { return c.Resource.Kind == cluster.ConfigClusterDefault })
		return cluster.Result{}
	}
	t, ok := a.old.TopicByName(c.Resource.Name)
	if !ok {
		return refuse(cluster.CodeUnknownTopic, "no topic is called %q", c.Resource.Name)
	}
	changed := *t
	changed.Configs = set
	a.txn.PutTopic(&changed)
	a.followConfigs(func(o *cluster.Topic) bool { return o.ID == t.ID })
	return cluster.Result{}
}

// followConfigs does what new configs mean for the partitions of the topics that they touch: a lower min ISR ends what the ELR stands for (case
// 143), unless there is no leader that could move on without it, and unclean elections that became allowed are held.
func (a *apply) followConfigs(touched func(*cluster.Topic) bool) {
	a.conf, a.topic = a.txn.Image(), nil
	for t := range a.old.Topics() {
		if !touched(t) {
			continue
		}
		for n, p := range a.old.PartitionsOf(t.ID) {
			e := a.edit(cluster.TopicPartition{Topic: t.ID, Partition: n}, p)
			now, before := a.minISR(e), a.old.MinISR(t, p)
			if now < before && (e.Leader != cluster.NoBroker || planted.On(planted.ELRClearedWithoutLeader)) && !planted.On(planted.ELROutlivesMinISR) {
				e.ELR = nil
			}
			// A leader that still works under the old min ISR lets the watermark move where the ELR would take it to stand still: its
			// ISR proposals are stale from here on.
			e.touch = now != before
			if e.Leader == cluster.NoBroker {
				a.elect(e)
			}
			a.put(e)
		}
	}
}

func applyOps(set cluster.Configs, ops []cluster.ConfigOp) cluster.Configs {
	for _, op := range ops {
		if op.Delete {
			set = set.Without(op.Key)
		} else {
			set = set.With(op.Key, op.Value)
		}
	}
	return set
}

// canonical sorts configs and keeps the last of each key.
func canonical(in cluster.Configs) cluster.Configs {
	var out cluster.Configs
	for _, e := range in {
		out = out.With(e.Key, e.Value)
	}
	return out
}
