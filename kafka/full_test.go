package kafka

import (
	"context"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/record"
)

// fullBroker is a fake broker that answers everything: a little, or with a refusal.
type fullBroker struct {
	*fakeBroker
	quorum    broker.Quorum
	producers []broker.ProducerStatus
	level     int32
}

func newFullBroker() *fullBroker {
	f := &fullBroker{fakeBroker: newFakeBroker()}
	f.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		return make([]broker.FetchedPartition, len(req.Partitions))
	}
	return f
}

func (f *fullBroker) Coordinator(string) (cluster.BrokerID, error) { return 1, nil }
func (f *fullBroker) TopicOrNew(ctx context.Context, name string) (*cluster.Topic, error) {
	return f.Topic(ctx, broker.TopicRef{Name: name})
}
func (f *fullBroker) Produce(req broker.ProduceRequest, done func(broker.ProduceResult)) {
	done(broker.ProduceResult{Code: cluster.CodeNotLeader, Leader: 1, BaseOffset: -1})
}
func (f *fullBroker) ListOffsets(_ context.Context, queries []broker.OffsetQuery) []broker.OffsetAnswer {
	return make([]broker.OffsetAnswer, len(queries))
}
func (f *fullBroker) EpochEnd(context.Context, broker.TopicRef, int32, record.LeaderEpoch, record.LeaderEpoch) (cluster.EpochEnd, error) {
	return cluster.EpochEnd{Epoch: 3, End: 7}, nil
}
func (f *fullBroker) InitProducerID(context.Context) (record.ProducerID, record.ProducerEpoch, error) {
	return 5, 0, nil
}
func (f *fullBroker) CreateTopic(_ context.Context, spec broker.TopicSpec) (broker.CreatedTopic, error) {
	return broker.CreatedTopic{Topic: cluster.Topic{Name: spec.Name, Partitions: 1, ReplicationFactor: 1}}, nil
}
func (f *fullBroker) DeleteTopic(context.Context, broker.TopicRef) error { return nil }
func (f *fullBroker) AddPartitions(context.Context, broker.TopicRef, int32, [][]cluster.BrokerID) error {
	return cluster.Refuse(cluster.CodeInvalidPartitions, "fewer")
}
func (f *fullBroker) AlterConfigs(context.Context, cluster.ConfigResource, []cluster.ConfigOp, bool) ([]string, error) {
	return nil, nil
}
func (f *fullBroker) DescribeConfigs(context.Context, cluster.ConfigResource) ([]cluster.EffectiveConfig, error) {
	return f.Image().DescribeBrokerConfig(cluster.NoBroker), nil
}
func (f *fullBroker) DeleteRecords(context.Context, broker.TopicRef, int32, record.Offset) (record.Offset, error) {
	return 4, nil
}
func (f *fullBroker) Reassign(context.Context, broker.TopicRef, int32, []cluster.BrokerID) error {
	return cluster.Refuse(cluster.CodeNoReassignment, "none")
}
func (f *fullBroker) ElectLeaders(_ context.Context, partitions []cluster.TopicPartition, _ bool) ([]cluster.ItemResult, error) {
	return make([]cluster.ItemResult, len(partitions)), nil
}
func (f *fullBroker) PartitionStatus(_ context.Context, partitions []cluster.TopicPartition) []broker.PartitionStatus {
	return make([]broker.PartitionStatus, len(partitions))
}
func (f *fullBroker) LocalStatus(partitions []cluster.TopicPartition) []broker.PartitionStatus {
	return make([]broker.PartitionStatus, len(partitions))
}
func (f *fullBroker) DiskSpace() (free, total int64, err error) { return 10, 100, nil }
func (f *fullBroker) Producers(_ context.Context, ref broker.TopicRef, _ int32) ([]broker.ProducerStatus, error) {
	if _, err := f.Topic(context.Background(), ref); err != nil {
		return nil, err
	}
	return f.producers, nil
}
func (f *fullBroker) Quorum(context.Context) broker.Quorum { return f.quorum }
func (f *fullBroker) SetFeatureLevel(_ context.Context, level int32) error {
	f.level = level
	return nil
}

// fakeGroups answers everything a little.
type fakeGroups struct{}

func (fakeGroups) JoinGroup(context.Context, consumergroup.JoinRequest) (consumergroup.JoinResponse, error) {
	return consumergroup.JoinResponse{Generation: 1, MemberID: "m", Leader: "m", ProtocolType: "consumer", Protocol: "range",
		Members: []consumergroup.JoinedMember{{MemberID: "m", Metadata: []byte{1}}}}, nil
}
func (fakeGroups) SyncGroup(context.Context, consumergroup.SyncRequest) (consumergroup.SyncResponse, error) {
	return consumergroup.SyncResponse{Assignment: []byte{1}}, nil
}
func (fakeGroups) ClassicHeartbeat(context.Context, consumergroup.ClassicHeartbeatRequest) error {
	return cluster.Refuse(cluster.CodeRebalanceInProgress, "join again")
}
func (fakeGroups) LeaveGroup(_ context.Context, r consumergroup.LeaveRequest) ([]cluster.Code, error) {
	return make([]cluster.Code, len(r.Members)), nil
}
func (fakeGroups) Describe(context.Context, string) (consumergroup.Description, error) {
	return consumergroup.Description{}, cluster.Refuse(cluster.CodeUnknownGroup, "none")
}
func (fakeGroups) List(context.Context) ([]consumergroup.Listing, error) {
	return []consumergroup.Listing{{Group: "g", ProtocolType: "consumer"}}, nil
}
func (fakeGroups) Commit(_ context.Context, r consumergroup.CommitRequest) ([]cluster.Code, error) {
	return make([]cluster.Code, len(r.Offsets)), nil
}
func (fakeGroups) FetchOffsets(_ context.Context, r consumergroup.FetchOffsetsRequest) ([]consumergroup.FetchedOffset, error) {
	return make([]consumergroup.FetchedOffset, len(r.Partitions)), nil
}
func (fakeGroups) DeleteOffsets(_ context.Context, r consumergroup.DeleteOffsetsRequest) ([]cluster.Code, error) {
	return make([]cluster.Code, len(r.Partitions)), nil
}
func (fakeGroups) Delete(context.Context, string) error { return nil }

// fixedNow is a wall clock that stands still.
func fixedNow() time.Time { return time.UnixMilli(1_000_000) }
