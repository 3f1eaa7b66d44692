package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// ListReassignments lists what is on the move, by topic name and partition.
func (a *adminService) ListReassignments(context.Context, *moldauv1.ListReassignmentsRequest) (*moldauv1.ListReassignmentsResponse, error) {
	resp := &moldauv1.ListReassignmentsResponse{}
	img := a.broker.Image()
	for t := range img.Topics() {
		for n, p := range img.PartitionsOf(t.ID) {
			if len(p.Adding)+len(p.Removing) == 0 {
				continue
			}
			resp.Reassignments = append(resp.Reassignments, &moldauv1.Reassignment{
				Topic: t.Name, TopicId: t.ID.String(), Partition: n, Replicas: brokerIDs(p.Replicas), Adding: brokerIDs(p.Adding), Removing: brokerIDs(p.Removing),
			})
		}
	}
	return resp, nil
}

// Reassign starts, replaces or cancels a move.
func (a *adminService) Reassign(ctx context.Context, req *moldauv1.ReassignRequest) (*moldauv1.ReassignResponse, error) {
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	return &moldauv1.ReassignResponse{}, a.broker.Reassign(ctx, ref, req.GetPartition(), fromBrokerIDs(req.GetReplicas()))
}

// ElectLeaders asks for elections. Asked for all partitions, it leaves out those that needed none.
func (a *adminService) ElectLeaders(ctx context.Context, req *moldauv1.ElectLeadersRequest) (*moldauv1.ElectLeadersResponse, error) {
	all := len(req.GetPartitions()) == 0
	names, err := a.expand(ctx, req.GetPartitions())
	if err != nil {
		return nil, err
	}
	if all {
		img := a.broker.Image()
		for t := range img.Topics() {
			for n := range img.PartitionsOf(t.ID) {
				names = append(names, named{topic: t, partition: n})
			}
		}
	}
	var tps []cluster.TopicPartition
	var at []int
	for i := range names {
		if names[i].err == nil {
			at, tps = append(at, i), append(tps, names[i].key())
		}
	}
	resp := &moldauv1.ElectLeadersResponse{}
	if len(tps) > 0 {
		items, err := a.broker.ElectLeaders(ctx, tps, req.GetUnclean())
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			if k < len(items) && items[k].Code != cluster.CodeNone {
				names[i].err = cluster.Refuse(items[k].Code, "")
			}
		}
	}
	for i := range names {
		if all && names[i].err != nil && names[i].err.Code == cluster.CodeElectionNotNeeded {
			continue
		}
		resp.Results = append(resp.Results, a.result(ctx, &names[i], names[i].err))
	}
	return resp, nil
}

// DescribeCluster tells brokers and controller.
func (a *adminService) DescribeCluster(ctx context.Context, _ *moldauv1.DescribeClusterRequest) (*moldauv1.DescribeClusterResponse, error) {
	img := a.broker.Image()
	resp := &moldauv1.DescribeClusterResponse{Controller: -1, FeatureLevel: img.FeatureLevel(), Broker: int32(a.broker.ID())}
	if !img.ClusterID().IsZero() {
		resp.ClusterId = img.ClusterID().String()
	}
	if id, ok := a.broker.Controller(); ok {
		resp.Controller = int32(id)
	}
	counts := map[cluster.BrokerID]*loads{}
	for _, p := range img.AllPartitions() {
		for _, id := range p.Replicas {
			if counts[id] == nil {
				counts[id] = new(loads)
			}
			counts[id].holds++
			if id == p.Leader {
				counts[id].leads++
			}
		}
	}
	resp.Brokers = a.describeBrokers(ctx, img, counts)
	return resp, nil
}

// loads is how many partitions a broker leads and holds.
type loads struct{ leads, holds int32 }

// describeBrokers lists the brokers of an image; counts may be nil.
func (s *Server) describeBrokers(ctx context.Context, img *cluster.Image, counts map[cluster.BrokerID]*loads) []*moldauv1.BrokerDescription {
	out := make([]*moldauv1.BrokerDescription, 0, img.BrokerCount())
	for b := range img.Brokers() {
		d := &moldauv1.BrokerDescription{
			Broker: int32(b.ID), Endpoint: s.endpointFrom(ctx, b), PeerAddress: b.PeerAddress, Rack: b.Rack, Version: b.Version,
			Fenced: b.Fenced, Draining: b.Draining, BrokerEpoch: int64(b.Epoch),
		}
		for _, l := range b.Listeners {
			d.Listeners = append(d.Listeners, &moldauv1.Listener{Name: l.Name, Host: l.Host, Port: l.Port})
		}
		if n := counts[b.ID]; n != nil {
			d.Leads, d.Holds = n.leads, n.holds
		}
		out = append(out, d)
	}
	return out
}

// ClusterHealth says whether all is well.
func (a *adminService) ClusterHealth(ctx context.Context, _ *moldauv1.ClusterHealthRequest) (*moldauv1.ClusterHealthResponse, error) {
	h := a.broker.Health(ctx)
	resp := &moldauv1.ClusterHealthResponse{
		Healthy: h.Healthy, Reasons: h.Reasons, Controller: int32(h.Controller), Brokers: int32(h.Brokers), Fenced: brokerIDs(h.Fenced),
		Topics: int32(h.Topics), Partitions: int32(h.Partitions), Leaderless: int32(h.Leaderless), UnderReplicated: int32(h.UnderReplicated),
		UnderMinIsr: int32(h.UnderMinISR), Reassigning: int32(h.Reassigning), OfflineLogs: int32(h.OfflineLogs), LostEnds: int32(h.LostEnds),
		Unreached: brokerIDs(h.Unreached),
	}
	if !h.Cluster.IsZero() {
		resp.ClusterId = h.Cluster.String()
	}
	return resp, nil
}

// UnregisterBroker removes a broker for good.
func (a *adminService) UnregisterBroker(ctx context.Context, req *moldauv1.UnregisterBrokerRequest) (*moldauv1.UnregisterBrokerResponse, error) {
	return &moldauv1.UnregisterBrokerResponse{}, a.broker.UnregisterBroker(ctx, cluster.BrokerID(req.GetBroker()))
}

// backupChunk is the size of a piece of a backup in bytes.
const backupChunk = 64 << 10

// Backup streams a backup of the metadata.
func (a *adminService) Backup(_ *moldauv1.BackupRequest, stream grpc.ServerStreamingServer[moldauv1.BackupResponse]) error {
	b, ok := a.broker.(Backuper)
	if !ok {
		return cluster.Refuse(cluster.CodeUnsupportedFeature, "this broker makes no backups")
	}
	w := &chunkWriter{stream: stream}
	if err := b.Backup(stream.Context(), w); err != nil {
		return err
	}
	return w.flush()
}

// chunkWriter sends what is written to it in pieces.
type chunkWriter struct {
	stream grpc.ServerStreamingServer[moldauv1.BackupResponse]
	buf    []byte
}

// Write gathers and sends whole pieces.
func (w *chunkWriter) Write(b []byte) (int, error) {
	w.buf = append(w.buf, b...)
	if len(w.buf) >= backupChunk {
		return len(b), w.flush()
	}
	return len(b), nil
}

func (w *chunkWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	chunk := w.buf
	w.buf = nil // the message holds the old one
	return w.stream.Send(&moldauv1.BackupResponse{Chunk: chunk})
}
