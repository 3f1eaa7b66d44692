package partition

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// This file declares the exported surface while the machine behind it is being written: every method refuses.
//
// It lacks what needs packages that are not there yet: Options.FS (vfs.FS) and Options.Meter (*meter.Set), and
//
//	func (m *Manager) Reconcile(d *cluster.Delta, self cluster.BrokerEpoch)

// Slice becomes an alias of segment.Slice.
type Slice = fetcher.Range

// ReadResult answers a ReadRequest. The caller releases Slice when Code is CodeNone and Slice is not empty.
type ReadResult struct {
	Code          cluster.Code
	Slice         Slice
	HighWatermark record.Offset
	LastStable    record.Offset
	LogStart      record.Offset
	LogEnd        record.Offset
	Leader        cluster.BrokerID // hint with CodeNotLeader and the epoch refusals
	LeaderEpoch   record.LeaderEpoch
	// Diverged says that the client's log position was cut off; Divergence tells where the epochs part.
	Diverged   bool
	Divergence cluster.EpochEnd
}

// Options configure a Manager.
type Options struct {
	Root      string // data directory; partitions live in Root/partitions
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	Cluster   cluster.ClusterID
	Outputs   Outputs
	Log       *slog.Logger
	Clock     Clock
	// FlushWorkers is how many fsyncs run at once; InboxSize bounds the inputs that wait for one partition.
	FlushWorkers, InboxSize int
	// LagMax is replica.lag.time.max.
	LagMax time.Duration
}

// Manager holds all replicas of a broker. Its methods may be called from any goroutine.
type Manager struct{}

// Runner is one replica with its goroutine. Its methods may be called from any goroutine.
type Runner struct{}

type waiters struct{ mu sync.Mutex }

// NewManager makes a manager that has opened nothing.
func NewManager(Options) (*Manager, error) { return &Manager{}, nil }

// Load recovers every local log, in parallel and bounded, before the broker registers.
func (m *Manager) Load(context.Context) (LoadReport, error) { return LoadReport{}, nil }

// Contact extends the controller lease to until, on the manager's clock.
func (m *Manager) Contact(until time.Duration) {}

// Get returns the local replica of a partition.
func (m *Manager) Get(cluster.TopicPartition) (*Runner, bool) { return nil, false }

// Leader returns the local replica if it leads; otherwise CodeNotLeader or CodeStorage, or CodeUnknownTopic when there is no replica.
func (m *Manager) Leader(cluster.TopicPartition) (*Runner, cluster.Code) {
	return nil, cluster.CodeUnknownTopic
}

// All iterates over the local replicas in key order.
func (m *Manager) All() iter.Seq2[cluster.TopicPartition, *Runner] {
	return func(func(cluster.TopicPartition, *Runner) bool) {}
}

// AlterResult hands over the controller's answer to a proposal of Outputs.Alter. A Code other than CodeNone in result means that nothing
// was decided by this proposal; result.Partition is the partition's state when known.
func (m *Manager) AlterResult(change cluster.ISRChange, result cluster.ItemResult) {}

// Close stops all runners and closes all logs with clean marks, in parallel and bounded, until ctx ends.
func (m *Manager) Close(ctx context.Context) error { return nil }

// Data implements fetcher.Target.
func (m *Manager) Data(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, d session.Data, recycle func()) bool {
	return false
}

// Refused implements fetcher.Target.
func (m *Manager) Refused(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, r session.Refused) {
}

// Lost implements fetcher.Target.
func (m *Manager) Lost(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch) {}

// Position implements fetcher.Target.
func (m *Manager) Position(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch) (fetcher.Position, bool) {
	return fetcher.Position{}, false
}

// Subscribe implements fetcher.Source.
func (m *Manager) Subscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s session.Subscribe, sink fetcher.Sink) {
}

// Unsubscribe implements fetcher.Source.
func (m *Manager) Unsubscribe(follower cluster.BrokerID, tp cluster.TopicPartition, id session.SubscriptionID) {
}

// Ack implements fetcher.Source.
func (m *Manager) Ack(follower cluster.BrokerID, epoch cluster.BrokerEpoch, tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, a session.Ack) {
}

// Produce hands a batch to the partition. It blocks only while the inbox is full, at most until the request's deadline. The answer comes
// through done, perhaps before Produce returns.
func (r *Runner) Produce(req ProduceRequest, done *Completion) {
	done.complete(ProduceResult{Code: cluster.CodeStorage, BaseOffset: -1})
}

// Read returns committed records over an atomic view, without waiting.
func (r *Runner) Read(ReadRequest) ReadResult { return ReadResult{Code: cluster.CodeStorage} }

// Wait registers w: wake receives a value, without blocking, once the high watermark is above the given offset, or at any other change that
// a parked fetch wants to know of. If that is already so, it wakes at once. It returns false when the partition has too many waiters.
func (r *Runner) Wait(w *Waiter, above record.Offset, wake chan<- struct{}) bool { return false }

// Cancel ends the registration, if there still is one. After it returns, no wake comes.
func (w *Waiter) Cancel() {}

// ListOffset answers a ListRequest over an atomic view. Kinds that search by time read indexes and records from disk.
func (r *Runner) ListOffset(ListRequest) (ListResult, error) { return ListResult{}, nil }

// EpochEnd says where a leader epoch ends; current fences the request (record.NoEpoch: not).
func (r *Runner) EpochEnd(current, asked record.LeaderEpoch) EpochEndResult {
	return EpochEndResult{}
}

// Status is a snapshot for administration and metrics. It may wait for the runner, briefly.
func (r *Runner) Status() Status { return Status{} }

// Partition names the partition.
func (r *Runner) Partition() cluster.TopicPartition { return cluster.TopicPartition{} }
