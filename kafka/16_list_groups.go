package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// ListGroups (16), versions 0 to 5: the groups that the answering broker coordinates; clients ask every broker.
//
// v3 flexible; v4 states (KIP-518); v5 types (KIP-848). Filters ignore case, as Kafka's do.
func (c *conn) listGroups(ctx context.Context, req *kmsg.ListGroupsRequest, s *slot) (*kmsg.ListGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	groups, err := c.s.groups.List(ctx)
	resp.ErrorCode, _ = s.coordinatorError(err)
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	matches := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
	}
	for _, g := range groups {
		o := kmsg.NewListGroupsResponseGroup()
		o.Group, o.GroupState, o.GroupType = g.Group, groupState(g.State), groupType(g.Type)
		o.ProtocolType = g.ProtocolType
		if g.Type == cluster.GroupNative {
			o.ProtocolType = "consumer"
		}
		if matches(req.StatesFilter, o.GroupState) && matches(req.TypesFilter, o.GroupType) {
			resp.Groups = append(resp.Groups, o)
		}
	}
	return resp, nil
}
