package consumergroup

import (
	"context"
	"log/slog"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/meter"
)

// ShardContent is one shard as the metadata log has it: see coordinator.ShardContent.
type ShardContent = coordinator.ShardContent

// ShardLead names a shard that this broker leads, and in which epoch.
type ShardLead = coordinator.ShardLead

// Topics is a snapshot of the topics. *cluster.Image is one.
type Topics = group.Topics

// CoordinatorLog is the durable log of group records. Today it is the metadata log.
//
// There is no feed of committed batches: only the leading broker of a shard writes to it, so the results of its own appends and a Load
// after every doubt are enough.
type CoordinatorLog interface {
	// Append proposes one command and waits for its result: one item per batch, in order. It proposes once. While it is certain that
	// nothing was proposed (no controller is known) it keeps trying until ctx ends. An error means that the outcome is unknown, except a
	// *cluster.Error with CodeNoController, CodeNotController or CodeOverloaded: those promise that it was not and will not be proposed.
	Append(ctx context.Context, command cluster.GroupAppend) (cluster.Result, error)
	// Load returns the shard's content as this broker has applied it, after it has applied at least the entry minIndex.
	Load(ctx context.Context, shard cluster.ShardID, minIndex uint64) (ShardContent, error)
}

// LagSource asks partition leaders for the end of what consumers can read.
type LagSource interface {
	// HighWatermarks returns the watermarks that could be learnt; partitions without a reachable leader are absent.
	HighWatermarks(ctx context.Context, partitions []cluster.TopicPartition) (map[cluster.TopicPartition]int64, error)
}

// Ports is what the coordinator needs from its surroundings. All but Lag, Meter and Logger are required.
type Ports struct {
	Log CoordinatorLog
	// Topics returns the newest snapshot; called on the loop, so it must be quick.
	Topics func() Topics
	// LeaseValid says that the controller still counts this broker as alive: answers that rest on no fresh commit need it.
	LeaseValid func() bool
	// NewMemberID makes an id for a member that brought none.
	NewMemberID func() string
	// Lag may be nil: then no lag is reported.
	Lag LagSource
	// Meter may be nil: then nothing is exported.
	Meter *meter.Set
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}
