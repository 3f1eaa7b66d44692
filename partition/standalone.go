package partition

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/segment"
)

// Opener opens partitions for an owner that drives them by itself, on one goroutine and on a clock of its own, instead of through a Manager. Such an
// owner keeps the contract of Partition: turns of Begin, inputs and Settle; each FlushJob run and told to FlushDone; a Tick at each deadline.
type Opener struct {
	options   Options
	env       *environment
	inventory *inventory
}

// NewOpener checks the options, of which workers, inbox and maintenance are not used. lease says until when the controller's word holds, on the
// clock of the options. The directory Root/partitions must be there, durably, before Open.
func NewOpener(o Options, lease func() time.Duration) (*Opener, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	retried := o.retried()
	return &Opener{options: o, inventory: &inventory{options: &o, retried: retried}, env: &environment{
		self: o.Broker, outputs: o.Outputs, clock: o.Clock, log: o.Log, retried: retried, meters: newMeters(o.Meter), lagMax: o.LagMax, expiry: o.ProducerExpiry,
		flight: o.FlightInputs, snapshotBytes: int64(o.SnapshotBytes), lease: lease,
	}}, nil
}

// Dir is where the replica of a partition lives.
func (o *Opener) Dir(tp cluster.TopicPartition) string {
	return filepath.Join(o.options.Root, partitionsDir, tp.String())
}

// Found is a replica that a data directory holds.
type Found struct {
	Partition cluster.TopicPartition
	Identity  segment.Identity
}

// Scan lists the replicas on disk and finishes deletions that were begun, as Manager.Load does. What it does not know is in the report, as Strange, and what
// is not there any more, as Missing, and those whose identity the disk did not give, as Failed. It comes before everything else.
func (o *Opener) Scan() ([]Found, LoadReport, error) {
	var report LoadReport
	places, err := scan(&o.options, filepath.Join(o.options.Root, partitionsDir), &report)
	var found []Found
	for _, at := range places {
		if at.unread != nil {
			report.Failed = append(report.Failed, at.tp)
			continue
		}
		found = append(found, Found{Partition: at.tp, Identity: at.identity})
	}
	if err != nil {
		return found, report, err
	}
	missing, err := o.inventory.compare(places)
	for _, at := range missing {
		report.Missing = append(report.Missing, at.tp)
	}
	return found, report, err
}

// Create opens or creates the replica of a partition of that image, and lists it durably; see Open.
func (o *Opener) Create(tp cluster.TopicPartition, image *cluster.Image) (*Standalone, error) {
	id, ok := identityOf(image, tp)
	if !ok {
		return nil, fmt.Errorf("partition: %s has no topic in the metadata", tp)
	}
	s, err := o.Open(tp, id)
	if err != nil {
		return nil, err
	}
	o.inventory.add(tp, id.Topic)
	if err := o.inventory.save(); err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// Remove deletes the files of a replica that is not open, if there are any.
func (o *Opener) Remove(tp cluster.TopicPartition) error {
	if err := removeDir(o.options.FS, filepath.Join(o.options.Root, partitionsDir), tp); err != nil {
		return err
	}
	o.Forget(tp)
	return nil
}

// SettleDoubt is Manager.Registered for one replica.
func (o *Opener) SettleDoubt(tp cluster.TopicPartition) error {
	return segment.SettleDoubt(o.options.FS, filepath.Join(o.options.Root, partitionsDir, tp.String()))
}

// Forget takes a replica that is missing, and that the metadata does not place here any more, off the list.
func (o *Opener) Forget(tp cluster.TopicPartition) {
	o.inventory.remove(tp)
	o.inventory.saveOrLater()
}

// Standalone is a partition without a Runner, with the reading side that a Runner has. One goroutine uses all of it.
type Standalone struct {
	*Partition
	// Report says what recovery found.
	Report segment.Report
	reader reader
}

// Open opens or creates the log of a partition and recovers it. The errors are those of segment.Open and of rebuilding the producer state; nothing
// is left open then.
func (o *Opener) Open(tp cluster.TopicPartition, id segment.Identity) (*Standalone, error) {
	log, report, err := segment.Open(o.options.FS, o.Dir(tp), id, segment.DefaultConfig())
	if err != nil {
		return nil, doubted(report, err)
	}
	s := &Standalone{Report: report}
	s.reader.log = log
	s.reader.lease = func() bool { return o.options.Clock.Now() < o.env.lease() }
	s.Partition = newPartition(o.env, tp, id.Topic, log, nil, &s.reader)
	s.Begin(o.options.Clock.Now(), o.options.Clock.WallMs())
	if err := s.loadProducers(); err != nil {
		log.Abandon()
		return nil, doubted(report, err)
	}
	s.show()
	return s, nil
}

// Inform takes what the metadata says of the partition: its configuration, its state, and its peers. It does nothing when image does not know it.
func (s *Standalone) Inform(image *cluster.Image) {
	topic, ok := image.Topic(s.tp.Topic)
	state, known := image.Partition(s.tp)
	if !ok || !known {
		return
	}
	s.Partition.Inform(Settings{Topic: image.TopicConfig(topic), MinISR: image.MinISR(topic, state)}, changeOf(image, state))
}

// OnDamage sets who is told of damage that a read has found: Partition.Damaged is to be called with it, in a turn.
func (s *Standalone) OnDamage(f func(*segment.DamageError)) { s.reader.damage = f }

// changeOf is the input that brings a partition's state and what is known of its replicas' brokers.
func changeOf(image *cluster.Image, state *cluster.Partition) replication.PartitionChanged {
	in := replication.PartitionChanged{State: state, Peers: make([]replication.Peer, len(state.Replicas))}
	for i, b := range state.Replicas {
		in.Peers[i] = replication.Peer{Broker: b, Epoch: cluster.NoBrokerEpoch}
		if broker, ok := image.Broker(b); ok {
			in.Peers[i].Epoch, in.Peers[i].Eligible = broker.Epoch, broker.Eligible() && image.Holds(state, b)
		}
	}
	return in
}

// Read returns committed records; see Runner.Read.
func (s *Standalone) Read(req ReadRequest) ReadResult { return s.reader.read(req) }

// ListOffset answers a ListRequest; see Runner.ListOffset.
func (s *Standalone) ListOffset(ctx context.Context, req ListRequest) (ListResult, error) {
	return s.reader.list(ctx, req)
}

// Position says where a follower under that leader epoch subscribes from; see fetcher.Target.
func (s *Standalone) Position(leaderEpoch record.LeaderEpoch) (fetcher.Position, bool) {
	return s.reader.position(leaderEpoch)
}

// Reader reads the log up to its end as a follower of the present leadership does; every read is refused while the replica does not lead.
func (s *Standalone) Reader() fetcher.Reader {
	return &replicaReader{p: &s.reader, epoch: s.replica.LeaderEpoch()}
}
