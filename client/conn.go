package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/internal/grpcframe"
)

// Flow control windows in bytes. A batch of half a megabyte should not wait for window updates.
const (
	streamWindow     = 8 << 20
	connectionWindow = 16 << 20
	socketBuffer     = 128 << 10
)

// connPool holds one connection per broker address.
type connPool struct {
	cfg  *config
	pool *grpcframe.Pool

	mu     sync.Mutex // guards what follows
	conns  map[string]*grpc.ClientConn
	order  []string // addresses that answer any call: the last good one first
	closed bool
}

func newConnPool(cfg *config) *connPool {
	return &connPool{cfg: cfg, pool: new(grpcframe.Pool), conns: map[string]*grpc.ClientConn{}, order: append([]string(nil), cfg.seeds...)}
}

// get returns the connection to a broker. It dials by name each time that it connects, so a broker may change its address.
func (p *connPool) get(endpoint string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if cc, ok := p.conns[endpoint]; ok {
		return cc, nil
	}
	creds := insecure.NewCredentials()
	if p.cfg.tls != nil {
		creds = credentials.NewTLS(p.cfg.tls)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(grpcframe.NewCodec(p.pool)), grpc.MaxCallRecvMsgSize(p.cfg.maxReceiveMessage)),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithReadBufferSize(socketBuffer),
		grpc.WithWriteBufferSize(socketBuffer),
		experimental.WithBufferPool(p.pool),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: p.cfg.dialTimeout,
		}),
		grpc.WithUserAgent(p.cfg.clientID),
		grpc.WithDisableServiceConfig(),
	}
	cc, err := grpc.NewClient("passthrough:///"+endpoint, append(opts, p.cfg.dialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("client: broker address %q: %w", endpoint, err)
	}
	p.conns[endpoint] = cc
	return cc, nil
}

// candidates lists addresses to try for a call that any broker answers.
func (p *connPool) candidates() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.order...)
}

// prefer puts an address that answered first, and learns it.
func (p *connPool) prefer(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.order) > 0 && p.order[0] == endpoint {
		return
	}
	order := []string{endpoint}
	for _, e := range p.order {
		if e != endpoint {
			order = append(order, e)
		}
	}
	p.order = order
}

// demote puts an address that did not answer last.
func (p *connPool) demote(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, e := range p.order {
		if e == endpoint {
			p.order = append(append(append([]string(nil), p.order[:i]...), p.order[i+1:]...), endpoint)
			return
		}
	}
}

// learn replaces the known brokers; the seeds stay behind them as a last resort.
func (p *connPool) learn(endpoints []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	known := map[string]bool{}
	for _, e := range append(append([]string(nil), endpoints...), p.cfg.seeds...) {
		known[e] = true
	}
	var order []string
	for _, list := range [][]string{p.order, endpoints, p.cfg.seeds} {
		for _, e := range list {
			if known[e] && !seen[e] {
				seen[e] = true
				order = append(order, e)
			}
		}
	}
	p.order = order
}

func (p *connPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, cc := range p.conns {
		errs = append(errs, cc.Close())
	}
	clear(p.conns)
	return errors.Join(errs...)
}

// await waits until the connection is there, has failed, or the dial timeout has passed. A failure before this point means that the
// broker has not seen the call.
func (p *connPool) await(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.dialTimeout)
	defer cancel()
	cc.Connect()
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return fmt.Errorf("client: connect to %s: %w", cc.Target(), status.Error(codes.Unavailable, state.String()))
		case connectivity.Idle:
			cc.Connect()
		}
		if !cc.WaitForStateChange(ctx, state) {
			return fmt.Errorf("client: connect to %s: %w", cc.Target(), status.Error(codes.Unavailable, ctx.Err().Error()))
		}
	}
}
