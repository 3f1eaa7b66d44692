package broker

import (
	"context"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/controller"
)

// coordinatorLog is the durable log of group records: the metadata log.
type coordinatorLog struct{ c *controller.Controller }

// Append implements consumergroup.CoordinatorLog.
func (l coordinatorLog) Append(ctx context.Context, cmd cluster.GroupAppend) (cluster.Result, error) {
	return l.c.ProposeGroups(ctx, cmd)
}

// Load implements consumergroup.CoordinatorLog.
func (l coordinatorLog) Load(ctx context.Context, shard cluster.ShardID, minIndex uint64) (consumergroup.ShardContent, error) {
	if err := l.c.WaitApplied(ctx, minIndex); err != nil {
		return consumergroup.ShardContent{}, err
	}
	view := l.c.Groups()
	at := view.Shard(shard)
	return consumergroup.ShardContent{Epoch: at.Epoch, NextSequence: at.NextSequence, Records: view.Records(shard)}, nil
}
