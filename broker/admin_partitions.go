package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/record"
)

// DeleteRecords makes before the first readable offset of a partition; -1 stands for the high watermark. The new start is committed in the metadata
// before the answer, so that no later leader goes back, and the leader's log has it, unless it takes longer than replicaWait. Any broker may be asked.
func (b *Broker) DeleteRecords(ctx context.Context, ref TopicRef, p int32, before record.Offset) (record.Offset, error) {
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return -1, err
	}
	tp := cluster.TopicPartition{Topic: t.ID, Partition: p}
	r, refusal := b.leaderSoon(ctx, t, p)
	if refusal != nil {
		return b.deleteRecordsElsewhere(ctx, tp, before, refusal)
	}
	st := r.Status()
	if before == -1 {
		before = st.HighWatermark
	}
	if before < 0 || before > st.HighWatermark {
		return -1, cluster.Refuse(cluster.CodeOffsetOutOfRange, fmt.Sprintf("offset %d; %s-%d can be trimmed up to its high watermark %d", before, t.Name, p, st.HighWatermark))
	}
	if before <= st.LogStart {
		return st.LogStart, nil
	}
	if _, err := b.propose(ctx, cluster.SetLogStart{Partition: tp, LeaderEpoch: st.LeaderEpoch, LogStart: before}); err != nil {
		return -1, err
	}
	b.soon(ctx, func() bool { return r.Status().LogStart >= before })
	return before, nil
}

// Reassign moves a partition to other replicas, or cancels a move when replicas is empty.
func (b *Broker) Reassign(ctx context.Context, ref TopicRef, p int32, replicas []cluster.BrokerID) error {
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return err
	}
	if len(replicas) > 0 {
		if err := b.checkAssignment([][]cluster.BrokerID{replicas}); err != nil {
			return err
		}
	}
	_, err = b.propose(ctx, cluster.Reassign{Partition: cluster.TopicPartition{Topic: t.ID, Partition: p}, Replicas: replicas})
	return err
}

// ElectLeaders gives partitions their preferred leader where that is in the ISR. With unclean, partitions without a leader take the live replica that
// has most, which can lose acknowledged records. nil stands for all partitions. Answers come in the order of the partitions.
func (b *Broker) ElectLeaders(ctx context.Context, partitions []cluster.TopicPartition, unclean bool) ([]cluster.ItemResult, error) {
	img := b.Image()
	if partitions == nil {
		for tp := range img.AllPartitions() {
			partitions = append(partitions, tp)
		}
	}
	out := make([]cluster.ItemResult, len(partitions))
	var cmd cluster.ElectLeaders
	var at []int
	copies := map[replica]PartitionStatus{}
	if unclean {
		copies = b.copies(ctx, img, partitions)
	}
	for i, tp := range partitions {
		change, code := electable(img, tp, unclean, copies)
		out[i].Code = code
		if code == cluster.CodeNone {
			cmd.Changes, at = append(cmd.Changes, change), append(at, i)
		}
	}
	if len(at) == 0 {
		return out, nil
	}
	res, err := b.propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	for k, i := range at {
		if k < len(res.Items) {
			out[i] = res.Items[k]
		}
	}
	return out, nil
}

func electable(img *cluster.Image, tp cluster.TopicPartition, unclean bool, copies map[replica]PartitionStatus) (cluster.PartitionChange, cluster.Code) {
	p, ok := img.Partition(tp)
	if !ok {
		return cluster.PartitionChange{}, cluster.CodeUnknownTopic
	}
	eligible := func(id cluster.BrokerID) bool { return eligible(img, id) }
	change := cluster.PartitionChange{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: p.Replicas[0]}
	switch {
	case unclean && p.Leader == cluster.NoBroker:
		change.Leader, change.Unclean = placement.Forced(p, eligible, func(id cluster.BrokerID) (placement.Copy, bool) {
			s, ok := copies[replica{tp, id}]
			return placement.Copy{Works: works(s), LastEpoch: s.LastEpoch, LogEnd: s.LogEnd}, ok
		})
		if change.Leader == cluster.NoBroker {
			return change, cluster.CodeNoEligibleLeader
		}
		return change, cluster.CodeNone
	case unclean || p.Leader == p.Replicas[0]:
		return change, cluster.CodeElectionNotNeeded
	}
	if _, ok := placement.Preferred(p, eligible); !ok {
		return change, cluster.CodeNoEligibleLeader
	}
	return change, cluster.CodeNone
}

// UnregisterBroker removes a broker that will not come back. It is refused while the broker holds replicas.
func (b *Broker) UnregisterBroker(ctx context.Context, id cluster.BrokerID) error {
	_, err := b.propose(ctx, cluster.UnregisterBroker{Broker: id})
	return err
}

// PartitionStatus asks the leaders of the partitions where they are, one batched request per broker. A partition without a reachable leader is answered by the
// local replica if there is one, and otherwise with offsets of -1.
func (b *Broker) PartitionStatus(ctx context.Context, partitions []cluster.TopicPartition) []PartitionStatus {
	img := b.Image()
	out := make([]PartitionStatus, len(partitions))
	byLeader := make(map[cluster.BrokerID][]int)
	for i, tp := range partitions {
		out[i] = b.localStatus(tp)
		if p, ok := img.Partition(tp); ok && p.Leader != cluster.NoBroker && p.Leader != b.id {
			byLeader[p.Leader] = append(byLeader[p.Leader], i)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	b.statusElsewhere(ctx, byLeader, partitions, out)
	return out
}

// statusTimeout bounds the questions to other brokers that one answer may wait for.
const statusTimeout = 2 * time.Second

func (b *Broker) localStatus(tp cluster.TopicPartition) PartitionStatus {
	r, ok := b.partitions.Get(tp)
	if !ok {
		return PartitionStatus{Partition: tp, LogStart: -1, LogEnd: -1, LastEpoch: record.NoEpoch, Flushed: -1, HighWatermark: -1}
	}
	st := r.Status()
	return PartitionStatus{
		Partition: tp, Leading: st.Leader == b.id, LogStart: st.LogStart, LogEnd: st.LogEnd, LastEpoch: st.LastEpoch, Flushed: st.Flushed,
		HighWatermark: st.HighWatermark, SizeBytes: st.SizeBytes, Offline: st.Reason,
	}
}
