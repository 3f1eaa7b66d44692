package client

import (
	"context"
	"fmt"
	"io"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// The calls of AdminService. Each may be sent to any broker, so each tries the known ones in turn, until the request timeout. A refusal is
// an *Error. A call that changes something and got no answer is not sent again: its outcome is unknown.

// CreateTopic creates a topic.
func (c *Client) CreateTopic(ctx context.Context, req *moldauv1.CreateTopicRequest) (*moldauv1.CreateTopicResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.CreateTopic, req)
}

// DeleteTopic removes a topic, its records and its committed offsets.
func (c *Client) DeleteTopic(ctx context.Context, req *moldauv1.DeleteTopicRequest) (*moldauv1.DeleteTopicResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.DeleteTopic, req)
}

// ListTopics lists topics by name.
func (c *Client) ListTopics(ctx context.Context, req *moldauv1.ListTopicsRequest) (*moldauv1.ListTopicsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.ListTopics, req)
}

// DescribeTopics tells the partitions of topics, and the brokers that hold them.
func (c *Client) DescribeTopics(ctx context.Context, req *moldauv1.DescribeTopicsRequest) (*moldauv1.DescribeTopicsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.DescribeTopics, req)
}

// AddPartitions grows a topic; keys map to other partitions afterwards.
func (c *Client) AddPartitions(ctx context.Context, req *moldauv1.AddPartitionsRequest) (*moldauv1.AddPartitionsResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.AddPartitions, req)
}

// DescribeConfigs tells the effective configs of a resource.
func (c *Client) DescribeConfigs(ctx context.Context, req *moldauv1.DescribeConfigsRequest) (*moldauv1.DescribeConfigsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.DescribeConfigs, req)
}

// AlterConfigs sets and removes configs of a resource, all or none.
func (c *Client) AlterConfigs(ctx context.Context, req *moldauv1.AlterConfigsRequest) (*moldauv1.AlterConfigsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.AlterConfigs, req)
}

// DeleteRecords moves the log start of a partition up.
func (c *Client) DeleteRecords(ctx context.Context, req *moldauv1.DeleteRecordsRequest) (*moldauv1.DeleteRecordsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.DeleteRecords, req)
}

// ListReassignments lists the reassignments in progress.
func (c *Client) ListReassignments(ctx context.Context, req *moldauv1.ListReassignmentsRequest) (*moldauv1.ListReassignmentsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.ListReassignments, req)
}

// Reassign starts, replaces or cancels the reassignment of a partition.
func (c *Client) Reassign(ctx context.Context, req *moldauv1.ReassignRequest) (*moldauv1.ReassignResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.Reassign, req)
}

// ElectLeaders gives leaderships to the preferred replicas, or, unclean, to whoever is there.
func (c *Client) ElectLeaders(ctx context.Context, req *moldauv1.ElectLeadersRequest) (*moldauv1.ElectLeadersResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.ElectLeaders, req)
}

// DescribeCluster tells brokers, controller, cluster id and feature level.
func (c *Client) DescribeCluster(ctx context.Context, req *moldauv1.DescribeClusterRequest) (*moldauv1.DescribeClusterResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.DescribeCluster, req)
}

// ClusterHealth says whether the cluster is healthy, and why not.
func (c *Client) ClusterHealth(ctx context.Context, req *moldauv1.ClusterHealthRequest) (*moldauv1.ClusterHealthResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.ClusterHealth, req)
}

// UnregisterBroker removes a broker that holds nothing for good.
func (c *Client) UnregisterBroker(ctx context.Context, req *moldauv1.UnregisterBrokerRequest) (*moldauv1.UnregisterBrokerResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewAdminServiceClient, moldauv1.AdminServiceClient.UnregisterBroker, req)
}

// Backup writes a backup of the cluster's metadata to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint, err := c.anyEndpoint(ctx)
	if err != nil {
		return err
	}
	cc, err := c.conns.get(endpoint)
	if err != nil {
		return err
	}
	stream, err := moldauv1.NewAdminServiceClient(cc).Backup(ctx, &moldauv1.BackupRequest{})
	if err != nil {
		return fromStatus(err)
	}
	for {
		piece, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fromStatus(err)
		}
		if _, err := w.Write(piece.GetChunk()); err != nil {
			return fmt.Errorf("client: write backup: %w", err)
		}
	}
}

// anyEndpoint returns the address of a broker that answers.
func (c *Client) anyEndpoint(ctx context.Context) (string, error) {
	if _, err := c.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{}); err != nil {
		return "", err
	}
	return c.conns.candidates()[0], nil
}
