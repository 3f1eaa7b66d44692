package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/consumergroup"
)

// SyncGroup (14), versions 0 to 5: the leader of a classic group hands over the assignments, every member gets its own.
//
// v3 static members (KIP-345); v4 flexible; v5 the protocol is checked (KIP-559).
func (c *conn) syncGroup(ctx context.Context, req *kmsg.SyncGroupRequest, s *slot) (*kmsg.SyncGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp.ErrorCode, resp.MemberAssignment = s.note(errInconsistentProtocol), []byte{}
		return resp, nil
	}
	sync := consumergroup.SyncRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), Generation: req.Generation,
		ProtocolType: text(req.ProtocolType), Protocol: text(req.Protocol),
	}
	for i := range req.GroupAssignment {
		sync.Assignments = append(sync.Assignments, consumergroup.Assignment{MemberID: req.GroupAssignment[i].MemberID, Assignment: req.GroupAssignment[i].MemberAssignment})
	}
	req.GroupAssignment, req.UnknownTags = nil, kmsg.Tags{} // it may wait for minutes
	s.worked()
	reply, err := c.s.groups.SyncGroup(ctx, sync)
	if err != nil {
		resp.ErrorCode, _ = s.coordinatorError(err)
		resp.MemberAssignment = []byte{}
		return resp, nil
	}
	resp.ProtocolType, resp.Protocol = &reply.ProtocolType, &reply.Protocol
	resp.MemberAssignment = append([]byte{}, reply.Assignment...) // never null
	return resp, nil
}
