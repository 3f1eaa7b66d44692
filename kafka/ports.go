package kafka

import (
	"context"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/record"
)

// Broker is what the door calls. *broker.Broker is one.
type Broker interface {
	Backend
	Groups() *consumergroup.Coordinator
}

// Backend is Broker without its groups, so that tests can bring both alone. Errors are *cluster.Error.
type Backend interface {
	ID() cluster.BrokerID
	Image() *cluster.Image
	Controller() (cluster.BrokerID, bool)
	Coordinator(group string) (cluster.BrokerID, error)
	Topic(ctx context.Context, ref broker.TopicRef) (*cluster.Topic, error)
	TopicOrNew(ctx context.Context, name string) (*cluster.Topic, error)

	Produce(req broker.ProduceRequest, done func(broker.ProduceResult))
	Fetch(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition
	CountFetched(topic cluster.TopicID, bytes int)
	ListOffsets(ctx context.Context, queries []broker.OffsetQuery) []broker.OffsetAnswer
	EpochEnd(ctx context.Context, ref broker.TopicRef, partition int32, current, asked record.LeaderEpoch) (cluster.EpochEnd, error)
	InitProducerID(ctx context.Context) (record.ProducerID, record.ProducerEpoch, error)

	CreateTopic(ctx context.Context, spec broker.TopicSpec) (broker.CreatedTopic, error)
	DeleteTopic(ctx context.Context, ref broker.TopicRef) error
	AddPartitions(ctx context.Context, ref broker.TopicRef, total int32, assignment [][]cluster.BrokerID) error
	AlterConfigs(ctx context.Context, res cluster.ConfigResource, ops []cluster.ConfigOp, validateOnly bool) ([]string, error)
	DescribeConfigs(ctx context.Context, res cluster.ConfigResource) ([]cluster.EffectiveConfig, error)
	DeleteRecords(ctx context.Context, ref broker.TopicRef, partition int32, before record.Offset) (record.Offset, error)
	Reassign(ctx context.Context, ref broker.TopicRef, partition int32, replicas []cluster.BrokerID) error
	ElectLeaders(ctx context.Context, partitions []cluster.TopicPartition, unclean bool) ([]cluster.ItemResult, error)
	PartitionStatus(ctx context.Context, partitions []cluster.TopicPartition) []broker.PartitionStatus
	LocalStatus(partitions []cluster.TopicPartition) []broker.PartitionStatus
	DiskSpace() (free, total int64, err error)
	Producers(ctx context.Context, ref broker.TopicRef, partition int32) ([]broker.ProducerStatus, error)
	Quorum(ctx context.Context) broker.Quorum
	SetFeatureLevel(ctx context.Context, level int32) error
}

// Groups is the group coordinator of this broker. *consumergroup.Coordinator is one. Errors are *cluster.Error.
type Groups interface {
	JoinGroup(ctx context.Context, r consumergroup.JoinRequest) (consumergroup.JoinResponse, error)
	SyncGroup(ctx context.Context, r consumergroup.SyncRequest) (consumergroup.SyncResponse, error)
	ClassicHeartbeat(ctx context.Context, r consumergroup.ClassicHeartbeatRequest) error
	LeaveGroup(ctx context.Context, r consumergroup.LeaveRequest) ([]cluster.Code, error)
	Describe(ctx context.Context, name string) (consumergroup.Description, error)
	List(ctx context.Context) ([]consumergroup.Listing, error)
	Commit(ctx context.Context, r consumergroup.CommitRequest) ([]cluster.Code, error)
	FetchOffsets(ctx context.Context, r consumergroup.FetchOffsetsRequest) ([]consumergroup.FetchedOffset, error)
	DeleteOffsets(ctx context.Context, r consumergroup.DeleteOffsetsRequest) ([]cluster.Code, error)
	Delete(ctx context.Context, name string) error
}
