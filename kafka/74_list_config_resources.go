package kafka

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources (74), versions 0 and 1: what has a configuration (KIP-1142). Version 0 asks for client metrics only, of which there are none; version 1
// names kinds, none of them means all. Topics and brokers have configurations here.
func (c *conn) listConfigResources(_ context.Context, req *kmsg.ListConfigResourcesRequest, s *slot) (*kmsg.ListConfigResourcesResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version == 0 {
		return resp, nil
	}
	topics, brokers := len(req.ResourceTypes) == 0, len(req.ResourceTypes) == 0
	for _, kind := range req.ResourceTypes {
		switch kmsg.ConfigResourceType(kind) {
		case kmsg.ConfigResourceTypeTopic:
			topics = true
		case kmsg.ConfigResourceTypeBroker:
			brokers = true
		case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			resp.ErrorCode = s.note(errUnsupportedVersion)
			return resp, nil
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		r := kmsg.NewListConfigResourcesResponseConfigResource()
		r.Name, r.Type = name, int8(kind)
		resp.ConfigResources = append(resp.ConfigResources, r)
	}
	img := c.s.broker.Image()
	if topics {
		for t := range img.Topics() {
			add(kmsg.ConfigResourceTypeTopic, t.Name)
		}
	}
	if brokers {
		for b := range img.Brokers() {
			add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(b.ID)))
		}
	}
	return resp, nil
}
