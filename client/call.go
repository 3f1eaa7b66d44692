package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// repeat says whether a call whose outcome is unknown may be sent again.
type repeat int

const (
	idempotent repeat = iota // sending it twice does what sending it once does
	once                     // only what no broker has seen, or a broker has refused, is sent again
)

// maxHops bounds how many refusals that name a better broker are followed in one round.
const maxHops = 3

// invoke makes a unary call at any broker: it tries the known addresses in turn, follows a refusal that names a better one, and goes on
// until the request timeout while refusals are retriable.
func invoke[S, Req, Resp any](ctx context.Context, c *Client, again repeat, service func(grpc.ClientConnInterface) S,
	method func(S, context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (Resp, error) {
	var zero Resp
	ctx, cancel := context.WithTimeout(ctx, c.cfg.requestTimeout)
	defer cancel()
	wait := c.cfg.retryBackoff
	var last error
	for {
		queue := c.conns.candidates()
		for hops := 0; len(queue) > 0; {
			endpoint := queue[0]
			queue = queue[1:]
			resp, sent, err := tryAt(ctx, c, again, endpoint, service, method, req)
			if err == nil {
				c.conns.prefer(endpoint)
				return resp, nil
			}
			if CodeOf(err) == 0 {
				c.conns.demote(endpoint)
			}
			if last == nil || ctx.Err() == nil {
				last = err
			}
			if ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return zero, last
			}
			if again == once && sent && CodeOf(err) == 0 && retriable(err) {
				return zero, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			if !tryAgain(err, again) {
				return zero, err
			}
			var e *Error
			if errors.As(err, &e) && e.Endpoint != "" && hops < maxHops {
				hops++
				queue = append([]string{e.Endpoint}, queue...)
			}
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, c.cfg.retryBackoffMax)
		case <-ctx.Done():
			if last == nil {
				last = ctx.Err()
			}
			return zero, last
		case <-c.ctx.Done():
			return zero, ErrClosed
		}
	}
}

// tryTimeout bounds one try of a call that may be repeated at another broker.
const tryTimeout = 10 * time.Second

// tryAgain says whether an error is worth another try. Too few registered brokers for a topic's replicas is something to tell the caller.
func tryAgain(err error, again repeat) bool {
	if CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION {
		return false
	}
	return retriable(err) || (again == idempotent && errors.Is(err, context.DeadlineExceeded))
}

// tryAt makes one try. sent is false if the broker cannot have seen the call.
func tryAt[S, Req, Resp any](ctx context.Context, c *Client, again repeat, endpoint string, service func(grpc.ClientConnInterface) S,
	method func(S, context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (resp Resp, sent bool, err error) {
	cc, err := c.conns.get(endpoint)
	if err != nil {
		return resp, false, err
	}
	if err := c.conns.await(ctx, cc); err != nil {
		return resp, false, err
	}
	if again == idempotent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tryTimeout)
		defer cancel()
	}
	resp, err = method(service(cc), ctx, req)
	return resp, true, fromStatus(err)
}
