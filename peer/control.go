package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

var _ controller.LeaderCall = (*Peer)(nil)

// Call sends a request to the controller of the broker at an endpoint. Requests to one endpoint share a connection, up to maxCalling at once. A refusal of the
// handler comes back as the *cluster.Error that it returned. controller.ErrNotSent is wrapped when no handler has seen the request: nobody could be reached,
// a *RefusedError says why the broker there is not the one meant or will not talk to us, or a *cluster.Error why it declined. ErrLost says that the
// connection broke and the outcome is unknown; so it is when ctx ends.
func (p *Peer) Call(ctx context.Context, to controller.Endpoint, req controller.Request) (controller.Response, error) {
	what, payload, err := encodeRequest(req)
	if err != nil {
		return nil, err
	}
	answered, body, err := p.callers.call(ctx, callerKey{stream: streamControl, to: to}, what, payload)
	if err != nil {
		return nil, err
	}
	res, err := decodeResponse(answered, body)
	if err != nil {
		return nil, fmt.Errorf("peer: answer of %s: %w", to.Address, err)
	}
	return res, nil
}

// answerControl decodes a control request, checks that this caller may ask it, and has it answered.
func (p *Peer) answerControl(ctx context.Context, h hello, what uint8, payload []byte) (uint8, []byte, error) {
	req, err := decodeRequest(what, payload)
	if err != nil {
		return 0, nil, decline(cluster.CodeInvalidRequest, err.Error())
	}
	if err := p.mayAsk(h, req); err != nil {
		return 0, nil, err
	}
	serve := p.handlers.Load().Control
	if serve == nil {
		return 0, nil, decline(cluster.CodeShuttingDown, "control requests are not served now")
	}
	res, err := serve(ctx, req)
	if err != nil {
		return 0, nil, err
	}
	return encodeResponse(res)
}

// mayAsk checks a request against the identities of now: either end may have joined a cluster since the hello. A broker without a cluster may probe
// and join, and may be probed, nothing else.
func (p *Peer) mayAsk(h hello, req controller.Request) error {
	self := p.cfg.Self()
	if refusal, reason := verdict(h.Stream, h.From, self, h.Expected); refusal != Welcome {
		return decline(cluster.CodeWrongCluster, reason)
	}
	switch req.(type) {
	case controller.ProbeRequest, controller.JoinRequest:
		return nil
	}
	if h.From.Cluster.IsZero() || self.Cluster.IsZero() {
		return decline(cluster.CodeWrongCluster, "a broker that belongs to no cluster yet may only probe and join")
	}
	return nil
}

// The body of a failure: | i32 code | message | i32 leader | i32 leader epoch | endpoint |.
func encodeFailure(err error) []byte {
	e := &cluster.Error{Code: cluster.CodeUnknown, Message: err.Error(), Leader: cluster.NoBroker, LeaderEpoch: -1}
	var refused *cluster.Error
	switch {
	case errors.As(err, &refused):
		e = refused
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = cluster.CodeTimedOut
	case errors.Is(err, context.Canceled):
		e.Code = cluster.CodeShuttingDown
	}
	const maxText = 4 << 10
	var w writer
	w.i32(int32(e.Code))
	w.str(e.Message[:min(len(e.Message), maxText)])
	w.i32(int32(e.Leader))
	w.i32(e.LeaderEpoch)
	w.str(e.Endpoint[:min(len(e.Endpoint), maxText)])
	return w.b
}

// decodeFailure returns the *cluster.Error that encodeFailure took.
func decodeFailure(body []byte) error {
	r := reader{b: body}
	e := &cluster.Error{Code: cluster.Code(r.i32()), Message: r.str()}
	e.Leader = cluster.BrokerID(r.i32())
	e.LeaderEpoch = r.i32()
	e.Endpoint = r.str()
	if r.err != nil {
		return errFrameMangled
	}
	return e
}
