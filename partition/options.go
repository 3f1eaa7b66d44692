package partition

import (
	"errors"
	"log/slog"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/replication"
)

// Limits and defaults.
const (
	// DefaultFlushWorkers is how many fsyncs run at once. Measured on NVMe and on network disks, more than this only lengthens each.
	DefaultFlushWorkers = 8
	// DefaultInboxSize bounds the inputs that wait for one partition. Above it, callers wait or are told to come back.
	DefaultInboxSize = 256
	// DefaultRecoveryWorkers bounds how many logs are opened, created, removed or closed at once.
	DefaultRecoveryWorkers = 8
	// MaxWaiters bounds the parked fetches of one partition.
	MaxWaiters = 10_000
	// DefaultMaintainEvery is how often retention and producer expiry look at each partition.
	DefaultMaintainEvery = time.Minute
	// DefaultProducerExpiry is how long an idle producer's sequence numbers are remembered.
	DefaultProducerExpiry = 24 * time.Hour
	// DefaultSnapshotBytes is after how much appended log the producer state is written, so that a recovery replays little.
	DefaultSnapshotBytes = 64 << 20
	// DefaultFlightInputs is how many of the last inputs a partition remembers for the report of a failure.
	DefaultFlightInputs = 1000
	// gatherBytes bounds what one append gathers from several requests.
	gatherBytes = 1 << 20
)

// Options configure a Manager. FS, Root, Outputs and Directory are required.
type Options struct {
	FS        vfs.FS
	Root      string // data directory; replicas live in Root/partitions. The caller holds its lock (segment.LockDir).
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	// Cluster is the cluster id that the data directory belongs to; zero while it belongs to none.
	Cluster cluster.ClusterID
	Outputs Outputs
	Meter   *meter.Set
	Log     *slog.Logger
	Clock   Clock

	FlushWorkers, InboxSize, RecoveryWorkers int
	// FlightInputs is how many inputs each active partition remembers; below 0 for none.
	FlightInputs int
	// SnapshotBytes is after how much appended log a replica that runs writes a snapshot of its producers, with the next flush.
	SnapshotBytes  int
	LagMax         time.Duration // replica.lag.time.max
	MaintainEvery  time.Duration
	ProducerExpiry time.Duration
}

// withDefaults fills in what is zero and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.FS == nil || o.Root == "" || o.Outputs == nil:
		return o, errors.New("partition: FS, Root and Outputs are required")
	case o.Directory.IsZero():
		return o, errors.New("partition: the data directory has no id")
	case o.FlushWorkers < 0 || o.InboxSize < 0 || o.RecoveryWorkers < 0 || o.SnapshotBytes < 0 || o.LagMax < 0 || o.MaintainEvery < 0 || o.ProducerExpiry < 0:
		return o, errors.New("partition: a limit is below 0")
	}
	setDefault(&o.FlushWorkers, DefaultFlushWorkers)
	setDefault(&o.InboxSize, DefaultInboxSize)
	setDefault(&o.RecoveryWorkers, DefaultRecoveryWorkers)
	setDefault(&o.FlightInputs, DefaultFlightInputs)
	setDefault(&o.SnapshotBytes, DefaultSnapshotBytes)
	setDefault(&o.LagMax, replication.DefaultLagMax)
	setDefault(&o.MaintainEvery, DefaultMaintainEvery)
	setDefault(&o.ProducerExpiry, DefaultProducerExpiry)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = &systemClock{start: time.Now()}
	}
	return o, nil
}

// retried is the logger for what fails and is tried again: on a full disk every partition does, many times a second.
func (o *Options) retried() *slog.Logger {
	return lograte.New(o.Log, lograte.Lines, func() time.Time { return time.Unix(0, 0).Add(o.Clock.Now()) })
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// systemClock is the machine's time.
type systemClock struct{ start time.Time }

func (c *systemClock) Now() time.Duration { return time.Since(c.start) }
func (c *systemClock) WallMs() int64      { return time.Now().UnixMilli() }
