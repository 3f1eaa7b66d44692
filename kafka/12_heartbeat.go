package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/consumergroup"
)

// Heartbeat (12), versions 0 to 4: keeps up the session of a classic member. v3 static members (KIP-345); v4 flexible.
func (c *conn) heartbeat(ctx context.Context, req *kmsg.HeartbeatRequest, s *slot) (*kmsg.HeartbeatResponse, error) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	err := c.s.groups.ClassicHeartbeat(ctx, consumergroup.ClassicHeartbeatRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), Generation: req.Generation,
	})
	resp.ErrorCode, _ = s.coordinatorError(err)
	return resp, nil
}
