package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// sortKeys orders partitions by topic name, id and number.
func sortKeys(img *cluster.Image, tps []cluster.TopicPartition) {
	name := func(tp cluster.TopicPartition) string {
		if t, ok := img.Topic(tp.Topic); ok {
			return t.Name
		}
		return ""
	}
	slices.SortFunc(tps, func(a, b cluster.TopicPartition) int {
		return cmp.Or(cmp.Compare(name(a), name(b)), a.Compare(b))
	})
}

// ResetOffsets moves the committed offsets of a group without members.
func (g *groupService) ResetOffsets(ctx context.Context, req *moldauv1.ResetOffsetsRequest) (*moldauv1.ResetOffsetsResponse, error) {
	return atCoordinator(ctx, g.Server, req.GetGroup(), req, moldauv1.GroupServiceClient.ResetOffsets, func() (*moldauv1.ResetOffsetsResponse, error) {
		return g.resetHere(ctx, req)
	})
}

// move is one partition of a reset.
type move struct {
	named
	found    bool // an offset is committed
	previous int64
	target   int64
}

func (g *groupService) resetHere(ctx context.Context, req *moldauv1.ResetOffsetsRequest) (*moldauv1.ResetOffsetsResponse, error) {
	if req.GetTo() == nil {
		return nil, cluster.Refuse(cluster.CodeInvalidRequest, "nothing says where the offsets shall go: earliest, latest, offset, timestamp_ms or shift")
	}
	moves, err := g.moves(ctx, req)
	if err != nil {
		return nil, err
	}
	g.aim(ctx, req, moves)
	reset := consumergroup.ResetRequest{Group: req.GetGroup()}
	var at []int
	for i := range moves {
		if moves[i].err == nil {
			at = append(at, i)
			reset.Offsets = append(reset.Offsets, consumergroup.CommitOffset{Partition: moves[i].key(), Offset: moves[i].target, LeaderEpoch: -1})
		}
	}
	if !req.GetValidateOnly() && len(at) > 0 {
		results, err := g.groups.ResetOffsets(ctx, reset)
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			if k < len(results) && results[k] != cluster.CodeNone {
				moves[i].err = cluster.Refuse(results[k], "")
			}
		}
	}
	resp := &moldauv1.ResetOffsetsResponse{}
	for i := range moves {
		m := &moves[i]
		topic, id := m.names()
		r := &moldauv1.OffsetReset{Topic: topic, TopicId: id, Partition: m.partition, PreviousOffset: m.previous, CommittedOffset: m.target}
		if m.err != nil {
			r.CommittedOffset, r.Error = m.previous, g.refusal(ctx, m.err)
		}
		resp.Resets = append(resp.Resets, r)
	}
	return resp, nil
}

// moves lists the partitions of a reset with their present offsets.
func (g *groupService) moves(ctx context.Context, req *moldauv1.ResetOffsetsRequest) ([]move, error) {
	committed, err := g.groups.FetchOffsets(ctx, consumergroup.FetchOffsetsRequest{Group: req.GetGroup(), Epoch: consumergroup.NoMemberEpoch})
	if err != nil {
		return nil, err
	}
	present := map[cluster.TopicPartition]int64{}
	for _, o := range committed {
		if o.Found {
			present[o.Partition] = int64(o.Committed.Offset)
		}
	}
	var names []named
	if len(req.GetPartitions()) == 0 {
		img := g.broker.Image()
		for _, o := range committed {
			if t, ok := img.Topic(o.Partition.Topic); ok {
				names = append(names, named{ref: broker.TopicRef{ID: t.ID}, topic: t, partition: o.Partition.Partition})
			}
		}
	} else if names, err = g.expand(ctx, req.GetPartitions()); err != nil {
		return nil, err
	}
	moves := make([]move, len(names))
	for i := range names {
		moves[i] = move{named: names[i], previous: -1}
		if names[i].err == nil {
			if at, ok := present[names[i].key()]; ok {
				moves[i].found, moves[i].previous = true, at
			}
		}
	}
	return moves, nil
}

// aim finds the target of each move, within what the log has.
func (g *groupService) aim(ctx context.Context, req *moldauv1.ResetOffsetsRequest, moves []move) {
	first := g.positions(ctx, moves, broker.EarliestTimestamp)
	end := g.positions(ctx, moves, broker.LatestTimestamp)
	var wanted []int64
	if to, ok := req.GetTo().(*moldauv1.ResetOffsetsRequest_TimestampMs); ok {
		wanted = g.positions(ctx, moves, max(to.TimestampMs, 0))
	}
	for i := range moves {
		m := &moves[i]
		if m.err != nil {
			continue
		}
		switch to := req.GetTo().(type) {
		case *moldauv1.ResetOffsetsRequest_Earliest:
			m.target = first[i]
		case *moldauv1.ResetOffsetsRequest_Latest:
			m.target = end[i]
		case *moldauv1.ResetOffsetsRequest_Offset:
			m.target = to.Offset
		case *moldauv1.ResetOffsetsRequest_Shift:
			if !m.found {
				m.err = cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("group %s has no committed offset there to shift", req.GetGroup()))
				continue
			}
			m.target = m.previous + to.Shift
		case *moldauv1.ResetOffsetsRequest_TimestampMs:
			m.target = wanted[i]
			if m.target < 0 {
				m.target = end[i]
			}
		}
		m.target = min(max(m.target, first[i]), end[i])
	}
}

// positions asks the leaders, through the door's own ListOffsets, which forwards. A failure is the move's.
func (g *groupService) positions(ctx context.Context, moves []move, timestamp int64) []int64 {
	out := make([]int64, len(moves))
	req := &moldauv1.ListOffsetsRequest{}
	var at []int
	for i := range moves {
		if moves[i].err != nil {
			continue
		}
		q := &moldauv1.OffsetQuery{TopicId: moves[i].topic.ID.String(), Partition: moves[i].partition}
		switch timestamp {
		case broker.EarliestTimestamp:
			q.Spec = moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST
		case broker.LatestTimestamp:
			q.Spec = moldauv1.OffsetSpec_OFFSET_SPEC_LATEST
		default:
			q.Spec, q.TimestampMs = moldauv1.OffsetSpec_OFFSET_SPEC_TIMESTAMP, timestamp
		}
		at, req.Queries = append(at, i), append(req.Queries, q)
	}
	// The reset itself may have been forwarded here; its questions to the leaders are calls of this broker's own, so they start without a hop.
	l := &logService{Server: g.Server}
	resp, err := l.ListOffsets(withoutHop(ctx), req)
	for k, i := range at {
		switch {
		case err != nil:
			moves[i].err = asPart(err)
		case resp.GetOffsets()[k].GetError() != nil:
			e := resp.GetOffsets()[k].GetError()
			moves[i].err = cluster.Refuse(codeNamed(trimCode(e.GetCode())), e.GetMessage())
		default:
			out[i] = resp.GetOffsets()[k].GetOffset()
		}
	}
	return out
}
