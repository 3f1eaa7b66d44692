package grpcapi

import (
	"context"
	"io"

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
	Ready() (bool, string)
	Controller() (cluster.BrokerID, bool)
	Health(ctx context.Context) broker.Health
	Topic(ctx context.Context, ref broker.TopicRef) (*cluster.Topic, error)

	Produce(req broker.ProduceRequest, done func(broker.ProduceResult))
	Fetch(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition
	CountFetched(topic cluster.TopicID, bytes int)
	ListOffsets(ctx context.Context, queries []broker.OffsetQuery) []broker.OffsetAnswer
	InitProducerID(ctx context.Context) (record.ProducerID, record.ProducerEpoch, error)

	CreateTopic(ctx context.Context, spec broker.TopicSpec) (broker.CreatedTopic, error)
	DeleteTopic(ctx context.Context, ref broker.TopicRef) error
	AddPartitions(ctx context.Context, ref broker.TopicRef, total int32, assignment [][]cluster.BrokerID) error
	AlterConfigs(ctx context.Context, res cluster.ConfigResource, ops []cluster.ConfigOp, validateOnly bool) ([]string, error)
	DescribeConfigs(ctx context.Context, res cluster.ConfigResource) ([]cluster.EffectiveConfig, error)
	DeleteRecords(ctx context.Context, ref broker.TopicRef, partition int32, before record.Offset) (record.Offset, error)
	Reassign(ctx context.Context, ref broker.TopicRef, partition int32, replicas []cluster.BrokerID) error
	ElectLeaders(ctx context.Context, partitions []cluster.TopicPartition, unclean bool) ([]cluster.ItemResult, error)
	UnregisterBroker(ctx context.Context, id cluster.BrokerID) error
	PartitionStatus(ctx context.Context, partitions []cluster.TopicPartition) []broker.PartitionStatus
	Coordinator(group string) (cluster.BrokerID, error)
}

// Backuper is a Backend that can back its metadata up.
type Backuper interface {
	Backup(ctx context.Context, w io.Writer) error
}

// Groups is the local group coordinator. *consumergroup.Coordinator is one. It refuses groups of other brokers with CodeNotCoordinator.
type Groups interface {
	Heartbeat(ctx context.Context, r consumergroup.HeartbeatRequest) (consumergroup.HeartbeatResponse, error)
	Watch(group, member string) (wake <-chan struct{}, stop func())
	Commit(ctx context.Context, r consumergroup.CommitRequest) ([]cluster.Code, error)
	FetchOffsets(ctx context.Context, r consumergroup.FetchOffsetsRequest) ([]consumergroup.FetchedOffset, error)
	ResetOffsets(ctx context.Context, r consumergroup.ResetRequest) ([]cluster.Code, error)
	DeleteOffsets(ctx context.Context, r consumergroup.DeleteOffsetsRequest) ([]cluster.Code, error)
	Delete(ctx context.Context, group string) error
	Describe(ctx context.Context, group string) (consumergroup.Description, error)
	List(ctx context.Context) ([]consumergroup.Listing, error)
}
