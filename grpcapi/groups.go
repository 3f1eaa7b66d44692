package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// groupService implements moldau.v1.GroupService.
type groupService struct {
	moldauv1.UnimplementedGroupServiceServer
	*Server
}

// atCoordinator makes a group call here or at the group's coordinator.
func atCoordinator[Req, Resp any](ctx context.Context, s *Server, group string, req Req,
	method func(moldauv1.GroupServiceClient, context.Context, Req, ...grpc.CallOption) (Resp, error), here func() (Resp, error),
) (Resp, error) {
	var zero Resp
	id, err := s.broker.Coordinator(group)
	if err != nil {
		return zero, err
	}
	if s.elsewhere(ctx, id) {
		return ask(ctx, s, id, moldauv1.NewGroupServiceClient, method, req)
	}
	resp, err := here()
	return resp, s.withCoordinator(group, err)
}

// withCoordinator adds to a NOT_COORDINATOR refusal who coordinates, as far as this broker knows.
func (s *Server) withCoordinator(group string, err error) error {
	var e *cluster.Error
	if !errors.As(err, &e) || e.Code != cluster.CodeNotCoordinator {
		return err
	}
	named := *e
	named.LeaderEpoch = -1
	if id, cerr := s.broker.Coordinator(group); cerr == nil {
		named.Leader = id
	}
	if named.Leader == s.broker.ID() { // about to take over, or just moved: nobody better to ask yet
		return cluster.Refuse(cluster.CodeCoordinatorLoading, e.Error())
	}
	return &named
}

// CommitOffsets stores positions.
func (g *groupService) CommitOffsets(ctx context.Context, req *moldauv1.CommitOffsetsRequest) (*moldauv1.CommitOffsetsResponse, error) {
	return atCoordinator(ctx, g.Server, req.GetGroup(), req, moldauv1.GroupServiceClient.CommitOffsets, func() (*moldauv1.CommitOffsetsResponse, error) {
		return g.commitHere(ctx, req)
	})
}

func (g *groupService) commitHere(ctx context.Context, req *moldauv1.CommitOffsetsRequest) (*moldauv1.CommitOffsetsResponse, error) {
	if n := len(req.GetOffsets()); n > maxPartitionsNamed {
		return nil, tooMany("offsets", n, maxPartitionsNamed)
	}
	commit := consumergroup.CommitRequest{Group: req.GetGroup(), MemberID: req.GetMemberId(), InstanceID: req.GetInstanceId(), Epoch: req.GetMemberEpoch(),
		Sequence: req.GetSequence()}
	switch {
	case commit.Sequence < 0:
		return nil, cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("commit %d: numbers of commits begin at 1", commit.Sequence))
	case commit.MemberID == "" && commit.Sequence > 0:
		return nil, cluster.Refuse(cluster.CodeInvalidRequest, "a commit with a number must name its member")
	case commit.MemberID == "":
		commit.Epoch = consumergroup.NoMemberEpoch
	}
	names := make([]named, len(req.GetOffsets()))
	var at []int
	for i, o := range req.GetOffsets() {
		names[i] = g.resolve(ctx, o.GetTopic(), o.GetTopicId(), o.GetPartition())
		if names[i].err == nil && o.GetCommittedOffset() < 0 {
			names[i].err = cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("offset %d cannot be committed", o.GetCommittedOffset()))
		}
		if names[i].err != nil {
			continue
		}
		epoch := int32(-1)
		if o.LeaderEpoch != nil {
			epoch = o.GetLeaderEpoch()
		}
		at = append(at, i)
		commit.Offsets = append(commit.Offsets, consumergroup.CommitOffset{
			Partition: names[i].key(), Offset: o.GetCommittedOffset(), LeaderEpoch: epoch, Metadata: o.GetMetadata(),
		})
	}
	// A commit of nothing still says whether the member may commit.
	results, err := g.groups.Commit(ctx, commit)
	if err != nil {
		return nil, err
	}
	fillCodes(names, at, results)
	return &moldauv1.CommitOffsetsResponse{Results: g.results(ctx, names)}, nil
}

