package codec

import (
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
	"github.com/moldau-log/moldau/record"
)

// commandToProto wraps a command in its envelope.
func commandToProto(cmd cluster.Command) (*metadatav1.Command, error) {
	m := &metadatav1.Command{}
	switch c := cmd.(type) {
	case cluster.InitCluster:
		m.Command = &metadatav1.Command_InitCluster{InitCluster: &metadatav1.InitCluster{Cluster: uuidBytes(c.Cluster), FeatureLevel: c.FeatureLevel, CreatedMs: c.CreatedMs}}
	case cluster.CreateTopic:
		m.Command = &metadatav1.Command_CreateTopic{CreateTopic: &metadatav1.CreateTopic{Id: uuidBytes(c.ID), Name: c.Name,
			Assignment: assignmentToProto(c.Assignment), Configs: configsToProto(c.Configs), CreatedMs: c.CreatedMs}}
	case cluster.DeleteTopic:
		m.Command = &metadatav1.Command_DeleteTopic{DeleteTopic: &metadatav1.DeleteTopic{Id: uuidBytes(c.ID)}}
	case cluster.AddPartitions:
		m.Command = &metadatav1.Command_AddPartitions{AddPartitions: &metadatav1.AddPartitions{Topic: uuidBytes(c.Topic), Have: c.Have,
			Assignment: assignmentToProto(c.Assignment)}}
	case cluster.AlterConfigs:
		m.Command = &metadatav1.Command_AlterConfigs{AlterConfigs: &metadatav1.AlterConfigs{Resource: resourceToProto(c.Resource), Ops: mapTo(c.Ops, opToProto)}}
	case cluster.ConfirmRemoved:
		m.Command = &metadatav1.Command_ConfirmRemoved{ConfirmRemoved: &metadatav1.ConfirmRemoved{Tombstones: mapTo(c.Tombstones, tombstoneToProto)}}
	case cluster.SetFeatureLevel:
		m.Command = &metadatav1.Command_SetFeatureLevel{SetFeatureLevel: &metadatav1.SetFeatureLevel{Level: c.Level}}
	case cluster.AssignShards:
		m.Command = &metadatav1.Command_AssignShards{AssignShards: &metadatav1.AssignShards{Moves: mapTo(c.Moves, moveToProto)}}
	case cluster.GroupAppend:
		m.Command = &metadatav1.Command_GroupAppend{GroupAppend: &metadatav1.GroupAppend{Broker: int32(c.Broker), Batches: mapTo(c.Batches, batchToProto), NowMs: c.NowMs}}
	default:
		if !brokerCommandToProto(m, cmd) && !partitionCommandToProto(m, cmd) {
			return nil, fmt.Errorf("controller/codec: no bytes for command %T", cmd)
		}
	}
	return m, nil
}

func brokerCommandToProto(m *metadatav1.Command, cmd cluster.Command) bool {
	switch c := cmd.(type) {
	case cluster.RegisterBroker:
		m.Command = &metadatav1.Command_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{Broker: brokerToProto(&c.Broker), Cluster: uuidBytes(c.Cluster),
			PreviousEpoch: int64(c.PreviousEpoch), PreviousStarts: mapTo(c.PreviousStarts, uuidBytes), Damaged: tpsToProto(c.Damaged), Live: c.Live,
			Logs: mapTo(c.Logs, replicaLogToProto), LogsTold: c.LogsTold}}
	case cluster.UnregisterBroker:
		m.Command = &metadatav1.Command_UnregisterBroker{UnregisterBroker: &metadatav1.UnregisterBroker{Broker: int32(c.Broker)}}
	case cluster.FenceBroker:
		m.Command = &metadatav1.Command_FenceBroker{FenceBroker: &metadatav1.FenceBroker{Broker: int32(c.Broker), Epoch: int64(c.Epoch)}}
	case cluster.UnfenceBroker:
		m.Command = &metadatav1.Command_UnfenceBroker{UnfenceBroker: &metadatav1.UnfenceBroker{Broker: int32(c.Broker), Epoch: int64(c.Epoch)}}
	case cluster.DrainBroker:
		m.Command = &metadatav1.Command_DrainBroker{DrainBroker: &metadatav1.DrainBroker{Broker: int32(c.Broker), Epoch: int64(c.Epoch)}}
	case cluster.AllocateProducerIDs:
		m.Command = &metadatav1.Command_AllocateProducerIds{AllocateProducerIds: &metadatav1.AllocateProducerIds{Broker: int32(c.Broker), Epoch: int64(c.Epoch), Count: c.Count}}
	default:
		return false
	}
	return true
}

