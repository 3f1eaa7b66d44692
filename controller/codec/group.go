package codec

import (
	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
	"github.com/moldau-log/moldau/record"
)

// text makes bytes of a text that a client chose; an empty one takes no room.
func text(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func bytesOrNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func batchToProto(b cluster.GroupBatch) *metadatav1.GroupBatch {
	return &metadatav1.GroupBatch{Shard: int32(b.Shard), ShardEpoch: int32(b.ShardEpoch), Sequence: b.Sequence, Records: mapTo(b.Records, groupRecordToProto)}
}

func (d *decoder) batch(m *metadatav1.GroupBatch) cluster.GroupBatch {
	return cluster.GroupBatch{Shard: cluster.ShardID(m.GetShard()), ShardEpoch: cluster.ShardEpoch(m.GetShardEpoch()), Sequence: m.GetSequence(),
		Records: mapTo(m.GetRecords(), d.groupRecord)}
}

func groupRecordToProto(r cluster.GroupRecord) *metadatav1.GroupRecord {
	m := &metadatav1.GroupRecord{}
	switch r := r.(type) {
	case cluster.GroupState:
		m.Record = &metadatav1.GroupRecord_State{State: groupStateToProto(&r)}
	case cluster.GroupDeleted:
		m.Record = &metadatav1.GroupRecord_Deleted{Deleted: &metadatav1.GroupDeleted{Group: text(r.Group)}}
	case cluster.OffsetCommitted:
		m.Record = &metadatav1.GroupRecord_OffsetCommitted{OffsetCommitted: &metadatav1.OffsetCommitted{
			Group: text(r.Group), Partition: tpToProto(r.Partition), Committed: committedToProto(r.Committed)}}
	case cluster.OffsetDeleted:
		m.Record = &metadatav1.GroupRecord_OffsetDeleted{OffsetDeleted: &metadatav1.OffsetDeleted{Group: text(r.Group), Partition: tpToProto(r.Partition)}}
	}
	return m
}

func (d *decoder) groupRecord(m *metadatav1.GroupRecord) cluster.GroupRecord {
	switch r := m.GetRecord().(type) {
	case *metadatav1.GroupRecord_State:
		return *d.groupState(r.State)
	case *metadatav1.GroupRecord_Deleted:
		return cluster.GroupDeleted{Group: string(r.Deleted.GetGroup())}
	case *metadatav1.GroupRecord_OffsetCommitted:
		return cluster.OffsetCommitted{Group: string(r.OffsetCommitted.GetGroup()), Partition: d.tp(r.OffsetCommitted.GetPartition()),
			Committed: committed(r.OffsetCommitted.GetCommitted())}
	case *metadatav1.GroupRecord_OffsetDeleted:
		return cluster.OffsetDeleted{Group: string(r.OffsetDeleted.GetGroup()), Partition: d.tp(r.OffsetDeleted.GetPartition())}
	}
	d.unknown("a group record")
	return nil
}

func committedToProto(c cluster.CommittedOffset) *metadatav1.CommittedOffset {
	return &metadatav1.CommittedOffset{Offset: int64(c.Offset), LeaderEpoch: int32(c.LeaderEpoch), Metadata: text(c.Metadata), CommittedMs: c.CommittedMs,
		Committer: c.Number.Committer, Sequence: c.Number.Sequence}
}

func committed(m *metadatav1.CommittedOffset) cluster.CommittedOffset {
	return cluster.CommittedOffset{Offset: record.Offset(m.GetOffset()), LeaderEpoch: record.LeaderEpoch(m.GetLeaderEpoch()),
		Metadata: string(m.GetMetadata()), CommittedMs: m.GetCommittedMs(),
		Number: cluster.CommitNumber{Committer: m.GetCommitter(), Sequence: m.GetSequence()}}
}

func groupStateToProto(g *cluster.GroupState) *metadatav1.GroupState {
	return &metadatav1.GroupState{Group: text(g.Group), Type: int32(g.Type), Epoch: g.Epoch, Assignor: text(g.Assignor), Protocol: text(g.Protocol),
		Leader: text(g.Leader), Members: mapTo(g.Members, memberToProto), EmptySinceMs: g.EmptySinceMs}
}

func (d *decoder) groupState(m *metadatav1.GroupState) *cluster.GroupState {
	if m.GetType() < int32(cluster.GroupNone) || m.GetType() > int32(cluster.GroupClassic) {
		d.unknown("a group type")
	}
	return &cluster.GroupState{Group: string(m.GetGroup()), Type: cluster.GroupType(m.GetType()), Epoch: m.GetEpoch(), Assignor: string(m.GetAssignor()),
		Protocol: string(m.GetProtocol()), Leader: string(m.GetLeader()), Members: mapTo(m.GetMembers(), d.member), EmptySinceMs: m.GetEmptySinceMs()}
}

func memberToProto(g cluster.GroupMember) *metadatav1.GroupMember {
	return &metadatav1.GroupMember{
		Id: text(g.ID), InstanceId: text(g.InstanceID), ClientId: text(g.ClientID), ClientHost: text(g.ClientHost), Rack: text(g.Rack), Epoch: g.Epoch,
		Topics: mapTo(g.Topics, func(s string) []byte { return []byte(s) }), SessionTimeoutMs: g.SessionTimeoutMs, RebalanceMs: g.RebalanceMs,
		Assigned: tpsToProto(g.Assigned), Target: tpsToProto(g.Target), Revoking: tpsToProto(g.Revoking),
		Metadata: bytesOrNil(g.Metadata), Assignment: bytesOrNil(g.Assignment),
	}
}

func (d *decoder) member(m *metadatav1.GroupMember) cluster.GroupMember {
	return cluster.GroupMember{
		ID: string(m.GetId()), InstanceID: string(m.GetInstanceId()), ClientID: string(m.GetClientId()), ClientHost: string(m.GetClientHost()),
		Rack: string(m.GetRack()), Epoch: m.GetEpoch(), Topics: mapTo(m.GetTopics(), func(b []byte) string { return string(b) }),
		SessionTimeoutMs: m.GetSessionTimeoutMs(), RebalanceMs: m.GetRebalanceMs(),
		Assigned: d.tps(m.GetAssigned()), Target: d.tps(m.GetTarget()), Revoking: d.tps(m.GetRevoking()),
		Metadata: bytesOrNil(m.GetMetadata()), Assignment: bytesOrNil(m.GetAssignment()),
	}
}
