package grpcapi

import (
	"context"
	"sync"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// ListOffsets answers from the leaders: from here what this broker leads, the rest in one call to each other leader.
func (l *logService) ListOffsets(ctx context.Context, req *moldauv1.ListOffsetsRequest) (*moldauv1.ListOffsetsResponse, error) {
	if n := len(req.GetQueries()); n > maxQueries {
		return nil, tooMany("queries", n, maxQueries)
	}
	out := make([]*moldauv1.ListedOffset, len(req.GetQueries()))
	var here []int
	there := map[cluster.BrokerID][]int{}
	for i, q := range req.GetQueries() {
		ref, err := topicRef(q.GetTopic(), q.GetTopicId())
		if err != nil {
			return nil, err
		}
		// A topic that is not there yet is for the local broker, which waits for it, creates it, or refuses.
		if t, ok := l.known(ref); ok {
			if leader := l.leaderOf(cluster.TopicPartition{Topic: t.ID, Partition: q.GetPartition()}); l.elsewhere(ctx, leader) {
				there[leader] = append(there[leader], i)
				continue
			}
		}
		here = append(here, i)
	}
	l.listHere(ctx, req, here, out)
	var wg sync.WaitGroup
	for leader, at := range there {
		wg.Go(func() { l.listThere(ctx, leader, req, at, out) })
	}
	wg.Wait()
	return &moldauv1.ListOffsetsResponse{Offsets: out}, nil
}

// known finds a topic without waiting for it.
func (s *Server) known(ref broker.TopicRef) (*cluster.Topic, bool) {
	if !ref.ID.IsZero() {
		return s.broker.Image().Topic(ref.ID)
	}
	return s.broker.Image().TopicByName(ref.Name)
}

func (l *logService) listHere(ctx context.Context, req *moldauv1.ListOffsetsRequest, at []int, out []*moldauv1.ListedOffset) {
	if len(at) == 0 {
		return
	}
	queries := make([]broker.OffsetQuery, len(at))
	for k, i := range at {
		q := req.GetQueries()[i]
		ref, _ := topicRef(q.GetTopic(), q.GetTopicId()) // checked before
		queries[k] = broker.OffsetQuery{Topic: ref, Partition: q.GetPartition(), Timestamp: timestampOf(q), LeaderEpoch: record.NoEpoch}
		if q.LeaderEpoch != nil {
			queries[k].LeaderEpoch = record.LeaderEpoch(q.GetLeaderEpoch())
		}
	}
	for k, a := range l.broker.ListOffsets(ctx, queries) {
		out[at[k]] = l.listed(ctx, queries[k], &a)
	}
}

func (l *logService) listed(ctx context.Context, q broker.OffsetQuery, a *broker.OffsetAnswer) *moldauv1.ListedOffset {
	n := named{ref: q.Topic, partition: q.Partition}
	n.topic, _ = l.known(q.Topic)
	topic, id := n.names()
	out := &moldauv1.ListedOffset{Topic: topic, TopicId: id, Partition: q.Partition, Offset: int64(a.Offset), TimestampMs: a.Timestamp, LeaderEpoch: int32(a.LeaderEpoch)}
	if a.Code != cluster.CodeNone {
		out.Offset, out.TimestampMs = -1, -1
		out.Error = l.refusal(ctx, &cluster.Error{Code: a.Code, Message: a.Message, Leader: a.Leader, LeaderEpoch: int32(a.LeaderEpoch)})
	}
	return out
}

func (l *logService) listThere(ctx context.Context, leader cluster.BrokerID, req *moldauv1.ListOffsetsRequest, at []int, out []*moldauv1.ListedOffset) {
	part := &moldauv1.ListOffsetsRequest{}
	for _, i := range at {
		part.Queries = append(part.Queries, req.GetQueries()[i])
	}
	resp, err := ask(ctx, l.Server, leader, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.ListOffsets, part)
	for k, i := range at { // the indexes of two leaders never meet
		if err == nil && k < len(resp.GetOffsets()) {
			out[i] = resp.GetOffsets()[k]
			continue
		}
		q := req.GetQueries()[i]
		e := cluster.Refuse(cluster.CodeUnknown, "the leader's answer is too short")
		if err != nil {
			e = asPart(err)
		}
		out[i] = &moldauv1.ListedOffset{Topic: q.GetTopic(), TopicId: q.GetTopicId(), Partition: q.GetPartition(), Offset: -1, TimestampMs: -1, Error: l.refusal(ctx, e)}
	}
}

// timestampOf is the broker's form of a position.
func timestampOf(q *moldauv1.OffsetQuery) int64 {
	switch q.GetSpec() {
	case moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST:
		return broker.EarliestTimestamp
	case moldauv1.OffsetSpec_OFFSET_SPEC_MAX_TIMESTAMP:
		return broker.MaxTimestamp
	case moldauv1.OffsetSpec_OFFSET_SPEC_TIMESTAMP:
		return max(q.GetTimestampMs(), 0)
	case moldauv1.OffsetSpec_OFFSET_SPEC_UNSPECIFIED:
		if q.GetTimestampMs() > 0 {
			return q.GetTimestampMs()
		}
	}
	return broker.LatestTimestamp
}