func partitionCommandToProto(m *metadatav1.Command, cmd cluster.Command) bool {
	switch c := cmd.(type) {
	case cluster.ElectLeaders:
		m.Command = &metadatav1.Command_ElectLeaders{ElectLeaders: &metadatav1.ElectLeaders{Changes: mapTo(c.Changes, changeToProto)}}
	case cluster.AlterPartition:
		m.Command = &metadatav1.Command_AlterPartition{AlterPartition: &metadatav1.AlterPartition{Leader: int32(c.Leader), LeaderBroker: int64(c.LeaderBroker),
			Changes: mapTo(c.Changes, isrToProto)}}
	case cluster.Reassign:
		m.Command = &metadatav1.Command_Reassign{Reassign: &metadatav1.Reassign{Partition: tpToProto(c.Partition), Replicas: brokersToProto(c.Replicas)}}
	case cluster.FinishReassign:
		m.Command = &metadatav1.Command_FinishReassign{FinishReassign: &metadatav1.FinishReassign{Partition: tpToProto(c.Partition), PartitionEpoch: int32(c.PartitionEpoch)}}
	case cluster.SetLogStart:
		m.Command = &metadatav1.Command_SetLogStart{SetLogStart: &metadatav1.SetLogStart{Partition: tpToProto(c.Partition), LeaderEpoch: int32(c.LeaderEpoch),
			LogStart: int64(c.LogStart)}}
	default:
		return false
	}
	return true
}

// command unwraps a command.
func (d *decoder) command(m *metadatav1.Command) cluster.Command {
	switch c := m.GetCommand().(type) {
	case *metadatav1.Command_InitCluster:
		return cluster.InitCluster{Cluster: d.uuid(c.InitCluster.GetCluster()), FeatureLevel: c.InitCluster.GetFeatureLevel(), CreatedMs: c.InitCluster.GetCreatedMs()}
	case *metadatav1.Command_CreateTopic:
		t := c.CreateTopic
		return cluster.CreateTopic{ID: d.uuid(t.GetId()), Name: t.GetName(), Assignment: assignment(t.GetAssignment()), Configs: configs(t.GetConfigs()), CreatedMs: t.GetCreatedMs()}
	case *metadatav1.Command_DeleteTopic:
		return cluster.DeleteTopic{ID: d.uuid(c.DeleteTopic.GetId())}
	case *metadatav1.Command_AddPartitions:
		p := c.AddPartitions
		return cluster.AddPartitions{Topic: d.uuid(p.GetTopic()), Have: p.GetHave(), Assignment: assignment(p.GetAssignment())}
	case *metadatav1.Command_AlterConfigs:
		return cluster.AlterConfigs{Resource: d.resource(c.AlterConfigs.GetResource()), Ops: mapTo(c.AlterConfigs.GetOps(), op)}
	case *metadatav1.Command_ConfirmRemoved:
		return cluster.ConfirmRemoved{Tombstones: mapTo(c.ConfirmRemoved.GetTombstones(), d.tombstone)}
	case *metadatav1.Command_SetFeatureLevel:
		return cluster.SetFeatureLevel{Level: c.SetFeatureLevel.GetLevel()}
	case *metadatav1.Command_AssignShards:
		return cluster.AssignShards{Moves: mapTo(c.AssignShards.GetMoves(), move)}
	case *metadatav1.Command_GroupAppend:
		g := c.GroupAppend
		return cluster.GroupAppend{Broker: cluster.BrokerID(g.GetBroker()), Batches: mapTo(g.GetBatches(), d.batch), NowMs: g.GetNowMs()}
	}
	if cmd := d.brokerCommand(m); cmd != nil {
		return cmd
	}
	if cmd := d.partitionCommand(m); cmd != nil {
		return cmd
	}
	d.unknown("a command")
	return nil
}

func (d *decoder) brokerCommand(m *metadatav1.Command) cluster.Command {
	switch c := m.GetCommand().(type) {
	case *metadatav1.Command_RegisterBroker:
		r := c.RegisterBroker
		return cluster.RegisterBroker{Broker: d.broker(r.GetBroker()), Cluster: d.uuid(r.GetCluster()), PreviousEpoch: cluster.BrokerEpoch(r.GetPreviousEpoch()), PreviousStarts: mapTo(r.GetPreviousStarts(), d.uuid),
			Damaged: d.tps(r.GetDamaged()), Live: r.GetLive(), Logs: mapTo(r.GetLogs(), d.replicaLog), LogsTold: r.GetLogsTold()}
	case *metadatav1.Command_UnregisterBroker:
		return cluster.UnregisterBroker{Broker: cluster.BrokerID(c.UnregisterBroker.GetBroker())}
	case *metadatav1.Command_FenceBroker:
		return cluster.FenceBroker{Broker: cluster.BrokerID(c.FenceBroker.GetBroker()), Epoch: cluster.BrokerEpoch(c.FenceBroker.GetEpoch())}
	case *metadatav1.Command_UnfenceBroker:
		return cluster.UnfenceBroker{Broker: cluster.BrokerID(c.UnfenceBroker.GetBroker()), Epoch: cluster.BrokerEpoch(c.UnfenceBroker.GetEpoch())}
	case *metadatav1.Command_DrainBroker:
		return cluster.DrainBroker{Broker: cluster.BrokerID(c.DrainBroker.GetBroker()), Epoch: cluster.BrokerEpoch(c.DrainBroker.GetEpoch())}
	case *metadatav1.Command_AllocateProducerIds:
		a := c.AllocateProducerIds
		return cluster.AllocateProducerIDs{Broker: cluster.BrokerID(a.GetBroker()), Epoch: cluster.BrokerEpoch(a.GetEpoch()), Count: a.GetCount()}
	}
	return nil
}

