package grpcapi

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// joinStream is one Join call: a member on its stream. Its handler's goroutine makes all heartbeats, so that a member never has two under
// way; a second goroutine receives.
type joinStream struct {
	s      *Server
	ctx    context.Context
	stream grpc.BidiStreamingServer[moldauv1.JoinRequest, moldauv1.JoinResponse]
	base   consumergroup.HeartbeatRequest // what every heartbeat of the member carries
	static bool
	// sent is the version last told: a wake that brings nothing newer is not passed on.
	sent uint64
}

// Join handles the stream of a group member.
func (g *groupService) Join(stream grpc.BidiStreamingServer[moldauv1.JoinRequest, moldauv1.JoinResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	j := &joinStream{s: g.Server, ctx: stream.Context(), stream: stream}
	if err := j.route(first); err != nil {
		return err
	}
	beat, err := j.open(first)
	if err != nil {
		return err
	}
	resp, err := j.heartbeat(beat, true)
	if err != nil || first.GetLeave() {
		return err
	}
	j.base.MemberID = resp.MemberID
	wake, stop := g.groups.Watch(j.base.Group, j.base.MemberID)
	defer stop()
	requests := make(chan *moldauv1.JoinRequest)
	ended := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	g.wg.Go(func() { ended <- receiveJoins(stream, requests, done) })
	// What changed between the join and the watch would wake nobody.
	if err := j.poll(); err != nil {
		return err
	}
	for {
		select {
		case req := <-requests:
			if err := j.request(req); err != nil || req.GetLeave() {
				return err
			}
		case <-wake:
			if err := j.poll(); err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil // the membership lasts until its session ends, in case the client comes back
			}
			return err
		case <-g.drain:
			return errStopping()
		}
	}
}

// receiveJoins is the reading goroutine; it ends with the call.
func receiveJoins(stream grpc.BidiStreamingServer[moldauv1.JoinRequest, moldauv1.JoinResponse], requests chan<- *moldauv1.JoinRequest, done <-chan struct{}) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case requests <- req:
		case <-done:
			return nil
		}
	}
}

// route refuses a member whose coordinator is another broker, and names it.
func (j *joinStream) route(req *moldauv1.JoinRequest) error {
	id, err := j.s.broker.Coordinator(req.GetGroup())
	if err != nil {
		return err
	}
	if id != j.s.broker.ID() {
		return &cluster.Error{Code: cluster.CodeNotCoordinator, Message: "another broker coordinates group " + req.GetGroup(), Leader: id, LeaderEpoch: -1}
	}
	return nil
}

// open makes the first heartbeat of the stream.
func (j *joinStream) open(req *moldauv1.JoinRequest) (consumergroup.HeartbeatRequest, error) {
	j.static = req.GetInstanceId() != ""
	j.base = consumergroup.HeartbeatRequest{
		Group: req.GetGroup(), MemberID: req.GetMemberId(), InstanceID: req.GetInstanceId(), Epoch: req.GetMemberEpoch(),
		ClientID: req.GetClientId(), ClientHost: clientHost(j.ctx), Rack: req.GetRack(),
	}
	beat := j.base
	beat.SessionTimeout = time.Duration(req.GetSessionTimeoutMs()) * time.Millisecond
	beat.RebalanceTimeout = time.Duration(req.GetRebalanceTimeoutMs()) * time.Millisecond
	beat.Assignor = req.GetAssignor()
	return beat, j.fill(&beat, req)
}

// fill adds what any message may carry.
func (j *joinStream) fill(beat *consumergroup.HeartbeatRequest, req *moldauv1.JoinRequest) error {
	beat.Seen = req.GetSeen()
	if len(req.GetTopics()) > 0 {
		beat.Topics = req.GetTopics()
	}
	if req.Owned != nil {
		beat.Owned = make([]cluster.TopicPartition, 0, len(req.GetOwned().GetPartitions()))
		for _, tp := range req.GetOwned().GetPartitions() {
			ref, err := topicRef(tp.GetTopic(), tp.GetTopicId())
			if err != nil {
				return err
			}
			if ref.ID.IsZero() {
				t, ok := j.s.known(ref)
				if !ok {
					continue // deleted: nobody can own it
				}
				ref.ID = t.ID
			}
			beat.Owned = append(beat.Owned, cluster.TopicPartition{Topic: ref.ID, Partition: tp.GetPartition()})
		}
	}
	switch {
	case req.GetLeave() && j.static:
		beat.Epoch = consumergroup.EpochStaticLeave
	case req.GetLeave():
		beat.Epoch = consumergroup.EpochLeave
	}
	return nil
}

// clientHost is the client's address, without the port.
func clientHost(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}

// request passes a heartbeat of the client on.
func (j *joinStream) request(req *moldauv1.JoinRequest) error {
	beat := j.base
	if epoch := req.GetMemberEpoch(); epoch > 0 {
		beat.Epoch = epoch // what the client has acted on, which may be behind what it was told
	}
	if err := j.fill(&beat, req); err != nil {
		return err
	}
	_, err := j.heartbeat(beat, true)
	return err
}

// poll asks on behalf of the member whether there is something new.
func (j *joinStream) poll() error {
	beat := j.base
	beat.Poll, beat.Seen = true, j.sent
	_, err := j.heartbeat(beat, false)
	return err
}

// heartbeat asks the coordinator and tells the client. always answers even if nothing changed.
func (j *joinStream) heartbeat(beat consumergroup.HeartbeatRequest, always bool) (consumergroup.HeartbeatResponse, error) { //nolint:revive // answer or push
	resp, err := j.s.groups.Heartbeat(j.ctx, beat)
	if err != nil {
		return resp, j.s.withCoordinator(beat.Group, err)
	}
	if resp.Epoch > 0 {
		j.base.Epoch = resp.Epoch
	}
	if !always && !resp.Changed {
		return resp, nil
	}
	j.sent = resp.Version
	out := &moldauv1.JoinResponse{
		MemberId: resp.MemberID, MemberEpoch: resp.Epoch, HeartbeatIntervalMs: int32(resp.HeartbeatInterval.Milliseconds()), Version: resp.Version,
	}
	if resp.Changed {
		img := j.s.broker.Image()
		out.Assignment = &moldauv1.Assignment{Assigned: wirePartitions(img, resp.Assigned), Revoking: wirePartitions(img, resp.Revoke)}
	}
	return resp, j.stream.Send(out)
}
