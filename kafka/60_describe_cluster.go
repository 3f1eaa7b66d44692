package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster (60), versions 0 to 2: the brokers and the controller (KIP-700). v1 kinds of endpoint (KIP-919), of which only brokers' are known; v2 fenced
// brokers (KIP-1073).
const (
	endpointBrokers           int8  = 1
	endpointControllers       int8  = 2
	errMismatchedEndpoint     int16 = 114
	errUnsupportedEndpoint    int16 = 115
	describeClusterWithFenced int16 = 2
)

func (c *conn) describeCluster(_ context.Context, req *kmsg.DescribeClusterRequest, s *slot) (*kmsg.DescribeClusterResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = s.note(errUnsupportedEndpoint)
		if req.EndpointType == endpointControllers { // these are on other ports
			resp.ErrorCode = s.note(errMismatchedEndpoint)
		}
		return resp, nil
	}
	img := c.s.broker.Image()
	resp.EndpointType, resp.ClusterID, resp.ControllerID = endpointBrokers, img.ClusterID().String(), -1
	controller, known := c.s.broker.Controller()
	for b := range img.Brokers() {
		host, port, ok := c.endpoint(b)
		if !ok || (b.Fenced && !(req.Version >= describeClusterWithFenced && req.IncludeFencedBrokers)) {
			continue
		}
		o := kmsg.NewDescribeClusterResponseBroker()
		o.NodeID, o.Host, o.Port, o.IsFenced = int32(b.ID), host, port, b.Fenced
		if b.Rack != "" {
			o.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, o)
		if known && b.ID == controller {
			resp.ControllerID = o.NodeID
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	return resp, nil
}