// fillCodes puts the codes of the partitions that were asked about into all partitions of a request.
func fillCodes(names []named, at []int, results []cluster.Code) {
	for k, i := range at {
		if k < len(results) && results[k] != cluster.CodeNone {
			names[i].err = cluster.Refuse(results[k], "")
		}
	}
}

func (g *groupService) results(ctx context.Context, names []named) []*moldauv1.PartitionResult {
	out := make([]*moldauv1.PartitionResult, len(names))
	for i := range names {
		out[i] = g.result(ctx, &names[i], names[i].err)
	}
	return out
}

// FetchOffsets reads committed positions.
func (g *groupService) FetchOffsets(ctx context.Context, req *moldauv1.FetchOffsetsRequest) (*moldauv1.FetchOffsetsResponse, error) {
	return atCoordinator(ctx, g.Server, req.GetGroup(), req, moldauv1.GroupServiceClient.FetchOffsets, func() (*moldauv1.FetchOffsetsResponse, error) {
		return g.fetchHere(ctx, req)
	})
}

func (g *groupService) fetchHere(ctx context.Context, req *moldauv1.FetchOffsetsRequest) (*moldauv1.FetchOffsetsResponse, error) {
	if n := len(req.GetPartitions()); n > maxPartitionsNamed {
		return nil, tooMany("partitions", n, maxPartitionsNamed)
	}
	q := consumergroup.FetchOffsetsRequest{Group: req.GetGroup(), MemberID: req.GetMemberId(), Epoch: req.GetMemberEpoch()}
	if q.MemberID == "" {
		q.Epoch = consumergroup.NoMemberEpoch
	}
	if len(req.GetPartitions()) == 0 {
		all, err := g.groups.FetchOffsets(ctx, q)
		if err != nil {
			return nil, err
		}
		resp := &moldauv1.FetchOffsetsResponse{}
		img := g.broker.Image()
		for i := range all {
			resp.Offsets = append(resp.Offsets, committedOffset(wirePartition(img, all[i].Partition), &all[i]))
		}
		return resp, nil
	}
	out := make([]*moldauv1.CommittedOffset, len(req.GetPartitions()))
	var at []int
	for i, tp := range req.GetPartitions() {
		n := g.resolve(ctx, tp.GetTopic(), tp.GetTopicId(), tp.GetPartition())
		topic, id := n.names()
		out[i] = &moldauv1.CommittedOffset{Topic: topic, TopicId: id, Partition: tp.GetPartition(), CommittedOffset: -1, LeaderEpoch: -1}
		if n.err != nil {
			out[i].Error = g.refusal(ctx, n.err)
			continue
		}
		at, q.Partitions = append(at, i), append(q.Partitions, n.key())
	}
	if len(at) == 0 {
		return &moldauv1.FetchOffsetsResponse{Offsets: out}, nil
	}
	found, err := g.groups.FetchOffsets(ctx, q)
	if err != nil {
		return nil, err
	}
	for k, i := range at {
		if k < len(found) {
			out[i] = committedOffset(&moldauv1.TopicPartition{Topic: out[i].GetTopic(), TopicId: out[i].GetTopicId(), Partition: out[i].GetPartition()}, &found[k])
		}
	}
	return &moldauv1.FetchOffsetsResponse{Offsets: out}, nil
}

func committedOffset(tp *moldauv1.TopicPartition, o *consumergroup.FetchedOffset) *moldauv1.CommittedOffset {
	out := &moldauv1.CommittedOffset{Topic: tp.GetTopic(), TopicId: tp.GetTopicId(), Partition: tp.GetPartition(), CommittedOffset: -1, LeaderEpoch: -1}
	if o.Found {
		out.CommittedOffset, out.LeaderEpoch = int64(o.Committed.Offset), int32(o.Committed.LeaderEpoch)
		out.Metadata, out.CommittedMs = o.Committed.Metadata, o.Committed.CommittedMs
	}
	return out
}

