package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), versions 0 to 3: access control, which is not there yet. All are answered as Kafka without an
// authorizer does, with SECURITY_DISABLED: MirrorMaker 2 goes on without ACLs when it hears exactly that.
//
// v1 pattern types (KIP-290); v2 flexible; v3 users as resources (KIP-373).
const noAuthorizer = "No Authorizer is configured."

func (c *conn) describeACLs(_ context.Context, req *kmsg.DescribeACLsRequest, s *slot) (*kmsg.DescribeACLsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = s.note(errSecurityDisabled), kmsg.StringPtr(noAuthorizer)
	return resp, nil
}

func (c *conn) createACLs(_ context.Context, req *kmsg.CreateACLsRequest, s *slot) (*kmsg.CreateACLsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for range req.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = s.note(errSecurityDisabled), kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

func (c *conn) deleteACLs(_ context.Context, req *kmsg.DeleteACLsRequest, s *slot) (*kmsg.DeleteACLsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range req.Filters {
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = s.note(errSecurityDisabled), kmsg.StringPtr(noAuthorizer)
		r.MatchingACLs = []kmsg.DeleteACLsResponseResultMatchingACL{}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}
