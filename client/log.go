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

// queriesPerCall is how many offsets one call asks for, below what a broker takes.
const queriesPerCall = 5000

// ListOffsets finds offsets by position or timestamp. Many queries take several calls, so their answers need not be of one moment.
func (c *Client) ListOffsets(ctx context.Context, req *moldauv1.ListOffsetsRequest) (*moldauv1.ListOffsetsResponse, error) {
	all := &moldauv1.ListOffsetsResponse{}
	for rest := req.GetQueries(); ; {
		part := &moldauv1.ListOffsetsRequest{Queries: rest[:min(len(rest), queriesPerCall)]}
		resp, err := invoke(ctx, c, idempotent, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.ListOffsets, part)
		if err != nil {
			return nil, err
		}
		all.Offsets = append(all.Offsets, resp.GetOffsets()...)
		if rest = rest[len(part.GetQueries()):]; len(rest) == 0 {
			return all, nil
		}
	}
}

// InitProducerId gets a producer id that was never given before.
func (c *Client) InitProducerId(ctx context.Context, req *moldauv1.InitProducerIdRequest) (*moldauv1.InitProducerIdResponse, error) {
	return invoke(ctx, c, idempotent, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.InitProducerId, req)
}
