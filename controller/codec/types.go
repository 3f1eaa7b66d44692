package codec

import (
	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
	"github.com/moldau-log/moldau/record"
)

func uuidBytes(u cluster.UUID) []byte {
	if u.IsZero() {
		return nil
	}
	return u[:]
}

func (d *decoder) uuid(b []byte) (u cluster.UUID) {
	if len(b) == 0 {
		return u
	}
	if len(b) != len(u) {
		d.fail("an id of %d bytes", len(b))
		return u
	}
	copy(u[:], b)
	return u
}

// mapTo converts a list; an empty one becomes nil, so that what is decoded equals what was encoded.
func mapTo[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func brokersToProto(in []cluster.BrokerID) []int32 {
	return mapTo(in, func(b cluster.BrokerID) int32 { return int32(b) })
}

func brokers(in []int32) []cluster.BrokerID {
	return mapTo(in, func(b int32) cluster.BrokerID { return cluster.BrokerID(b) })
}

func tpToProto(tp cluster.TopicPartition) *metadatav1.TopicPartition {
	return &metadatav1.TopicPartition{Topic: uuidBytes(tp.Topic), Partition: tp.Partition}
}

func (d *decoder) tp(m *metadatav1.TopicPartition) cluster.TopicPartition {
	return cluster.TopicPartition{Topic: d.uuid(m.GetTopic()), Partition: m.GetPartition()}
}

func tpsToProto(in []cluster.TopicPartition) []*metadatav1.TopicPartition {
	return mapTo(in, tpToProto)
}

func (d *decoder) tps(in []*metadatav1.TopicPartition) []cluster.TopicPartition {
	return mapTo(in, d.tp)
}

func brokerToProto(b *cluster.Broker) *metadatav1.Broker {
	return &metadatav1.Broker{
		Id: int32(b.ID), Epoch: int64(b.Epoch), Directory: uuidBytes(b.Directory), Incarnation: uuidBytes(b.Incarnation), PeerAddress: b.PeerAddress,
		Listeners: mapTo(b.Listeners, func(l cluster.Listener) *metadatav1.Listener {
			return &metadatav1.Listener{Name: l.Name, Host: l.Host, Port: l.Port}
		}),
		Rack: b.Rack, Version: b.Version, MinLevel: b.MinLevel, MaxLevel: b.MaxLevel, Fenced: b.Fenced, Draining: b.Draining,
	}
}

func (d *decoder) broker(m *metadatav1.Broker) cluster.Broker {
	return cluster.Broker{
		ID: cluster.BrokerID(m.GetId()), Epoch: cluster.BrokerEpoch(m.GetEpoch()), Directory: d.uuid(m.GetDirectory()),
		Incarnation: d.uuid(m.GetIncarnation()), PeerAddress: m.GetPeerAddress(),
		Listeners: mapTo(m.GetListeners(), func(l *metadatav1.Listener) cluster.Listener {
			return cluster.Listener{Name: l.GetName(), Host: l.GetHost(), Port: l.GetPort()}
		}),
		Rack: m.GetRack(), Version: m.GetVersion(), MinLevel: m.GetMinLevel(), MaxLevel: m.GetMaxLevel(), Fenced: m.GetFenced(), Draining: m.GetDraining(),
	}
}

func configsToProto(c cluster.Configs) []*metadatav1.ConfigEntry {
	return mapTo(c, func(e cluster.ConfigEntry) *metadatav1.ConfigEntry {
		return &metadatav1.ConfigEntry{Key: e.Key, Value: e.Value}
	})
}

func configs(in []*metadatav1.ConfigEntry) cluster.Configs {
	return mapTo(in, func(e *metadatav1.ConfigEntry) cluster.ConfigEntry {
		return cluster.ConfigEntry{Key: e.GetKey(), Value: e.GetValue()}
	})
}

func resourceToProto(r cluster.ConfigResource) *metadatav1.ConfigResource {
	return &metadatav1.ConfigResource{Kind: int32(r.Kind), Name: r.Name}
}

func (d *decoder) resource(m *metadatav1.ConfigResource) cluster.ConfigResource {
	if m.GetKind() < int32(cluster.ConfigTopic) || m.GetKind() > int32(cluster.ConfigClusterDefault) {
		d.unknown("a kind of config resource")
	}
	return cluster.ConfigResource{Kind: cluster.ConfigKind(m.GetKind()), Name: m.GetName()}
}

func topicToProto(t *cluster.Topic) *metadatav1.Topic {
	return &metadatav1.Topic{Id: uuidBytes(t.ID), Name: t.Name, Partitions: t.Partitions, ReplicationFactor: int32(t.ReplicationFactor),
		CreatedMs: t.CreatedMs, Configs: configsToProto(t.Configs)}
}

func (d *decoder) topic(m *metadatav1.Topic) *cluster.Topic {
	return &cluster.Topic{ID: d.uuid(m.GetId()), Name: m.GetName(), Partitions: m.GetPartitions(), ReplicationFactor: int16(m.GetReplicationFactor()),
		CreatedMs: m.GetCreatedMs(), Configs: configs(m.GetConfigs())}
}

func partitionToProto(p *cluster.Partition) *metadatav1.Partition {
	dirs := make([]byte, 0, len(p.Directories)*len(cluster.UUID{}))
	for _, d := range p.Directories {
		dirs = append(dirs, d[:]...)
	}
	return &metadatav1.Partition{
		Replicas: brokersToProto(p.Replicas), Directories: dirs, Adding: brokersToProto(p.Adding), Removing: brokersToProto(p.Removing),
		Isr: brokersToProto(p.ISR), Elr: brokersToProto(p.ELR), Leader: int32(p.Leader), LeaderEpoch: int32(p.LeaderEpoch),
		PartitionEpoch: int32(p.PartitionEpoch), LogStart: int64(p.LogStart), LastLeader: int32(p.LastLeader), UncleanLast: p.UncleanLast,
		Returned: mapTo(p.Returned, func(r cluster.Returned) *metadatav1.Returned {
			return &metadatav1.Returned{Broker: int32(r.Broker), Log: positionToProto(r.Log)}
		}),
	}
}

func (d *decoder) partition(m *metadatav1.Partition) *cluster.Partition {
	const size = len(cluster.UUID{})
	if len(m.GetDirectories()) != size*len(m.GetReplicas()) {
		d.fail("%d bytes of directories for %d replicas", len(m.GetDirectories()), len(m.GetReplicas()))
		return nil
	}
	dirs := make([]cluster.DirectoryID, len(m.GetReplicas()))
	for i := range dirs {
		copy(dirs[i][:], m.GetDirectories()[i*size:])
	}
	return &cluster.Partition{
		Replicas: brokers(m.GetReplicas()), Directories: dirs, Adding: brokers(m.GetAdding()), Removing: brokers(m.GetRemoving()),
		ISR: brokers(m.GetIsr()), ELR: brokers(m.GetElr()), Leader: cluster.BrokerID(m.GetLeader()), LeaderEpoch: record.LeaderEpoch(m.GetLeaderEpoch()),
		PartitionEpoch: cluster.PartitionEpoch(m.GetPartitionEpoch()), LogStart: record.Offset(m.GetLogStart()),
		LastLeader: cluster.BrokerID(m.GetLastLeader()), UncleanLast: m.GetUncleanLast(),
		Returned: mapTo(m.GetReturned(), func(r *metadatav1.Returned) cluster.Returned {
			return cluster.Returned{Broker: cluster.BrokerID(r.GetBroker()), Log: position(r.GetLog())}
		}),
	}
}

func replicaLogToProto(l cluster.ReplicaLog) *metadatav1.ReplicaLog {
	return &metadatav1.ReplicaLog{Partition: tpToProto(l.Partition), Log: positionToProto(l.Log)}
}

func (d *decoder) replicaLog(m *metadatav1.ReplicaLog) cluster.ReplicaLog {
	return cluster.ReplicaLog{Partition: d.tp(m.GetPartition()), Log: position(m.GetLog())}
}

func positionToProto(p cluster.LogPosition) *metadatav1.LogPosition {
	return &metadatav1.LogPosition{LastEpoch: int32(p.LastEpoch), LogEnd: int64(p.LogEnd), LogStart: int64(p.LogStart)}
}

func position(m *metadatav1.LogPosition) cluster.LogPosition {
	return cluster.LogPosition{LastEpoch: record.LeaderEpoch(m.GetLastEpoch()), LogEnd: record.Offset(m.GetLogEnd()), LogStart: record.Offset(m.GetLogStart())}
}

func shardToProto(s cluster.Shard) *metadatav1.Shard {
	return &metadatav1.Shard{Leader: int32(s.Leader), Epoch: int32(s.Epoch), NextSequence: s.NextSequence}
}

func shard(m *metadatav1.Shard) cluster.Shard {
	return cluster.Shard{Leader: cluster.BrokerID(m.GetLeader()), Epoch: cluster.ShardEpoch(m.GetEpoch()), NextSequence: m.GetNextSequence()}
}

func tombstoneToProto(t cluster.Tombstone) *metadatav1.Tombstone {
	return &metadatav1.Tombstone{Partition: tpToProto(t.Partition), Directory: uuidBytes(t.Directory)}
}

func (d *decoder) tombstone(m *metadatav1.Tombstone) cluster.Tombstone {
	return cluster.Tombstone{Partition: d.tp(m.GetPartition()), Directory: d.uuid(m.GetDirectory())}
}

func resultToProto(r cluster.Result) *metadatav1.Result {
	return &metadatav1.Result{
		Index: r.Index, Code: int32(r.Code), Message: r.Message, BrokerEpoch: int64(r.BrokerEpoch), FirstProducerId: int64(r.FirstProducerID),
		Items: mapTo(r.Items, func(it cluster.ItemResult) *metadatav1.ItemResult {
			m := &metadatav1.ItemResult{Code: int32(it.Code), NextSequence: it.NextSequence}
			if it.Partition != nil {
				m.Partition = partitionToProto(it.Partition)
			}
			return m
		}),
	}
}

func (d *decoder) result(m *metadatav1.Result) cluster.Result {
	return cluster.Result{
		Index: m.GetIndex(), Code: cluster.Code(m.GetCode()), Message: m.GetMessage(), BrokerEpoch: cluster.BrokerEpoch(m.GetBrokerEpoch()),
		FirstProducerID: record.ProducerID(m.GetFirstProducerId()),
		Items: mapTo(m.GetItems(), func(it *metadatav1.ItemResult) cluster.ItemResult {
			out := cluster.ItemResult{Code: cluster.Code(it.GetCode()), NextSequence: it.GetNextSequence()}
			if it.GetPartition() != nil {
				out.Partition = d.partition(it.GetPartition())
			}
			return out
		}),
	}
}
