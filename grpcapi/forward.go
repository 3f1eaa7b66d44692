package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/grpcframe"
)

// hopKey is the request header of a forwarded call. A call that has it is answered here or refused, so two brokers with different metadata
// cannot play ball.
const hopKey = "moldau-hop"

// forwardTimeout bounds a forwarded call whose client set no earlier deadline.
const forwardTimeout = 30 * time.Second

// forwarder holds one connection to the gRPC port of each other broker that something was forwarded to.
type forwarder struct {
	s     *Server
	codec *grpcframe.Codec

	mu     sync.Mutex // guards what follows
	conns  map[string]*grpc.ClientConn
	closed bool
}

func newForwarder(s *Server, codec *grpcframe.Codec) *forwarder {
	return &forwarder{s: s, codec: codec, conns: map[string]*grpc.ClientConn{}}
}

// forwarded reports whether the call was forwarded already.
func forwarded(ctx context.Context) bool {
	md, ok := metadata.FromIncomingContext(ctx)
	return ok && len(md.Get(hopKey)) > 0
}

// withoutHop is the context of a call that this broker makes on its own account while it serves a forwarded one.
func withoutHop(ctx context.Context) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.MD{})
}

// elsewhere reports whether a call for which broker id is responsible shall be forwarded to it.
func (s *Server) elsewhere(ctx context.Context, id cluster.BrokerID) bool {
	return id != s.broker.ID() && id != cluster.NoBroker && !forwarded(ctx)
}

// leaderOf names the leader of a partition.
func (s *Server) leaderOf(tp cluster.TopicPartition) cluster.BrokerID {
	p, ok := s.broker.Image().Partition(tp)
	if !ok {
		return cluster.NoBroker
	}
	return p.Leader
}

// ask sends a call on to another broker. Its refusals come back as they are.
func ask[S, Req, Resp any](ctx context.Context, s *Server, to cluster.BrokerID, service func(grpc.ClientConnInterface) S,
	method func(S, context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (Resp, error) {
	var zero Resp
	cc, err := s.forward.conn(ctx, to)
	if err != nil {
		return zero, err
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, hopKey, "1"), forwardTimeout)
	defer cancel()
	resp, err := method(service(cc), ctx, req)
	if st := status.Convert(err); err != nil && len(st.Details()) == 0 && st.Code() == codes.Unavailable {
		return zero, cluster.Refuse(cluster.CodeNotLeader, fmt.Sprintf("broker %d, which has to answer this, does not: %s", to, st.Message()))
	}
	return resp, err
}

func (f *forwarder) conn(ctx context.Context, to cluster.BrokerID) (*grpc.ClientConn, error) {
	endpoint := f.s.endpoint(ctx, to)
	if endpoint == "" {
		return nil, cluster.Refuse(cluster.CodeNotLeader, fmt.Sprintf("broker %d, which has to answer this, has no gRPC address", to))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errStopping()
	}
	if cc, ok := f.conns[endpoint]; ok {
		return cc, nil
	}
	creds := insecure.NewCredentials()
	if t := f.s.cfg.TLS; t != nil {
		creds = credentials.NewTLS(t)
	}
	cc, err := grpc.NewClient("passthrough:///"+endpoint,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(f.codec), grpc.MaxCallRecvMsgSize(f.s.cfg.MaxMessageBytes+1<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("moldau-broker"),
	)
	if err != nil {
		return nil, fmt.Errorf("grpcapi: address %q of broker %d: %w", endpoint, to, err)
	}
	f.conns[endpoint] = cc
	return cc, nil
}

func (f *forwarder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	var errs []error
	for _, cc := range f.conns {
		errs = append(errs, cc.Close())
	}
	clear(f.conns)
	return errors.Join(errs...)
}

// asPart turns the error of a forwarded call, or one of here, into a refusal for a part of a request.
func asPart(err error) *cluster.Error {
	var e *cluster.Error
	if errors.As(err, &e) {
		return e
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return cluster.Refuse(codeNamed(info.GetReason()), st.Message())
		}
	}
	if st.Code() == codes.DeadlineExceeded || st.Code() == codes.Canceled {
		return cluster.Refuse(cluster.CodeTimedOut, st.Message())
	}
	return cluster.Refuse(cluster.CodeUnknown, st.Message())
}

// codeNamed is the code of that name.
func codeNamed(name string) cluster.Code {
	for _, c := range cluster.Codes() {
		if c.String() == name {
			return c
		}
	}
	return cluster.CodeUnknown
}
