package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/grpcapi"
	"github.com/moldau-log/moldau/httpapi"
	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/kafka"
	"github.com/moldau-log/moldau/peer"
	"github.com/moldau-log/moldau/record"
)

// Metadata feature levels that this software supports.
const (
	minLevel = cluster.LevelFirst
	maxLevel = cluster.LevelNewest
)

// Server is one broker with all its doors.
type Server struct {
	cfg     config.Config
	version string
	log     *slog.Logger
	clock   *clock
	meters  *meter.Set

	dir        *directory
	ports      listeners
	peer       *peer.Peer
	controller *controller.Controller
	broker     *broker.Broker
	grpc       *grpcapi.Server
	kafka      *kafka.Server
	http       *httpapi.Server

	incarnation cluster.IncarnationID
	// metadata and application are controller and broker for those who may ask before they exist.
	metadata    atomic.Pointer[controller.Controller]
	application atomic.Pointer[broker.Broker]
	fatal       chan error // capacity 1: why the broker must end
	wg          sync.WaitGroup
}

// New locks the data directory, opens every port and reads the Raft files, so that what an operator got wrong shows at once. Start makes it a broker.
func New(cfg config.Config, version string, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, version: version, log: log.With(slog.Int("broker", int(cfg.ID))), clock: newClock(), meters: meter.NewSet(), fatal: make(chan error, 1),
	}
	s.incarnation = cluster.DrawUUID(rand.Read)
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if s.dir, err = openDirectory(s.cfg.Data, cluster.BrokerID(s.cfg.ID), s.incarnation); err != nil {
		return err
	}
	if s.ports, err = listen(s.cfg); err != nil {
		return err
	}
	s.peer, err = peer.New(peer.Config{
		Listener: s.ports.peer,
		Self:     s.identity,
		Resolve:  s.resolve,
		Log:      s.log,
	})
	if err != nil {
		return err
	}
	address := advertised(s.cfg.Peer, s.ports.peer)
	c := controller.DefaultConfig()
	c.Broker, c.Directory, c.Cluster = s.dir.broker, s.dir.id, s.dir.clusterID()
	c.Dir = filepath.Join(s.dir.path, "raft")
	c.Address, c.Seeds, c.BootstrapExpect = address, s.cfg.Seeds, s.cfg.BootstrapExpect
	c.SessionHeartbeat, c.SessionTimeout = s.cfg.Session.Heartbeat, s.cfg.Session.Timeout
	s.controller, err = controller.Open(c, controller.Ports{
		Streams: s.peer.StreamLayer(address), Calls: s.peer, Fatal: s.fail, Now: s.clock.Now, Log: s.log, Meter: s.meters,
	})
	if err != nil {
		return err
	}
	s.metadata.Store(s.controller)
	return nil
}

// identity is what the hello of every peer connection says of us.
func (s *Server) identity() peer.Identity {
	id := peer.Identity{Broker: s.dir.broker, Directory: s.dir.id, Incarnation: s.incarnation, Cluster: s.dir.clusterID()}
	if c := s.metadata.Load(); c != nil {
		if known := c.Image().ClusterID(); !known.IsZero() {
			id.Cluster = known
		}
	}
	return id
}

// resolve says where a registered broker's peer port is.
func (s *Server) resolve(id cluster.BrokerID) (controller.Endpoint, bool) {
	c := s.metadata.Load()
	if c == nil {
		return controller.Endpoint{}, false
	}
	br, ok := c.Image().Broker(id)
	if !ok {
		return controller.Endpoint{}, false
	}
	return controller.Endpoint{Address: br.PeerAddress, Server: peer.ServerID(br.ID, br.Directory)}, true
}

// fail ends the broker: it must not go on. The first reason is kept.
func (s *Server) fail(err error) {
	select {
	case s.fatal <- err:
	default:
	}
}

// Fatal gives the reason for which the broker must end; whoever runs the server then calls Stop and exits.
func (s *Server) Fatal() <-chan error { return s.fatal }

