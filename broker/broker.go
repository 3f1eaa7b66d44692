package broker

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
)

// Options say who a broker is and what it is built on. All ports are required.
type Options struct {
	ID          cluster.BrokerID
	Directory   cluster.DirectoryID
	Incarnation cluster.IncarnationID
	// Registration is what the controller is told: addresses, rack, version, feature levels. ID, Directory and Incarnation are filled in.
	Registration cluster.Broker
	// PreviousEpoch is the broker epoch of the clean-stop marker, NoBrokerEpoch without one.
	PreviousEpoch cluster.BrokerEpoch
	// PreviousStarts are the runs since that marker, of which none is known to be registered.
	PreviousStarts []cluster.IncarnationID
	// Registered is called once, when this run is registered and before it acts on any partition. Its error ends the start.
	Registered func() error

	DefaultPartitions  int32
	DefaultReplication int16
	AutoCreate         bool  // create a topic when a client first asks for it, unless the dynamic config says otherwise
	DiskReserve        int64 // bytes; below it produce is refused
	LagMax             time.Duration
	FlushWorkers       int
	Root               string // of the partition directories
	Groups             consumergroup.Config
	Memory             *record.Memory // counts what decompressions hold; nil for nothing

	FS         vfs.FS
	Controller *controller.Controller
	Forwarder  Forwarder
	// Transport opens replication streams to the leaders of other brokers.
	Transport fetcher.Transport
	Clock     partition.Clock
	Meter     *meter.Set
	Log       *slog.Logger
	// Refusing names brokers whose peer port refuses connections, each once per outage: the controller need not wait for the end of their sessions.
	Refusing func() []cluster.BrokerID
	// Fatal is called when the broker must not go on: its registration was superseded.
	Fatal func(error)
}

