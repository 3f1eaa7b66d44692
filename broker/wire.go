package broker

import (
	"context"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// TopicOrNew finds a topic by name, and creates it when it is not there and the broker is told to create topics that a client first asks for.
func (b *Broker) TopicOrNew(ctx context.Context, name string) (*cluster.Topic, error) {
	return b.dataTopic(ctx, TopicRef{Name: name})
}

// EpochEnd says where a leader epoch ends in the log of a partition that this broker leads: the largest epoch not above the asked one and its exclusive end, both -1
// when there is none. current fences the request unless it is record.NoEpoch. Refusals are *cluster.Error.
func (b *Broker) EpochEnd(ctx context.Context, ref TopicRef, p int32, current, asked record.LeaderEpoch) (cluster.EpochEnd, error) {
	none := cluster.EpochEnd{Epoch: record.NoEpoch, End: -1}
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return none, err
	}
	r, refusal := b.leaderSoon(ctx, t, p)
	if refusal != nil {
		return none, refusal
	}
	res := r.EpochEnd(current, asked)
	if res.Code != cluster.CodeNone {
		return none, cluster.Refuse(res.Code, "")
	}
	return res.EpochEnd, nil
}

// LocalStatus says where this broker's own replicas of the partitions are, without asking anybody; offsets of -1 where it has none.
func (b *Broker) LocalStatus(partitions []cluster.TopicPartition) []PartitionStatus {
	out := make([]PartitionStatus, len(partitions))
	for i, tp := range partitions {
		out[i] = b.localStatus(tp)
	}
	return out
}

// DiskSpace gives the free and the whole space of the data directory's file system in bytes.
func (b *Broker) DiskSpace() (free, total int64, err error) {
	return b.options.FS.DiskFree(b.options.Root)
}

// ProducerStatus is what the leader of a partition remembers of one idempotent producer.
type ProducerStatus = partition.ProducerStatus

// Producers lists the idempotent producers of a partition that this broker leads, in the order of their ids. Refusals are *cluster.Error.
func (b *Broker) Producers(ctx context.Context, ref TopicRef, p int32) ([]ProducerStatus, error) {
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return nil, err
	}
	r, refusal := b.leaderSoon(ctx, t, p)
	if refusal != nil {
		return nil, refusal
	}
	list, code := r.Producers()
	if code != cluster.CodeNone {
		return nil, cluster.Refuse(code, "the partition did not answer")
	}
	return list, nil
}

// SetFeatureLevel finalizes a metadata feature level that every registered broker supports. It never falls.
func (b *Broker) SetFeatureLevel(ctx context.Context, level int32) error {
	_, err := b.propose(ctx, cluster.SetFeatureLevel{Level: level})
	return err
}
