package consumergroup

import (
	"context"
	"errors"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// Coordinator is the group coordinator of one broker. All methods are safe on any goroutine.
type Coordinator struct {
	config Config
	ports  Ports
}

// errPorts reports a port that Open was not given.
var errPorts = errors.New("consumergroup: Log, Topics, LeaseValid and NewMemberID are required")

// Open starts a coordinator that leads no shard yet: it refuses every request until ShardsChanged.
func Open(config Config, ports Ports) (*Coordinator, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.Log == nil || ports.Topics == nil || ports.LeaseValid == nil || ports.NewMemberID == nil {
		return nil, errPorts
	}
	return &Coordinator{config: config, ports: ports}, nil
}

// ShardsChanged tells which shards this broker leads now, all of them, and in which epochs.
func (c *Coordinator) ShardsChanged(led []ShardLead) {}

// TopicsChanged tells that Ports.Topics has something new: topics were created, grew or were deleted.
func (c *Coordinator) TopicsChanged() {}

// Close stops the coordinator and waits for its goroutines. Requests that wait are refused with CodeShuttingDown.
func (c *Coordinator) Close() {}

// Watch returns a channel that gets a value when a heartbeat of the member would tell it something new, or when this broker stops
// coordinating the group. One value may stand for several changes. stop must be called.
func (c *Coordinator) Watch(group, member string) (wake <-chan struct{}, stop func()) {
	return make(chan struct{}, 1), func() {}
}

// Describe returns everything that is known of a group; CodeUnknownGroup when there is none.
func (c *Coordinator) Describe(ctx context.Context, name string) (Description, error) {
	reply, err := c.do(ctx, name, group.Describe{Group: name})
	if err != nil {
		return Description{}, err
	}
	return Description{Description: *reply.Description, Coordinator: c.config.Broker}, nil
}

// List returns the groups of the shards that this broker leads, by name.
func (c *Coordinator) List(ctx context.Context) ([]Listing, error) { return nil, ctx.Err() }

// Lags returns members and lag of the groups that this broker coordinates, by name, for metrics. The watermarks are at most LagInterval old.
func (c *Coordinator) Lags(ctx context.Context) ([]GroupLag, error) { return nil, ctx.Err() }

// do has one group handle one input and waits for the committed answer.
func (c *Coordinator) do(ctx context.Context, name string, input group.Input) (group.Reply, error) {
	return group.Reply{}, cluster.Refuse(cluster.CodeNotCoordinator, "this broker does not coordinate group "+name)
}