// Broker is one running broker. Its methods are safe on any goroutine.
type Broker struct {
	id          cluster.BrokerID
	options     Options
	log         *slog.Logger
	clock       partition.Clock
	meters      meters
	controller  *controller.Controller
	partitions  *partition.Manager
	fetcher     *fetcher.Fetcher
	sender      *fetcher.Sender
	forwarder   Forwarder
	groups      *consumergroup.Coordinator
	outputs     *outputs
	session     atomic.Pointer[controller.Session]
	producerIDs producerIDs

	epoch        atomic.Int64                  // cluster.BrokerEpoch
	again        chan struct{}                 // capacity 1: has the loop look at the image again
	unfinished   bool                          // the loop's own: replicas are yet to be created
	acted        atomic.Pointer[cluster.Image] // the newest image that the loop has acted on; nil before the first
	stopping     atomic.Bool
	diskFull     atomic.Bool
	contactUntil atomic.Int64 // time.Duration on clock

	ctx    context.Context // ends when the broker stops
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type meters struct {
	produced, fetched, elections *meter.CounterVec
}

// New builds a broker that does nothing yet. The controller must know its cluster id.
func New(o Options) (*Broker, error) {
	b := &Broker{
		id: o.ID, options: o, log: o.Log, clock: o.Clock, controller: o.Controller, forwarder: o.Forwarder,
		again: make(chan struct{}, 1),
		meters: meters{
			produced: o.Meter.Counter("moldau_produced_bytes_total", "Bytes of record batches appended by producers.", "topic"),
			fetched:  o.Meter.Counter("moldau_fetched_bytes_total", "Bytes of record batches sent to readers.", "topic", "source"),
			elections: o.Meter.Counter("moldau_leader_elections_total",
				"Elections that this broker won; unclean ones can lose acknowledged records.", "kind"),
		},
	}
	b.epoch.Store(int64(cluster.NoBrokerEpoch))
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.outputs = newOutputs(b)
	var err error
	b.partitions, err = partition.NewManager(partition.Options{
		FS: o.FS, Root: o.Root, Broker: o.ID, Directory: o.Directory, Cluster: o.Controller.Image().ClusterID(),
		Outputs: b.outputs, Log: o.Log, Clock: o.Clock, FlushWorkers: o.FlushWorkers, LagMax: o.LagMax, Meter: o.Meter,
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	b.fetcher = fetcher.New(fetcher.Config{Transport: o.Transport, Target: b.partitions, Log: o.Log})
	b.sender = fetcher.NewSender(fetcher.SenderConfig{Source: b.partitions, Log: o.Log})
	b.groups, err = consumergroup.Open(o.Groups, consumergroup.Ports{
		Log:         coordinatorLog{o.Controller},
		Topics:      func() consumergroup.Topics { return b.Image() },
		LeaseValid:  b.inContact,
		NewMemberID: func() string { return cluster.DrawUUID(crand.Read).String() },
		Lag:         b,
		Meter:       o.Meter,
		Logger:      o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	for _, kind := range []string{electionPreferred, electionFailover, electionUnclean} {
		b.meters.elections.With(kind) // a series that is there before its first event can be alerted on
	}
	b.observe(o.Meter)
	return b, nil
}

// ID is the broker's id.
func (b *Broker) ID() cluster.BrokerID { return b.id }

// Image is the newest metadata that this broker has applied.
func (b *Broker) Image() *cluster.Image { return b.controller.Image() }

// Epoch is the broker epoch of this incarnation, NoBrokerEpoch before it is registered.
func (b *Broker) Epoch() cluster.BrokerEpoch { return cluster.BrokerEpoch(b.epoch.Load()) }

// ServeFollower serves the replication stream that a follower has opened, until it ends.
func (b *Broker) ServeFollower(follower cluster.BrokerID, epoch cluster.BrokerEpoch, stream fetcher.LeaderStream) {
	b.sender.Serve(follower, epoch, stream)
}

// Controller names the Raft leader, if one is known.
func (b *Broker) Controller() (cluster.BrokerID, bool) {
	_, id, ok := b.controller.Leader()
	return id, ok
}

// Start recovers the local logs, registers with the controller and begins to serve. It returns when the broker is registered; Ready tells when it is unfenced.
func (b *Broker) Start(ctx context.Context) error {
	report, err := b.partitions.Load(ctx)
	if err != nil {
		return fmt.Errorf("broker: recover local logs: %w", err)
	}
	b.log.Info("local logs recovered", slog.Int("opened", report.Opened), slog.Int("unclean", report.Unclean), slog.Int("damaged", len(report.Damaged)), slog.Int("failed", len(report.Failed)),
		slog.Int("doubtful", len(report.Doubtful)), slog.Int("missing", len(report.Missing)))
	b.wg.Go(func() { b.follow(b.ctx) })
	b.wg.Go(func() { b.outputs.run(b.ctx) })
	b.wg.Go(func() { b.watchDisk(b.ctx) })

	reg := b.options.Registration
	reg.ID, reg.Directory, reg.Incarnation = b.id, b.options.Directory, b.options.Incarnation
	damaged := slices.Concat(report.Damaged, report.Doubtful, report.Missing)
	registration := func(previous cluster.BrokerEpoch, starts []cluster.IncarnationID, damaged []cluster.TopicPartition) cluster.RegisterBroker {
		return cluster.RegisterBroker{Broker: reg, Cluster: b.Image().ClusterID(), PreviousEpoch: previous, PreviousStarts: starts, Damaged: damaged}
	}
	session := b.controller.NewSession(controller.SessionEvents{Contact: b.contact, Handled: b.handled, Registered: b.registeredAs,
		// The life goes on: there was no stop that a marker could speak of, and what has been copied since the start is complete.
		Registration: func(cluster.BrokerEpoch) cluster.RegisterBroker {
			again := registration(cluster.NoBrokerEpoch, nil, stillOffline(slices.Values(damaged), b.partitions.Leader))
			for _, tp := range stillOffline(b.partitions.Held(), b.partitions.Leader) {
				again.Logs = append(again.Logs, cluster.ReplicaLog{Partition: tp, Log: cluster.UnknownLog})
			}
			return again
		}})
	session.ReportOffline(report.Failed...)
	first := registration(b.options.PreviousEpoch, b.options.PreviousStarts, damaged)
	first.Logs, first.LogsTold = report.Logs, true
	epoch, err := session.Register(ctx, first)
	if err == nil {
		err = b.options.Registered()
	}
	if err != nil {
		return fmt.Errorf("broker: register: %w", err)
	}
	b.partitions.Registered()
	b.session.Store(session)
	b.registeredAs(epoch)
	b.wg.Go(func() { session.Run(b.ctx) })
	return nil
}

// stillOffline picks those replicas that do not work now. lead is Manager.Leader. What was doubtful or missing at the start and works now has been copied anew, and
// may be the only complete one by now.
func stillOffline(list iter.Seq[cluster.TopicPartition], lead func(cluster.TopicPartition) (*partition.Runner, cluster.Code)) []cluster.TopicPartition {
	var offline []cluster.TopicPartition
	for tp := range list {
		if _, code := lead(tp); code == cluster.CodeStorage {
			offline = append(offline, tp)
		}
	}
	return offline
}

// registeredAs makes a broker epoch the present one. Everything that carries the old one is refused from then on.
func (b *Broker) registeredAs(epoch cluster.BrokerEpoch) {
	b.epoch.Store(int64(epoch))
	b.fetcher.SetEpoch(epoch)
	b.wakeLoop()
	b.log.Info("registered with the controller", slog.Int64("broker_epoch", int64(epoch)))
}

// contact extends the lease that gates answers which need a controller (partition.Manager.Contact).
func (b *Broker) contact(until time.Duration) {
	b.contactUntil.Store(int64(until))
	b.partitions.Contact(until)
	if s := b.session.Load(); s != nil {
		for _, id := range b.options.Refusing() {
			s.ReportRefusing(id)
		}
	}
}

// inContact gates what a coordinator answers without a commit. A broker that drains has handed its shards over as soon as it knows.
func (b *Broker) inContact() bool {
	me, ok := b.Image().Broker(b.id)
	return ok && !me.Draining && b.clock.Now() < time.Duration(b.contactUntil.Load())
}

// Stop ends everything the broker runs and closes the logs with clean marks. The controller stays open: its owner closes it afterwards.
func (b *Broker) Stop(ctx context.Context) error {
	b.stopping.Store(true)
	b.cancel()
	b.groups.Close()
	b.fetcher.Close()
	b.wg.Wait()
	if err := b.partitions.Close(ctx); err != nil {
		return fmt.Errorf("broker: close logs: %w", err)
	}
	return nil
}

// proposeTimeout bounds an administrative command whose caller has set no deadline.
const proposeTimeout = 30 * time.Second

// propose commits a command and waits until this broker has applied it. A refusal of the command is an error.
func (b *Broker) propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	res, err := b.controller.Propose(ctx, cmd)
	if err != nil {
		return res, AsRefusal(err)
	}
	if res.Code != cluster.CodeNone {
		return res, cluster.Refuse(res.Code, res.Message)
	}
	return res, nil
}

// AsRefusal gives every error the form that doors map: the refusal in it, or what a broken-off or failed call is told.
func AsRefusal(err error) *cluster.Error {
	var e *cluster.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return cluster.Refuse(cluster.CodeTimedOut, "no answer within the request's time; the outcome is unknown")
	case errors.Is(err, controller.ErrClosed):
		return cluster.Refuse(cluster.CodeShuttingDown, "the broker is stopping; ask another one")
	}
	return cluster.Refuse(cluster.CodeUnknown, err.Error())
}
