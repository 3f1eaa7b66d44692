package grpcapi

import (
	"context"
	"sync"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// DescribeGroups asks the coordinators, each once.
func (g *groupService) DescribeGroups(ctx context.Context, req *moldauv1.DescribeGroupsRequest) (*moldauv1.DescribeGroupsResponse, error) {
	if n := len(req.GetGroups()); n > maxGroupsPerCall {
		return nil, tooMany("groups", n, maxGroupsPerCall)
	}
	out := make([]*moldauv1.GroupDescription, len(req.GetGroups()))
	there := map[cluster.BrokerID][]int{}
	for i, name := range req.GetGroups() {
		id, err := g.broker.Coordinator(name)
		switch {
		case err != nil:
			out[i] = &moldauv1.GroupDescription{Group: name, Error: g.refusal(ctx, broker.AsRefusal(err))}
		case g.elsewhere(ctx, id):
			there[id] = append(there[id], i)
		default:
			out[i] = g.describeHere(ctx, name)
		}
	}
	var wg sync.WaitGroup
	for id, at := range there {
		wg.Go(func() {
			part := &moldauv1.DescribeGroupsRequest{}
			for _, i := range at {
				part.Groups = append(part.Groups, req.GetGroups()[i])
			}
			resp, err := ask(ctx, g.Server, id, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.DescribeGroups, part)
			for k, i := range at { // the indexes of two coordinators never meet
				if err == nil && k < len(resp.GetGroups()) {
					out[i] = resp.GetGroups()[k]
					continue
				}
				e := cluster.Refuse(cluster.CodeUnknown, "the coordinator's answer is too short")
				if err != nil {
					e = asPart(err)
				}
				out[i] = &moldauv1.GroupDescription{Group: part.GetGroups()[k], Error: g.refusal(ctx, e)}
			}
		})
	}
	wg.Wait()
	return &moldauv1.DescribeGroupsResponse{Groups: out}, nil
}

func (g *groupService) describeHere(ctx context.Context, name string) *moldauv1.GroupDescription {
	d, err := g.groups.Describe(ctx, name)
	if err != nil {
		return &moldauv1.GroupDescription{Group: name, Error: g.refusal(ctx, broker.AsRefusal(g.withCoordinator(name, err)))}
	}
	img := g.broker.Image()
	out := &moldauv1.GroupDescription{
		Group: name, Type: moldauv1.GroupType(d.Type), State: d.State.String(), Epoch: d.Epoch, Assignor: d.Assignor, Coordinator: int32(d.Coordinator),
		Why: d.Why, EmptySinceMs: d.EmptySinceMs,
	}
	owners := map[cluster.TopicPartition]string{}
	for i := range d.Members {
		m := &d.Members[i]
		for _, tp := range m.Assigned {
			owners[tp] = m.ID
		}
		out.Members = append(out.Members, &moldauv1.MemberDescription{
			MemberId: m.ID, InstanceId: m.InstanceID, ClientId: m.ClientID, ClientHost: m.ClientHost, Rack: m.Rack, MemberEpoch: m.Epoch, Topics: m.Topics,
			Assigned: wirePartitions(img, m.Assigned), Target: wirePartitions(img, m.Target), Revoking: wirePartitions(img, m.Revoking),
		})
	}
	out.Offsets = g.groupOffsets(ctx, img, &d, owners)
	return out
}

// groupOffsets tells committed offsets with what the leaders say, and owned partitions without an offset.
func (g *groupService) groupOffsets(ctx context.Context, img *cluster.Image, d *consumergroup.Description, owners map[cluster.TopicPartition]string) []*moldauv1.GroupOffset {
	tps := make([]cluster.TopicPartition, 0, len(d.Offsets)+len(owners))
	committed := map[cluster.TopicPartition]cluster.CommittedOffset{}
	for i := range d.Offsets {
		if o := &d.Offsets[i]; o.Found {
			committed[o.Partition] = o.Committed
			tps = append(tps, o.Partition)
		}
	}
	for tp := range owners {
		if _, ok := committed[tp]; !ok {
			tps = append(tps, tp)
		}
	}
	sortKeys(img, tps)
	var out []*moldauv1.GroupOffset
	for i, st := range g.broker.PartitionStatus(ctx, tps) {
		name := wirePartition(img, tps[i])
		o := &moldauv1.GroupOffset{
			Topic: name.GetTopic(), TopicId: name.GetTopicId(), Partition: name.GetPartition(), CommittedOffset: -1, LogStartOffset: -1, HighWatermark: -1, MemberId: owners[tps[i]],
		}
		if st.Leading {
			o.LogStartOffset, o.HighWatermark = int64(st.LogStart), int64(st.HighWatermark)
		}
		if c, ok := committed[tps[i]]; ok {
			o.CommittedOffset, o.Metadata, o.CommittedMs = int64(c.Offset), c.Metadata, c.CommittedMs
			if st.Leading && c.Offset >= 0 {
				lag := max(o.GetHighWatermark()-o.GetCommittedOffset(), 0)
				o.Lag = &lag
			} else if lag, ok := d.Lag[tps[i]]; ok {
				o.Lag = &lag
			}
		}
		out = append(out, o)
	}
	return out
}
