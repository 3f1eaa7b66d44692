package partition

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication"
)

// partitionsDir is the directory below the data directory that holds the replicas.
const partitionsDir = "partitions"

// ErrClosed says that the manager was closed.
var ErrClosed = errors.New("partition: manager is closed")

// Manager holds all replicas of a broker. Its methods may be called from any goroutine.
type Manager struct {
	options   Options
	env       *environment
	root      string
	pool      *pool
	deadlines *deadlines
	lease     atomic.Int64 // time.Duration on the clock
	runners   sync.Map     // cluster.TopicPartition -> *Runner

	stop    chan struct{} // closed by Close
	stopped sync.WaitGroup

	early EarlyRefusals

	mu        sync.Mutex // serialises Load, Reconcile and Close; guards what follows
	planner   *Planner
	inventory *inventory
	doubtful  []cluster.TopicPartition // of Load, until Registered
	counted   []cluster.TopicPartition // could not be opened by Load, and kept their places
	waiting   []cluster.TopicPartition // for room on the disk; Retry opens them, if they are still wanted
	closed    bool
}

// NewManager makes a manager that has opened nothing, and starts its clock goroutine.
func NewManager(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		options: o, root: filepath.Join(o.Root, partitionsDir), pool: newPool(o.FlushWorkers), deadlines: newDeadlines(),
		stop: make(chan struct{}), planner: NewPlanner(o.Broker, o.Directory),
	}
	retried := o.retried()
	m.inventory = &inventory{options: &m.options, retried: retried}
	m.lease.Store(int64(-1 << 62))
	m.env = &environment{
		self: o.Broker, outputs: o.Outputs, clock: o.Clock, log: o.Log, retried: retried, meters: newMeters(o.Meter), lagMax: o.LagMax, expiry: o.ProducerExpiry,
		flight: o.FlightInputs, snapshotBytes: int64(o.SnapshotBytes), lease: func() time.Duration { return time.Duration(m.lease.Load()) },
	}
	m.stopped.Go(m.run)
	return m, nil
}