// Start makes the server part of a cluster and serves. It returns when the broker is registered and its doors are open; Ready tells when it is in service.
func (s *Server) Start(ctx context.Context) error {
	s.peer.SetHandlers(peer.Handlers{Control: s.controller.Serve})
	s.http = httpapi.New(httpapi.Config{Version: s.version, Descriptors: conns.Descriptors(), Log: s.log}, s, s.meters)
	s.wg.Go(func() { s.serving("http", s.http.Serve(s.ports.http)) })
	s.controller.Start()
	select {
	case <-s.controller.Formed():
	case err := <-s.fatal:
		return err
	case <-ctx.Done():
		return fmt.Errorf("server: not part of a cluster yet: %w", ctx.Err())
	}
	if err := s.dir.joined(s.controller.Image().ClusterID()); err != nil {
		return err
	}
	if err := s.startBroker(ctx); err != nil {
		return err
	}
	s.wg.Go(func() { s.serving("grpc", s.grpc.Serve(s.ports.grpc)) })
	s.wg.Go(func() { s.serving("kafka", s.kafka.Serve(s.ports.kafka)) })
	for _, l := range s.ports.named {
		as := kafka.Listener{Name: kafka.ListenerName(l.Name), Auto: s.auto(l.Door)}
		s.wg.Go(func() { s.serving(as.Name, s.kafka.ServeListener(as, l.Listener)) })
	}
	return nil
}

func (s *Server) startBroker(ctx context.Context) (err error) {
	registration, err := s.registration()
	if err != nil {
		return err
	}
	memory := record.NewMemory(s.cfg.Limits.MaxInFlightBytes)
	groups := consumergroup.DefaultConfig()
	groups.Broker = s.dir.broker
	groups.OffsetsRetention = s.cfg.Group.OffsetsRetention
	groups.Group.MaxMembers = s.cfg.Group.MaxMembers
	s.broker, err = broker.New(broker.Options{
		ID: s.dir.broker, Directory: s.dir.id, Incarnation: s.incarnation, Registration: registration,
		PreviousEpoch: s.dir.previous.BrokerEpoch, PreviousStarts: s.dir.previous.Starts, Registered: s.dir.dropCleanStop,
		DefaultPartitions: s.cfg.Topic.Partitions, DefaultReplication: s.cfg.DefaultReplicationFactor(), AutoCreate: s.cfg.Topic.AutoCreate,
		DiskReserve: s.cfg.Storage.ReserveBytes, LagMax: s.cfg.Replica.LagMax, FlushWorkers: s.cfg.Storage.FlushWorkers,
		Root: s.dir.path, Groups: groups, Memory: memory, FS: vfs.OS{}, Controller: s.controller, Forwarder: s.peer,
		Transport: s.peer,
		Clock:     s.clock, Meter: s.meters, Log: s.log, Refusing: s.peer.Refusing, Fatal: s.fail,
	})
	if err != nil {
		return err
	}
	s.application.Store(s.broker)
	s.peer.SetHandlers(peer.Handlers{
		Control:     s.controller.Serve,
		Forward:     s.broker.Forwarded,
		Replication: s.broker.ServeFollower,
	})
	s.grpc = grpcapi.New(grpcapi.Config{MaxMessageBytes: s.cfg.Limits.MaxRequestBytes, MaxInFlightBytes: s.cfg.Limits.MaxInFlightBytes, Reflection: s.cfg.GRPCReflection, Memory: memory, Descriptors: conns.Descriptors()}, s.broker, s.meters, s.log)
	s.kafka = kafka.New(kafka.Config{
		MaxRequestBytes: s.cfg.Limits.MaxRequestBytes, MaxInFlightBytes: s.cfg.Limits.MaxInFlightBytes, DataDir: s.dir.path, Memory: memory,
		AutoAdvertise: s.auto(s.cfg.Kafka), Descriptors: conns.Descriptors(),
	}, s.broker, s.meters, s.log)
	return s.broker.Start(ctx)
}

// auto says whether clients of a Kafka listener are told the address that they have reached it by: a single broker that was told no other.
func (s *Server) auto(d config.Door) bool { return d.Advertise == "" && len(s.cfg.Seeds) == 0 }

