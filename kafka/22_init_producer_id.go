package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
)

// InitProducerId (22), versions 0 to 5: an id for an idempotent producer.
//
// v2 flexible; v3 recovery with an old id and epoch (KIP-360), which for an idempotent producer is a new id; v4, v5 transactions.
//
// A transactional id gets the one error that every client takes as final.
func (c *conn) initProducerID(ctx context.Context, req *kmsg.InitProducerIDRequest, s *slot) (*kmsg.InitProducerIDResponse, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case text(req.TransactionalID) == "" && req.TransactionalID != nil, (req.ProducerID == -1) != (req.ProducerEpoch == -1) && req.Version >= 3:
		resp.ErrorCode = s.note(errInvalidRequest)
		return resp, nil
	case req.TransactionalID != nil:
		resp.ErrorCode = errTransactionalID
		s.outcome = errorLabel(resp.ErrorCode)
		return resp, nil
	}
	id, epoch, err := c.s.broker.InitProducerID(ctx)
	if err != nil {
		resp.ErrorCode = wireGroup(broker.AsRefusal(err).Code) // clients treat the broker that they ask as a coordinator
		s.outcome = errorLabel(resp.ErrorCode)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = int64(id), int16(epoch)
	return resp, nil
}
