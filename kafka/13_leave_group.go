package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/consumergroup"
)

// LeaveGroup (13), versions 0 to 5: members of a classic group leave. v3 many members, static ones by their instance (KIP-345); v4 flexible; v5 a reason (KIP-800).
func (c *conn) leaveGroup(ctx context.Context, req *kmsg.LeaveGroupRequest, s *slot) (*kmsg.LeaveGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	leave := consumergroup.LeaveRequest{Group: req.Group}
	if req.Version < 3 {
		leave.Members = []consumergroup.LeavingMember{{MemberID: req.MemberID}}
	}
	for i := range req.Members {
		m := &req.Members[i]
		leave.Members = append(leave.Members, consumergroup.LeavingMember{MemberID: m.MemberID, InstanceID: text(m.InstanceID), Reason: text(m.Reason)})
	}
	codes, err := c.s.groups.LeaveGroup(ctx, leave)
	resp.ErrorCode, _ = s.coordinatorError(err)
	for i := range codes {
		code := s.note(wireGroup(codes[i]))
		if req.Version < 3 {
			resp.ErrorCode = code
			break
		}
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = req.Members[i].MemberID, req.Members[i].InstanceID, code
		resp.Members = append(resp.Members, m)
	}
	return resp, nil
}
