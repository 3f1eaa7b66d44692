package grpcapi

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/internal/meter"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// listenerName is the label of the door's connections.
const listenerName = "grpc"

// meters are what the door counts. Label values are the method's name in lower case, and the refusal's code in lower case or "none".
type meters struct {
	requests    *meter.CounterVec
	durations   *meter.HistogramVec
	connections *meter.Gauge
	refused     *meter.CounterVec // connections, by listener and reason
	produce     []*meter.Counter  // requests of Produce streams, by cluster.Code
	produceTime *meter.Histogram
	fetch       []*meter.Counter // the same for Fetch streams
}

func newMeters(set *meter.Set) *meters {
	m := &meters{
		requests:    set.Counter("moldau_requests_total", "Requests by API and outcome.", "api", "error"),
		durations:   set.Histogram("moldau_request_duration_seconds", "Time from a request to its answer, by API.", meter.DurationBuckets(), "api"),
		connections: set.Gauge("moldau_connections", "Open client connections by listener.", "listener").With(listenerName),
		refused:     set.Counter("moldau_connections_refused_total", "Client connections closed at once, by listener and reason.", "listener", "reason"),
	}
	for _, reason := range []string{conns.TooMany, conns.OfAddress} {
		m.refused.With(listenerName, reason)
	}
	m.produceTime = m.durations.With("grpc_produce")
	for _, c := range cluster.Codes() {
		m.produce = append(m.produce, m.requests.With("grpc_produce", errorLabel(c.String())))
		m.fetch = append(m.fetch, m.requests.With("grpc_fetch", errorLabel(c.String())))
	}
	return m
}

func errorLabel(code string) string { return strings.ToLower(code) }

// apiLabel is the label of a full method name.
func apiLabel(fullMethod string) string {
	return "grpc_" + strings.ToLower(fullMethod[strings.LastIndexByte(fullMethod, '/')+1:])
}

// outcomeLabel is the label of a call's error.
func outcomeLabel(err error) string {
	if err == nil {
		return "none"
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return errorLabel(info.GetReason())
		}
	}
	return errorLabel(st.Code().String())
}

// unary wraps every unary call: panics become an error, refusals become gRPC statuses, the call is counted.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	api := apiLabel(info.FullMethod)
	answer := &answering{unread: s.unreadOf(ctx)}
	defer func() {
		answer.drop()
		if p := recover(); p != nil {
			resp, err = nil, s.status(ctx, s.panicked(info.FullMethod, p))
		}
		s.meters.requests.With(api, outcomeLabel(err)).Inc()
		s.meters.durations.With(api).Observe(time.Since(start).Seconds())
	}()
	t, err := s.decode(ctx, req)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	defer t.giveBack()
	if resp, err = handler(context.WithValue(ctx, answeringKey{}, answer), req); err == nil {
		resp, err = answer.counted(ctx, resp)
	}
	return resp, s.status(ctx, err)
}

// stream wraps every streaming call in the same way; its duration would say nothing.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.status(ss.Context(), s.panicked(info.FullMethod, p))
		}
		s.meters.requests.With(apiLabel(info.FullMethod)+"_stream", outcomeLabel(err)).Inc()
	}()
	if info.FullMethod != moldauv1.LogService_Produce_FullMethodName { // whose frames are not parked
		in := &inboundStream{ServerStream: ss, s: s}
		defer in.end()
		ss = in
	}
	return s.status(ss.Context(), handler(srv, &answerStream{ss, s}))
}

// panicked reports a bug in a handler. The process goes on: the call had only its own state.
func (s *Server) panicked(method string, p any) error {
	s.log.Error("call panicked", slog.String("method", method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return cluster.Refuse(cluster.CodeUnknown, fmt.Sprintf("internal error in %s; the broker's log has more", method))
}

// errStopping refuses calls while the door closes.
func errStopping() *cluster.Error {
	return cluster.Refuse(cluster.CodeShuttingDown, "the broker is stopping; ask another one")
}