// ListGroups asks every coordinator.
func (g *groupService) ListGroups(ctx context.Context, req *moldauv1.ListGroupsRequest) (*moldauv1.ListGroupsResponse, error) {
	resp := &moldauv1.ListGroupsResponse{}
	here, err := g.groups.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range here {
		resp.Groups = append(resp.Groups, &moldauv1.GroupListing{
			Group: l.Group, Type: moldauv1.GroupType(l.Type), State: l.State.String(), Members: int32(l.Members), Coordinator: int32(g.broker.ID()),
		})
	}
	var mu sync.Mutex // guards resp
	var wg sync.WaitGroup
	for _, id := range g.coordinators() {
		if !g.elsewhere(ctx, id) {
			continue
		}
		wg.Go(func() {
			part, err := ask(ctx, g.Server, id, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.ListGroups, &moldauv1.ListGroupsRequest{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				resp.Errors = append(resp.Errors, &moldauv1.BrokerError{Broker: int32(id), Error: g.refusal(ctx, asPart(err))})
				return
			}
			resp.Groups = append(resp.Groups, part.GetGroups()...)
		})
	}
	wg.Wait()
	if states := req.GetStates(); len(states) > 0 {
		resp.Groups = slices.DeleteFunc(resp.Groups, func(l *moldauv1.GroupListing) bool { return !slices.Contains(states, l.GetState()) })
	}
	slices.SortFunc(resp.Groups, func(a, b *moldauv1.GroupListing) int { return cmp.Compare(a.GetGroup(), b.GetGroup()) })
	slices.SortFunc(resp.Errors, func(a, b *moldauv1.BrokerError) int { return cmp.Compare(a.GetBroker(), b.GetBroker()) })
	return resp, nil
}

// coordinators lists the brokers that lead a coordinator shard.
func (s *Server) coordinators() []cluster.BrokerID {
	img := s.broker.Image()
	var ids []cluster.BrokerID
	for shard := range cluster.ShardID(cluster.ShardCount) {
		if id := img.Shard(shard).Leader; id != cluster.NoBroker && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// DeleteGroup removes a group without members.
func (g *groupService) DeleteGroup(ctx context.Context, req *moldauv1.DeleteGroupRequest) (*moldauv1.DeleteGroupResponse, error) {
	return atCoordinator(ctx, g.Server, req.GetGroup(), req, moldauv1.GroupServiceClient.DeleteGroup, func() (*moldauv1.DeleteGroupResponse, error) {
		return &moldauv1.DeleteGroupResponse{}, g.groups.Delete(ctx, req.GetGroup())
	})
}

// DeleteOffsets removes committed offsets.
func (g *groupService) DeleteOffsets(ctx context.Context, req *moldauv1.DeleteOffsetsRequest) (*moldauv1.DeleteOffsetsResponse, error) {
	return atCoordinator(ctx, g.Server, req.GetGroup(), req, moldauv1.GroupServiceClient.DeleteOffsets, func() (*moldauv1.DeleteOffsetsResponse, error) {
		names, err := g.expand(ctx, req.GetPartitions())
		if err != nil {
			return nil, err
		}
		var at []int
		del := consumergroup.DeleteOffsetsRequest{Group: req.GetGroup()}
		for i := range names {
			if names[i].err == nil {
				at, del.Partitions = append(at, i), append(del.Partitions, names[i].key())
			}
		}
		results, err := g.groups.DeleteOffsets(ctx, del)
		if err != nil {
			return nil, err
		}
		fillCodes(names, at, results)
		return &moldauv1.DeleteOffsetsResponse{Results: g.results(ctx, names)}, nil
	})
}

// expand resolves partitions; a partition of -1 stands for all of its topic.
func (s *Server) expand(ctx context.Context, tps []*moldauv1.TopicPartition) ([]named, error) {
	var out []named
	for _, tp := range tps {
		if tp.GetPartition() != -1 {
			out = append(out, s.resolve(ctx, tp.GetTopic(), tp.GetTopicId(), tp.GetPartition()))
		} else {
			first := s.resolve(ctx, tp.GetTopic(), tp.GetTopicId(), 0)
			out = append(out, first)
			for p := int32(1); first.topic != nil && p < first.topic.Partitions; p++ {
				out = append(out, named{ref: first.ref, topic: first.topic, partition: p})
			}
		}
		if len(out) > maxPartitionsNamed {
			return nil, tooMany("partitions", len(out), maxPartitionsNamed)
		}
	}
	return out, nil
}