func (s *Server) registration() (cluster.Broker, error) {
	reg := cluster.Broker{
		PeerAddress: advertised(s.cfg.Peer, s.ports.peer), Rack: s.cfg.Rack, Version: s.version, MinLevel: minLevel, MaxLevel: maxLevel,
	}
	doors := []struct{ name, address string }{
		{kafka.ListenerName(""), advertised(s.cfg.Kafka, s.ports.kafka)}, {"grpc", advertised(s.cfg.GRPC, s.ports.grpc)}, {"http", advertised(s.cfg.HTTP, s.ports.http)},
	}
	for _, l := range s.ports.named {
		doors = append(doors, struct{ name, address string }{kafka.ListenerName(l.Name), advertised(l.Door, l.Listener)})
	}
	for _, d := range doors {
		l, err := registeredListener(d.name, d.address)
		if err != nil {
			return reg, err
		}
		reg.Listeners = append(reg.Listeners, l)
	}
	return reg, nil
}

func (s *Server) serving(door string, err error) {
	if err != nil {
		s.fail(fmt.Errorf("server: %s door: %w", door, err))
	}
}

// Ready reports whether the broker is in service; the reason is for people.
func (s *Server) Ready() (bool, string) {
	b := s.application.Load()
	if b == nil {
		return false, "the broker waits for its cluster: to be formed, joined, or to have a controller again; its log says which brokers are missing"
	}
	return b.Ready()
}

// Addresses are the addresses that the doors are bound to.
type Addresses struct {
	Kafka, GRPC, Peer, HTTP string
	Listeners               map[string]string // of the named Kafka listeners, by their names; nil without any
}

// Addresses gives the bound addresses, useful with port 0.
func (s *Server) Addresses() Addresses {
	a := Addresses{
		Kafka: s.ports.kafka.Addr().String(), GRPC: s.ports.grpc.Addr().String(), Peer: s.ports.peer.Addr().String(), HTTP: s.ports.http.Addr().String(),
	}
	for _, l := range s.ports.named {
		if a.Listeners == nil {
			a.Listeners = map[string]string{}
		}
		a.Listeners[l.Name] = l.Addr().String()
	}
	return a
}

// Stop is the orderly stop: leaderships move away first, bounded by shutdown.drain; then the doors close, the logs get clean marks and Raft ends. ctx bounds it all.
func (s *Server) Stop(ctx context.Context) error {
	var errs []error
	if s.broker != nil {
		drain, cancel := context.WithTimeout(ctx, s.cfg.Shutdown.Drain)
		if err := s.broker.Drain(drain); err != nil {
			s.log.Warn("leaderships did not all move away before the stop", slog.Any("error", err))
		}
		cancel()
		s.stopDoors(ctx)
		if err := s.broker.Stop(ctx); err != nil {
			errs = append(errs, err)
		} else {
			errs = append(errs, s.dir.writeCleanStop(s.broker.Epoch()))
		}
		if err := s.controller.TransferLeadership(ctx); err != nil {
			s.log.Info("raft leadership was not handed over", slog.Any("error", err))
		}
	}
	return errors.Join(append(errs, s.release())...)
}

// stopDoors ends the clients' doors side by side: each may wait for its connections until ctx ends.
func (s *Server) stopDoors(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { s.grpc.Stop(ctx) })
	wg.Go(func() {
		if err := s.kafka.Stop(ctx); err != nil {
			s.log.Info("kafka connections were cut off", slog.Any("error", err))
		}
	})
	wg.Wait()
}

// release closes whatever is open, in the order in which nobody is called after its end.
func (s *Server) release() error {
	var errs []error
	if s.controller != nil {
		errs = append(errs, s.controller.Close())
	}
	if s.peer != nil {
		errs = append(errs, s.peer.Close())
	}
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		errs = append(errs, s.http.Stop(ctx))
		cancel()
	}
	s.ports.close()
	s.wg.Wait()
	if s.dir != nil {
		errs = append(errs, s.dir.close())
	}
	return errors.Join(errs...)
}