func (d *decoder) partitionCommand(m *metadatav1.Command) cluster.Command {
	switch c := m.GetCommand().(type) {
	case *metadatav1.Command_ElectLeaders:
		return cluster.ElectLeaders{Changes: mapTo(c.ElectLeaders.GetChanges(), d.change)}
	case *metadatav1.Command_AlterPartition:
		a := c.AlterPartition
		return cluster.AlterPartition{Leader: cluster.BrokerID(a.GetLeader()), LeaderBroker: cluster.BrokerEpoch(a.GetLeaderBroker()), Changes: mapTo(a.GetChanges(), d.isr)}
	case *metadatav1.Command_Reassign:
		return cluster.Reassign{Partition: d.tp(c.Reassign.GetPartition()), Replicas: brokers(c.Reassign.GetReplicas())}
	case *metadatav1.Command_FinishReassign:
		return cluster.FinishReassign{Partition: d.tp(c.FinishReassign.GetPartition()), PartitionEpoch: cluster.PartitionEpoch(c.FinishReassign.GetPartitionEpoch())}
	case *metadatav1.Command_SetLogStart:
		s := c.SetLogStart
		return cluster.SetLogStart{Partition: d.tp(s.GetPartition()), LeaderEpoch: record.LeaderEpoch(s.GetLeaderEpoch()), LogStart: record.Offset(s.GetLogStart())}
	}
	return nil
}

func assignmentToProto(in [][]cluster.BrokerID) []*metadatav1.Replicas {
	return mapTo(in, func(r []cluster.BrokerID) *metadatav1.Replicas {
		return &metadatav1.Replicas{Brokers: brokersToProto(r)}
	})
}

func assignment(in []*metadatav1.Replicas) [][]cluster.BrokerID {
	return mapTo(in, func(r *metadatav1.Replicas) []cluster.BrokerID { return brokers(r.GetBrokers()) })
}

func opToProto(o cluster.ConfigOp) *metadatav1.ConfigOp {
	return &metadatav1.ConfigOp{Key: o.Key, Value: o.Value, Delete: o.Delete}
}

func op(m *metadatav1.ConfigOp) cluster.ConfigOp {
	return cluster.ConfigOp{Key: m.GetKey(), Value: m.GetValue(), Delete: m.GetDelete()}
}

func changeToProto(c cluster.PartitionChange) *metadatav1.PartitionChange {
	return &metadatav1.PartitionChange{Partition: tpToProto(c.Partition), PartitionEpoch: int32(c.PartitionEpoch), Leader: int32(c.Leader),
		BumpEpoch: c.BumpEpoch, Unclean: c.Unclean, Offline: brokersToProto(c.Offline)}
}

func (d *decoder) change(m *metadatav1.PartitionChange) cluster.PartitionChange {
	return cluster.PartitionChange{Partition: d.tp(m.GetPartition()), PartitionEpoch: cluster.PartitionEpoch(m.GetPartitionEpoch()),
		Leader: cluster.BrokerID(m.GetLeader()), BumpEpoch: m.GetBumpEpoch(), Unclean: m.GetUnclean(), Offline: brokers(m.GetOffline())}
}

func isrToProto(c cluster.ISRChange) *metadatav1.IsrChange {
	return &metadatav1.IsrChange{Partition: tpToProto(c.Partition), LeaderEpoch: int32(c.LeaderEpoch), PartitionEpoch: int32(c.PartitionEpoch),
		Isr: mapTo(c.ISR, func(i cluster.ISRMember) *metadatav1.IsrMember {
			return &metadatav1.IsrMember{Broker: int32(i.Broker), Epoch: int64(i.Epoch)}
		})}
}

func (d *decoder) isr(m *metadatav1.IsrChange) cluster.ISRChange {
	return cluster.ISRChange{Partition: d.tp(m.GetPartition()), LeaderEpoch: record.LeaderEpoch(m.GetLeaderEpoch()),
		PartitionEpoch: cluster.PartitionEpoch(m.GetPartitionEpoch()),
		ISR: mapTo(m.GetIsr(), func(i *metadatav1.IsrMember) cluster.ISRMember {
			return cluster.ISRMember{Broker: cluster.BrokerID(i.GetBroker()), Epoch: cluster.BrokerEpoch(i.GetEpoch())}
		})}
}

func moveToProto(s cluster.ShardMove) *metadatav1.ShardMove {
	return &metadatav1.ShardMove{Shard: int32(s.Shard), Epoch: int32(s.Epoch), Leader: int32(s.Leader)}
}

func move(m *metadatav1.ShardMove) cluster.ShardMove {
	return cluster.ShardMove{Shard: cluster.ShardID(m.GetShard()), Epoch: cluster.ShardEpoch(m.GetEpoch()), Leader: cluster.BrokerID(m.GetLeader())}
}
