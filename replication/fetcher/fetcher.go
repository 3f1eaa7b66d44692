package fetcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// dialTimeout bounds one attempt to open a stream.
const dialTimeout = 5 * time.Second

// Config says whom a Fetcher dials with and whom it feeds.
type Config struct {
	Transport Transport
	Target    Target
	// Redial is the pause between attempts to reach a leader, doubling, each shortened by up to a half at random; 50 ms to 1 s if zero.
	Redial session.Backoff
	// Resubscribe is the pause before a refused partition is asked for again; session.DefaultBackoff if zero.
	Resubscribe session.Backoff
	// Random returns a number in [0, 1); math/rand if nil.
	Random func() float64
	// Meter gets the counters of stats.go; nil exports nothing.
	Meter *meter.Set
	Log   *slog.Logger
}

// Fetcher follows leaders for the follower replicas of this broker. Its methods are safe on any goroutine and never block.
type Fetcher struct {
	cfg    Config
	stats  counters
	start  time.Time
	epoch  atomic.Int64 // our broker epoch, NoBrokerEpoch until we are registered
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.RWMutex // guards the rest; never held together with an incoming's
	links   map[cluster.BrokerID]*incoming
	follows map[cluster.TopicPartition]followed
	closed  bool
}

// followed says where a partition is followed.
type followed struct {
	epoch record.LeaderEpoch
	link  *incoming
}

// New returns a Fetcher that follows nobody. It dials nobody before SetEpoch.
func New(cfg Config) *Fetcher {
	if cfg.Redial == (session.Backoff{}) {
		cfg.Redial = session.Backoff{Min: 50 * time.Millisecond, Max: time.Second}
	}
	if cfg.Resubscribe == (session.Backoff{}) {
		cfg.Resubscribe = session.DefaultBackoff()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	f := &Fetcher{
		cfg:     cfg,
		stats:   newCounters(cfg.Meter),
		start:   time.Now(),
		links:   make(map[cluster.BrokerID]*incoming),
		follows: make(map[cluster.TopicPartition]followed),
	}
	f.epoch.Store(int64(cluster.NoBrokerEpoch))
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// SetEpoch tells the broker epoch that streams open with. Streams of another epoch are closed and opened again.
func (f *Fetcher) SetEpoch(epoch cluster.BrokerEpoch) {
	if f.epoch.Swap(int64(epoch)) == int64(epoch) {
		return
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, l := range f.links {
		l.signal()
	}
}

// Follow subscribes to a partition at its leader under a leader epoch, and gives up its subscription elsewhere or under an older epoch. An older epoch than the
// known one is ignored. Called again for the same leader and epoch it ends the subscription or the pause after a refusal, asks the Target's Position and subscribes
// anew: the replica was truncated, say, or data did not continue where its log ends.
func (f *Fetcher) Follow(tp cluster.TopicPartition, leader cluster.BrokerID, epoch record.LeaderEpoch) {
	f.mu.Lock()
	old, known := f.follows[tp]
	if f.closed || known && old.epoch > epoch {
		f.mu.Unlock()
		return
	}
	l := f.links[leader]
	if l == nil {
		l = newIncoming(f, leader)
		f.links[leader] = l
		f.wg.Go(l.run)
	}
	f.follows[tp] = followed{epoch: epoch, link: l}
	f.mu.Unlock()
	if known && old.link != l {
		old.link.unfollow(session.Wanted{Partition: tp, LeaderEpoch: old.epoch})
	}
	l.follow(session.Wanted{Partition: tp, LeaderEpoch: epoch})
}

// Unfollow gives a partition up, unless it is followed under a newer epoch by now.
func (f *Fetcher) Unfollow(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	f.mu.Lock()
	old, known := f.follows[tp]
	if !known || old.epoch > epoch {
		f.mu.Unlock()
		return
	}
	delete(f.follows, tp)
	f.mu.Unlock()
	old.link.unfollow(session.Wanted{Partition: tp, LeaderEpoch: epoch})
}

// Ack tells the leader how far the replica is. Only the newest counts; one for a partition or epoch that is not followed is dropped. a.ID is ignored.
func (f *Fetcher) Ack(tp cluster.TopicPartition, epoch record.LeaderEpoch, a session.Ack) {
	f.mu.RLock()
	at, known := f.follows[tp]
	f.mu.RUnlock()
	if known && at.epoch == epoch {
		at.link.ack(session.Wanted{Partition: tp, LeaderEpoch: epoch}, a)
	}
}

// Close ends every stream and waits for the goroutines. The Target hears Lost for what was subscribed.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}

// now is the monotonic clock of the sessions.
func (f *Fetcher) now() time.Duration { return time.Since(f.start) }
