package client

import (
	"context"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// The unary calls of LogService. Each may be sent to any broker, like those of AdminService.

// ProduceRecords appends plain records through any broker, without idempotence; Produce is the better way.
func (c *Client) ProduceRecords(ctx context.Context, req *moldauv1.ProduceRecordsRequest) (*moldauv1.ProduceRecordsResponse, error) {
	return invoke(ctx, c, once, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.ProduceRecords, req)
}

// FetchRecords reads plain records of one partition through any broker, once.
func (c *Client) FetchRecords(ctx context.Context, req *moldauv1.FetchRecordsRequest) (*moldauv1.FetchRecordsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.FetchRecords, req)
}

// ListOffsets finds offsets by position or timestamp.
func (c *Client) ListOffsets(ctx context.Context, req *moldauv1.ListOffsetsRequest) (*moldauv1.ListOffsetsResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.ListOffsets, req)
}

// InitProducerId gets a producer id that was never given before.
func (c *Client) InitProducerId(ctx context.Context, req *moldauv1.InitProducerIdRequest) (*moldauv1.InitProducerIdResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.InitProducerId, req)
}