// Contact extends the controller lease to until, on the manager's clock. It never shortens it.
func (m *Manager) Contact(until time.Duration) {
	for {
		old := m.lease.Load()
		if int64(until) <= old || m.lease.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// leased reports whether the controller's word holds now.
func (m *Manager) leased() bool { return m.options.Clock.Now() < time.Duration(m.lease.Load()) }

// Get returns the local replica of a partition.
func (m *Manager) Get(tp cluster.TopicPartition) (*Runner, bool) {
	r, ok := m.runners.Load(tp)
	if !ok {
		return nil, false
	}
	return r.(*Runner), true
}

// NoteRefused takes note of a batch that the broker has refused before any replica saw it (Partition.NoteRefused), also when there is no replica yet.
func (m *Manager) NoteRefused(tp cluster.TopicPartition, batch []byte) {
	m.early.Note(tp, batch)
	if r, ok := m.Get(tp); ok {
		m.handOver(r)
	}
}

// handOver tells a replica what was refused on its behalf. Whoever notes and whoever makes the replica both call it, each after its own part, so nothing stays.
func (m *Manager) handOver(r *Runner) {
	for _, head := range m.early.Take(r.tp) {
		r.NoteRefused(head)
	}
}

// Leader returns the local replica if it leads; otherwise CodeNotLeader or CodeStorage, or CodeUnknownTopic when there is no replica.
func (m *Manager) Leader(tp cluster.TopicPartition) (*Runner, cluster.Code) {
	r, ok := m.Get(tp)
	if !ok {
		return nil, cluster.CodeUnknownTopic
	}
	switch r.Role() {
	case RoleLeader:
		return r, cluster.CodeNone
	case RoleOffline:
		return nil, cluster.CodeStorage
	}
	return nil, cluster.CodeNotLeader
}

// All iterates over the local replicas in key order.
func (m *Manager) All() iter.Seq2[cluster.TopicPartition, *Runner] {
	return func(yield func(cluster.TopicPartition, *Runner) bool) {
		for _, r := range m.sorted() {
			if !yield(r.tp, r) {
				return
			}
		}
	}
}

// Held iterates over the partitions of the local replicas in key order.
func (m *Manager) Held() iter.Seq[cluster.TopicPartition] {
	return func(yield func(cluster.TopicPartition) bool) {
		for tp := range m.All() {
			if !yield(tp) {
				return
			}
		}
	}
}

// sorted lists the local replicas in key order.
func (m *Manager) sorted() []*Runner {
	var all []*Runner
	m.runners.Range(func(_, r any) bool {
		all = append(all, r.(*Runner))
		return true
	})
	slices.SortFunc(all, func(a, b *Runner) int { return a.tp.Compare(b.tp) })
	return all
}

// AlterResult hands over the controller's answer to a proposal of Outputs.Alter. A Code other than CodeNone in result means that nothing
// was decided by this proposal, or that this is not known; result.Partition is the partition's state when known.
func (m *Manager) AlterResult(change cluster.ISRChange, result cluster.ItemResult) {
	if r, ok := m.Get(change.Partition); ok {
		r.put(message{kind: kindInput, other: &replication.AlterPartitionResult{
			LeaderEpoch: change.LeaderEpoch, PartitionEpoch: change.PartitionEpoch, Code: result.Code, State: result.Partition,
		}}, 0)
	}
}

// run is the manager's goroutine: it ticks who is due, and sends a few partitions at a time through maintenance.
func (m *Manager) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var ready []*Runner
	var round maintenance
	round.begin(m.options.Clock.Now(), m.options.MaintainEvery)
	for {
		select {
		case <-m.stop:
			return
		case <-m.deadlines.changed:
		case <-timer.C:
		}
		now := m.options.Clock.Now()
		var next time.Duration
		ready, next = m.deadlines.take(now, ready[:0])
		for _, r := range ready {
			r.put(message{kind: kindTick}, 0)
		}
		clear(ready)
		next = sooner(next, m.maintain(&round, now))
		timer.Reset(max(0, next-now))
	}
}

// maintenance is one pass over all partitions, spread over time.
type maintenance struct {
	left []*Runner
	at   time.Duration // of the next step
}

func (r *maintenance) begin(now, every time.Duration) { r.at = now + every }

// maintainSteps is into how many steps a pass is divided, so that it never makes a burst.
const maintainSteps = 60

// maintain does the next step of a pass when it is time, and returns when the one after it is due.
func (m *Manager) maintain(round *maintenance, now time.Duration) time.Duration {
	if now < round.at {
		return round.at
	}
	if len(round.left) == 0 {
		round.left = m.sorted()
	}
	n := min(len(round.left), max(1, (len(round.left)+maintainSteps-1)/maintainSteps))
	for _, r := range round.left[:n] {
		r.put(message{kind: kindMaintain}, m.options.InboxSize)
	}
	round.left = round.left[n:]
	if len(round.left) == 0 {
		round.begin(now, m.options.MaintainEvery)
	} else {
		round.at = now + m.options.MaintainEvery/maintainSteps
	}
	return round.at
}

// Close stops all runners and closes all logs with clean marks, in parallel and bounded. When ctx ends first, the rest is left as a crash would leave
// it; what was acknowledged is on disk in any case. Nothing may be called afterwards but methods that answer with a refusal.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	close(m.stop)
	m.stopped.Wait()
	all := m.sorted()
	errs := make([]error, len(all))
	m.each(len(all), func(i int) {
		finish := (*Partition).Close
		if ctx.Err() != nil {
			finish = func(p *Partition) error { p.Abandon(); return ctx.Err() }
		}
		select {
		case errs[i] = <-all[i].halt(finish):
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
	})
	if ctx.Err() == nil { // otherwise a flush may hang, and its worker with it
		m.pool.close()
	}
	return errors.Join(errs...)
}

// each calls f for 0 to n-1 on at most RecoveryWorkers goroutines and waits.
func (m *Manager) each(n int, f func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, m.options.RecoveryWorkers) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}
