package client

import (
	"context"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// The calls of GroupService but Join, which NewConsumer with WithGroup makes. Each may be sent to any broker, like those of AdminService.

// CommitOffsets stores positions of a group. With a sequence a commit may be sent again while its outcome is unknown: it changes nothing behind a later one.
func (c *Client) CommitOffsets(ctx context.Context, req *moldauv1.CommitOffsetsRequest) (*moldauv1.CommitOffsetsResponse, error) {
	again := once
	if req.GetSequence() > 0 {
		again = idempotent
	}
	return invoke(ctx, c, again, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.CommitOffsets, req)
}

// FetchOffsets reads committed positions of a group.
func (c *Client) FetchOffsets(ctx context.Context, req *moldauv1.FetchOffsetsRequest) (*moldauv1.FetchOffsetsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.FetchOffsets, req)
}

// ListGroups lists the groups of the cluster.
func (c *Client) ListGroups(ctx context.Context, req *moldauv1.ListGroupsRequest) (*moldauv1.ListGroupsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.ListGroups, req)
}

// DescribeGroups tells members, assignments, committed offsets and lag.
func (c *Client) DescribeGroups(ctx context.Context, req *moldauv1.DescribeGroupsRequest) (*moldauv1.DescribeGroupsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.DescribeGroups, req)
}

// DeleteGroup removes a group without members, with its offsets.
func (c *Client) DeleteGroup(ctx context.Context, req *moldauv1.DeleteGroupRequest) (*moldauv1.DeleteGroupResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.DeleteGroup, req)
}

// DeleteOffsets removes committed offsets of topics to which no member subscribes.
func (c *Client) DeleteOffsets(ctx context.Context, req *moldauv1.DeleteOffsetsRequest) (*moldauv1.DeleteOffsetsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.DeleteOffsets, req)
}

// ResetOffsets moves the committed offsets of a group without members.
func (c *Client) ResetOffsets(ctx context.Context, req *moldauv1.ResetOffsetsRequest) (*moldauv1.ResetOffsetsResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewGroupServiceClient, moldauv1.GroupServiceClient.ResetOffsets, req)
}
