package kafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// DescribeGroups (15), versions 0 to 6: classic groups with their members.
//
// v3 authorized operations (KIP-430); v4 static members (KIP-345); v5 flexible; v6 an unknown group is an error (KIP-1043), before it was one in state Dead.
func (c *conn) describeGroups(ctx context.Context, req *kmsg.DescribeGroupsRequest, s *slot) (*kmsg.DescribeGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range distinct(req.Groups, func(name *string) string { return *name }) {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.Members = name, []kmsg.DescribeGroupsResponseGroupMember{}
		if req.IncludeAuthorizedOperations {
			g.AuthorizedOperations = allGroupOperations
		}
		c.describeGroup(ctx, name, &g, s)
		if g.ErrorCode == errGroupIDNotFound {
			g.State = "Dead"
			if req.Version < 6 {
				g.ErrorCode, g.ErrorMessage = errNone, nil
			}
		}
		if g.ErrorCode != errNone {
			g.AuthorizedOperations = math.MinInt32 // not told
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func (c *conn) describeGroup(ctx context.Context, name string, g *kmsg.DescribeGroupsResponseGroup, s *slot) {
	d, err := c.s.groups.Describe(ctx, name)
	if err != nil {
		g.ErrorCode, g.ErrorMessage = s.coordinatorError(err)
		return
	}
	if d.Type == cluster.GroupNative { // as Kafka answers for consumer groups: they have a description of their own
		g.ErrorCode, g.ErrorMessage = errGroupIDNotFound, kmsg.StringPtr("group "+name+" is a native group; `moldau group describe` shows it")
		return
	}
	g.State, g.ProtocolType = groupState(d.State), d.ProtocolType
	stable := d.State == consumergroup.StateStable // before, what the members have agreed on is not known
	if stable {
		g.Protocol = d.Assignor
	}
	for i := range d.Members {
		in := &d.Members[i]
		m := kmsg.NewDescribeGroupsResponseGroupMember()
		m.MemberID, m.InstanceID, m.ClientID, m.ClientHost = in.ID, nullable(in.InstanceID), in.ClientID, in.ClientHost
		m.ProtocolMetadata, m.MemberAssignment = []byte{}, append([]byte{}, in.Assignment...)
		if stable {
			m.ProtocolMetadata = append(m.ProtocolMetadata, in.Metadata...)
		}
		g.Members = append(g.Members, m)
	}
}
