package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// FindCoordinator (10), versions 0 to 6: which broker coordinates a group.
//
// v1 kinds of coordinator; v3 flexible; v4 many keys (KIP-699); v6 share groups, which are not supported.
//
// A transactional id gets the one error that every client takes as final.
const coordinatorTransaction int8 = 1

func (c *conn) findCoordinator(_ context.Context, req *kmsg.FindCoordinatorRequest, s *slot) (*kmsg.FindCoordinatorResponse, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	for _, key := range keys {
		o := c.coordinator(req.CoordinatorType, key)
		if o.ErrorCode != errNone {
			s.outcome = errorLabel(o.ErrorCode)
		}
		resp.Coordinators = append(resp.Coordinators, o)
	}
	if req.Version < 4 {
		o := &resp.Coordinators[0]
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = o.ErrorCode, o.ErrorMessage, o.NodeID, o.Host, o.Port
	}
	return resp, nil
}

func (c *conn) coordinator(kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	o := kmsg.NewFindCoordinatorResponseCoordinator()
	o.Key, o.NodeID, o.Port = key, -1, -1
	refuse := func(code int16, text string) kmsg.FindCoordinatorResponseCoordinator {
		o.ErrorCode, o.ErrorMessage = code, &text
		return o
	}
	switch kind {
	case 0:
	case coordinatorTransaction:
		return refuse(errTransactionalID, "transactions are not supported")
	default:
		return refuse(errInvalidRequest, "only consumer groups have coordinators")
	}
	id, err := c.s.broker.Coordinator(key)
	if err != nil {
		e := broker.AsRefusal(err)
		return refuse(wireGroup(e.Code), e.Error())
	}
	b, ok := c.broker(c.s.broker.Image(), cluster.BrokerID(id))
	if !ok {
		return refuse(errCoordinatorNotAvailable, "the coordinator is not reachable right now; retry")
	}
	o.NodeID = int32(b.ID)
	o.Host, o.Port, _ = c.endpoint(b)
	return o
}
