package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups (42), versions 0 to 2: removes groups without members, with their offsets (KIP-229). v2 is flexible.
func (c *conn) deleteGroups(ctx context.Context, req *kmsg.DeleteGroupsRequest, s *slot) (*kmsg.DeleteGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	seen := make(map[string]bool, len(req.Groups))
	for _, name := range req.Groups {
		if seen[name] { // is answered
			continue
		}
		seen[name] = true
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		g.ErrorCode, g.ErrorMessage = s.coordinatorError(c.s.groups.Delete(ctx, name))
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
