package kafka

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/consumergroup"
)

// JoinGroup (11), versions 0 to 9: takes a member of a classic group into the next generation. The answer may take as long as the members' rebalance timeout.
//
// v1 rebalance timeout (KIP-62); v4 a member without an id is given one and joins again (KIP-394); v5 static members (KIP-345); v6 flexible; v7 the protocol type in
// the answer (KIP-559); v8 a reason (KIP-800); v9 a leader can be told not to assign (KIP-814).
func (c *conn) joinGroup(ctx context.Context, req *kmsg.JoinGroupRequest, s *slot) (*kmsg.JoinGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	join := consumergroup.JoinRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), ClientID: s.clientID, ClientHost: c.host(),
		SessionTimeout: time.Duration(req.SessionTimeoutMillis) * time.Millisecond, RebalanceTimeout: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		ProtocolType: req.ProtocolType, RequireMemberID: req.Version >= 4, CanSkipAssignment: req.Version >= 9, Reason: text(req.Reason),
	}
	if req.Version == 0 {
		join.RebalanceTimeout = 0
	}
	for i := range req.Protocols {
		join.Protocols = append(join.Protocols, consumergroup.Protocol{Name: req.Protocols[i].Name, Metadata: req.Protocols[i].Metadata})
	}
	req.Protocols, req.UnknownTags = nil, kmsg.Tags{} // it may wait for minutes
	s.worked()
	reply, err := c.s.groups.JoinGroup(ctx, join)
	resp.Generation, resp.MemberID = consumergroup.NoGeneration, req.MemberID
	if req.Version < 7 {
		resp.Protocol = kmsg.StringPtr("") // null from version 7 on only
	}
	switch {
	case err != nil:
		resp.ErrorCode, _ = s.coordinatorError(err)
		return resp, nil
	case reply.MemberIDRequired:
		resp.ErrorCode, resp.MemberID = s.note(errMemberIDRequired), reply.MemberID
		return resp, nil
	}
	resp.Generation, resp.MemberID, resp.LeaderID, resp.SkipAssignment = reply.Generation, reply.MemberID, reply.Leader, reply.SkipAssignment
	resp.ProtocolType, resp.Protocol = &reply.ProtocolType, &reply.Protocol
	for i := range reply.Members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.InstanceID, m.ProtocolMetadata = reply.Members[i].MemberID, nullable(reply.Members[i].InstanceID), reply.Members[i].Metadata
		resp.Members = append(resp.Members, m)
	}
	return resp, nil
}

// host is the client's address as Kafka shows it.
func (c *conn) host() string {
	host, _, err := net.SplitHostPort(c.net.RemoteAddr().String())
	if err != nil {
		return c.net.RemoteAddr().String()
	}
	return "/" + host
}
