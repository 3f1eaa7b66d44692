package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/moldau-log/moldau/internal/admission"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/internal/grpcframe"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/meter"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// Flow control and socket sizes in bytes. A batch of half a megabyte should not wait for window updates.
const (
	streamWindow     = 8 << 20
	connectionWindow = 16 << 20
	socketBuffer     = 128 << 10
	maxHeaderList    = 16 << 10
)

// readyInterval is how often the health service asks the broker.
const readyInterval = 200 * time.Millisecond

// Server is the gRPC door of one broker.
type Server struct {
	cfg     Config
	broker  Backend
	groups  Groups
	log     *slog.Logger
	meters  *meters
	pool    *grpcframe.Pool
	budget  *budget.Budget // of all Produce streams
	rooms   *rooms
	inbound *inbound
	answers *budget.Budget // encoded answers that their clients have not taken; see answers.go
	built   *budget.Budget // answers that wait for room in answers
	forward *forwarder
	grpc    *grpc.Server
	health  *health.Server

	drain     chan struct{} // closed by Stop: streams end
	drainOnce sync.Once
	wg        sync.WaitGroup
}

// New builds the door of a broker. Serve opens it.
func New(cfg Config, b Broker, set *meter.Set, log *slog.Logger) *Server {
	return newServer(cfg, b, b.Groups(), set, log)
}

func newServer(cfg Config, b Backend, g Groups, set *meter.Set, log *slog.Logger) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, broker: b, groups: g, log: lograte.New(log, lograte.Lines, cfg.Now), meters: newMeters(set), pool: new(grpcframe.Pool),
		budget: budget.New(cfg.MaxInFlightBytes), answers: budget.New(cfg.MaxInFlightBytes), built: budget.New(builtAnswers),
		health: health.NewServer(), drain: make(chan struct{}),
	}
	codec := grpcframe.NewCodec(s.pool)
	s.inbound, s.rooms = newInbound(codec), newRooms(cfg.MaxInFlightBytes)
	s.forward = newForwarder(s, codec)
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(s.inbound),
		experimental.BufferPool(s.pool),
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes + 1<<16),
		grpc.MaxConcurrentStreams(uint32(cfg.MaxStreams)),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.ReadBufferSize(socketBuffer),
		grpc.WriteBufferSize(socketBuffer),
		grpc.ConnectionTimeout(cfg.HandshakeTimeout),
		// Clients of this project ping every 10 s while they have a call; nobody needs to ping more often than every 5 s.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cfg.IdleTimeout, Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.WaitForHandlers(true),
	}
	s.grpc = grpc.NewServer(append(opts, grpc.Creds(s.credentials()))...)
	moldauv1.RegisterLogServiceServer(s.grpc, &logService{Server: s})
	moldauv1.RegisterGroupServiceServer(s.grpc, &groupService{Server: s})
	moldauv1.RegisterAdminServiceServer(s.grpc, &adminService{Server: s})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if cfg.Reflection {
		reflection.Register(s.grpc)
	}
	return s
}

// admission is what looks at the batches of one goroutine.
func (s *Server) admission() *admission.Checker {
	return admission.NewChecker(admission.Config{Image: s.broker.Image, MaxDecompressed: s.cfg.MaxDecompressedBytes, Memory: s.cfg.Memory, Now: s.cfg.Now})
}

// Serve accepts connections until Stop, which makes it return nil, or until the listener fails.
func (s *Server) Serve(l net.Listener) error {
	s.wg.Go(s.watchReady)
	limited := conns.Listen(l, conns.Options{
		Limits:  conns.Limits{Whole: s.cfg.MaxConnections, Each: s.cfg.MaxConnectionsPerAddress},
		Refused: func(reason string) { s.meters.refused.With(listenerName, reason).Inc() },
		Changed: func(by int) { s.meters.connections.Add(float64(by)) },
		Log:     s.log,
	})
	if err := s.grpc.Serve(answerListener{limited, s}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("grpcapi: serve: %w", err)
	}
	return nil
}

// Stop ends the door: no new calls, streams are told to go elsewhere after what they have sent is answered. When ctx ends first, what is
// left is cut off. It may be called more than once.
func (s *Server) Stop(ctx context.Context) error {
	s.drainOnce.Do(func() {
		s.health.Shutdown()
		close(s.drain)
	})
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		err = fmt.Errorf("grpcapi: calls were cut off: %w", ctx.Err())
	}
	s.wg.Wait()
	return errors.Join(err, s.forward.close())
}

// services are the names that the health service knows; the empty one is the whole server.
var services = []string{"", "moldau.v1.LogService", "moldau.v1.GroupService", "moldau.v1.AdminService"}

// watchReady keeps the health service in step with the broker.
func (s *Server) watchReady() {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		state := healthpb.HealthCheckResponse_NOT_SERVING
		if ready, _ := s.broker.Ready(); ready {
			state = healthpb.HealthCheckResponse_SERVING
		}
		for _, name := range services {
			s.health.SetServingStatus(name, state)
		}
		select {
		case <-tick.C:
		case <-s.drain:
			return
		}
	}
}

// draining reports whether Stop was called.
func (s *Server) draining() bool {
	select {
	case <-s.drain:
		return true
	default:
		return false
	}
}

// untilDrain is ctx, ended also by Stop.
func (s *Server) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-s.drain:
			cancel()
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(stop); cancel() })
}
