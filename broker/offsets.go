package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// listTime bounds how long the queries of one request search in logs together: a timestamp is looked for in files.
const listTime = 10 * time.Second

// ListOffsets answers each query from the local leader of its partition, in the order of the queries. When ctx has ended, or the time for them has passed, the rest is refused
// with CodeTimedOut: who asks again for those gets on.
func (b *Broker) ListOffsets(ctx context.Context, queries []OffsetQuery) []OffsetAnswer {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	patience, cancel := context.WithTimeout(ctx, unknownTopicWait+replicaWait) // together: many queries do not wait one after another
	defer cancel()
	out := make([]OffsetAnswer, len(queries))
	for i, q := range queries {
		if ctx.Err() != nil {
			out[i] = refusedOffset(lateOffset())
			continue
		}
		out[i] = b.listOffset(ctx, patience, q)
	}
	return out
}

func lateOffset() *cluster.Error {
	return cluster.Refuse(cluster.CodeTimedOut, "the time for this request has passed before the offset was found; ask again")
}

// listOffset answers one query: patience bounds how long it waits for its topic and leader, ctx how long it searches.
func (b *Broker) listOffset(ctx, patience context.Context, q OffsetQuery) OffsetAnswer {
	t, err := b.dataTopic(patience, q.Topic)
	if err != nil {
		return refusedOffset(AsRefusal(err))
	}
	r, refusal := b.leaderSoon(patience, t, q.Partition)
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
	res, err := r.ListOffset(ctx, req)
	if ctx.Err() != nil && res.Code == cluster.CodeTimedOut {
		return refusedOffset(lateOffset())
	}
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
