package state

import (
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
)

// State is the whole replicated metadata of a cluster.
type State struct {
	img    *cluster.Image
	groups *groups
}

// New is the state of a cluster before its first command.
func New() *State { return &State{img: cluster.EmptyImage(), groups: newGroups()} }

// Image is the metadata as of the last applied entry.
func (s *State) Image() *cluster.Image { return s.img }

// Groups is the group state as of the last applied entry, immutable.
func (s *State) Groups() *GroupView {
	return &GroupView{index: s.img.Index(), img: s.img, groups: *s.groups}
}

// Advance notes an entry of the metadata log that carries no command.
func (s *State) Advance(index uint64) {
	invariant.Check(index >= s.img.Index(), "controller/state: entry %d after %d", index, s.img.Index())
	s.img = s.img.Txn().Commit(index)
}

// Apply carries out one command, the entry index of the metadata log. The result says whether it was refused; a refused command has no effect.
func (s *State) Apply(index uint64, cmd cluster.Command) cluster.Result {
	invariant.Check(index > s.img.Index(), "controller/state: entry %d after %d", index, s.img.Index())
	a := &apply{index: index, old: s.img, conf: s.img, txn: s.img.Txn(), groups: *s.groups}
	res := a.run(cmd)
	res.Index = index
	if res.Code != cluster.CodeNone {
		s.Advance(index)
		return res
	}
	s.img = a.txn.Commit(index)
	*s.groups = a.groups
	return res
}

// apply is the work on one command.
type apply struct {
	index  uint64
	old    *cluster.Image // before the command
	conf   *cluster.Image // whose topics and configs count: before the command, but for the commands that change them
	txn    *cluster.Txn
	groups groups
	// topic caches the topic of the partition looked at last: walks go topic by topic.
	topic *cluster.Topic
}

func (a *apply) run(cmd cluster.Command) cluster.Result {
	if c, ok := cmd.(cluster.InitCluster); ok {
		return a.initCluster(c)
	}
	if a.old.ClusterID().IsZero() {
		return refuse(cluster.CodeInvalidRequest, "the cluster has no id yet")
	}
	switch c := cmd.(type) {
	case cluster.RegisterBroker:
		return a.registerBroker(c)
	case cluster.UnregisterBroker:
		return a.unregisterBroker(c)
	case cluster.FenceBroker:
		return a.fenceBroker(c)
	case cluster.UnfenceBroker:
		return a.unfenceBroker(c)
	case cluster.DrainBroker:
		return a.drainBroker(c)
	case cluster.CreateTopic:
		return a.createTopic(c)
	case cluster.DeleteTopic:
		return a.deleteTopic(c)
	case cluster.AddPartitions:
		return a.addPartitions(c)
	case cluster.AlterConfigs:
		return a.alterConfigs(c)
	case cluster.ElectLeaders:
		return a.electLeaders(c)
	case cluster.AlterPartition:
		return a.alterPartition(c)
	case cluster.Reassign:
		return a.reassign(c)
	case cluster.FinishReassign:
		return a.finishReassign(c)
	case cluster.SetLogStart:
		return a.setLogStart(c)
	case cluster.GroupAppend:
		return a.groupAppend(c)
	}
	return a.runSmall(cmd)
}

// runSmall has the commands that touch no partition.
func (a *apply) runSmall(cmd cluster.Command) cluster.Result {
	switch c := cmd.(type) {
	case cluster.AllocateProducerIDs:
		return a.allocateProducerIDs(c)
	case cluster.AssignShards:
		return a.assignShards(c)
	case cluster.ConfirmRemoved:
		return a.confirmRemoved(c)
	case cluster.SetFeatureLevel:
		return a.setFeatureLevel(c)
	}
	// The codec refuses what it does not know, so this is a command type without a rule: a bug.
	invariant.Check(false, "controller/state: no rule for command %T", cmd)
	return cluster.Result{}
}

func refuse(code cluster.Code, format string, args ...any) cluster.Result {
	return cluster.Result{Code: code, Message: fmt.Sprintf(format, args...)}
}

// called is a partition's name for people, who do not know topics by their id.
func (a *apply) called(tp cluster.TopicPartition) string {
	if t, ok := a.old.Topic(tp.Topic); ok {
		return fmt.Sprintf("%s-%d", t.Name, tp.Partition)
	}
	return tp.String()
}

// noPartition refuses what names a partition that does not exist.
func (a *apply) noPartition(tp cluster.TopicPartition) cluster.Result {
	t, ok := a.old.Topic(tp.Topic)
	if !ok {
		return refuse(cluster.CodeUnknownTopic, "no topic has the id %s", tp.Topic)
	}
	return refuse(cluster.CodeUnknownTopic, "topic %s has no partition %d; it has %d, numbered from 0", t.Name, tp.Partition, t.Partitions)
}

func refuseWith(err error) cluster.Result {
	if e, ok := err.(*cluster.Error); ok {
		return cluster.Result{Code: e.Code, Message: e.Message}
	}
	return cluster.Result{Code: cluster.CodeUnknown, Message: err.Error()}
}
