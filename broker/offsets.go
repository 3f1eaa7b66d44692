package broker

import (
	"context"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// ListOffsets answers each query from the local leader of its partition, in the order of the queries.
func (b *Broker) ListOffsets(ctx context.Context, queries []OffsetQuery) []OffsetAnswer {
	ctx, cancel := context.WithTimeout(ctx, unknownTopicWait+replicaWait) // together: many queries do not wait one after another
	defer cancel()
	out := make([]OffsetAnswer, len(queries))
	for i, q := range queries {
		out[i] = b.listOffset(ctx, q)
	}
	return out
}

func (b *Broker) listOffset(ctx context.Context, q OffsetQuery) OffsetAnswer {
	t, err := b.dataTopic(ctx, q.Topic)
	if err != nil {
		return refusedOffset(AsRefusal(err))
	}
	r, refusal := b.leaderSoon(ctx, t, q.Partition)
	if refusal != nil {
		return refusedOffset(refusal)
	}
	req := partition.ListRequest{LeaderEpoch: q.LeaderEpoch, Memory: b.options.Memory}
	switch {
	case q.Timestamp == LatestTimestamp:
		req.Kind = partition.ListLatest
	case q.Timestamp == EarliestTimestamp:
		req.Kind = partition.ListEarliest
	case q.Timestamp == MaxTimestamp:
		req.Kind = partition.ListMaxTimestamp
	case q.Timestamp >= 0:
		req.Kind, req.TimestampMs = partition.ListTimestamp, q.Timestamp
	default:
		return refusedOffset(cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("timestamp %d has no meaning", q.Timestamp)))
	}
	res, err := r.ListOffset(req)
	if err != nil {
		return refusedOffset(cluster.Refuse(cluster.CodeStorage, err.Error()))
	}
	return OffsetAnswer{Code: res.Code, Offset: res.Offset, Timestamp: res.TimestampMs, LeaderEpoch: res.LeaderEpoch, Leader: b.id}
}

func refusedOffset(e *cluster.Error) OffsetAnswer {
	return OffsetAnswer{
		Code: e.Code, Message: e.Message, Offset: -1, Timestamp: -1,
		Leader: e.Leader, LeaderEpoch: record.LeaderEpoch(e.LeaderEpoch),
	}
}
