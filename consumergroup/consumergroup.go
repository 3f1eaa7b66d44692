package consumergroup

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/lograte"
)

// Coordinator is the group coordinator of one broker. All methods are safe on any goroutine.
type Coordinator struct {
	config Config
	ports  Ports
	log    *slog.Logger
	counts *metrics

	inbox    chan message
	appended chan appended
	loaded   chan loaded
	news     chan struct{} // capacity 1: told has something
	told     told
	watchers watchers
	lag      lagCache

	stop    context.CancelFunc
	stopped chan struct{}  // closed when the loop has ended
	work    sync.WaitGroup // appends and loads
}

// told holds what was told from outside and not yet taken up by the loop; newer news replaces older.
type told struct {
	sync.Mutex
	shards   []ShardLead
	have     bool
	topics   bool
	settings *Settings
}

// message is one request to the loop: an input for a group, or something to look at.
type message struct {
	name  string
	input group.Input
	reply chan group.Reply // capacity 1
	see   func(*coordinator.Coordinator)
}

// errPorts reports a port that Open was not given.
var errPorts = errors.New("consumergroup: Log, Topics, LeaseValid and NewMemberID are required")

// Open starts a coordinator that leads no shard yet: it refuses every request until ShardsChanged.
func Open(config Config, ports Ports) (*Coordinator, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.Log == nil || ports.Topics == nil || ports.LeaseValid == nil || ports.NewMemberID == nil {
		return nil, errPorts
	}
	if ports.Logger == nil {
		ports.Logger = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Coordinator{
		config:   config,
		ports:    ports,
		log:      lograte.New(ports.Logger, loggedLines, time.Now),
		counts:   newMetrics(ports.Meter),
		inbox:    make(chan message, config.Inbox),
		appended: make(chan appended, 1),
		loaded:   make(chan loaded, cluster.ShardCount),
		news:     make(chan struct{}, 1),
		stop:     stop,
		stopped:  make(chan struct{}),
	}
	go newLoop(ctx, c).run()
	return c, nil
}

// ShardsChanged tells which shards this broker leads now, all of them, and in which epochs. It does not wait.
func (c *Coordinator) ShardsChanged(led []ShardLead) {
	c.told.Lock()
	c.told.shards, c.told.have = slices.Clone(led), true
	c.told.Unlock()
	poke(c.news)
}

// TopicsChanged tells that Ports.Topics has something new: topics were created, grew or were deleted. It does not wait.
func (c *Coordinator) TopicsChanged() {
	c.told.Lock()
	c.told.topics = true
	c.told.Unlock()
	poke(c.news)
}

// Configure changes what may change while the coordinator runs. It does not wait; the newest settings count.
func (c *Coordinator) Configure(s Settings) {
	c.told.Lock()
	c.told.settings = &s
	c.told.Unlock()
	poke(c.news)
}

// poke leaves a value in a channel of capacity 1.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Close stops the coordinator and waits for its goroutines. Requests that wait are refused with CodeShuttingDown.
func (c *Coordinator) Close() {
	c.stop()
	<-c.stopped
	c.work.Wait()
}

// do has one group handle one input and waits for the committed answer.
func (c *Coordinator) do(ctx context.Context, name string, input group.Input) (group.Reply, error) {
	m := message{name: name, input: input, reply: make(chan group.Reply, 1)}
	if err := c.submit(m); err != nil {
		return group.Reply{}, err
	}
	select {
	case reply := <-m.reply:
		if reply.Code != cluster.CodeNone {
			return reply, cluster.Refuse(reply.Code, reply.Message)
		}
		return reply, nil
	case <-ctx.Done():
		return group.Reply{}, cluster.Refuse(cluster.CodeTimedOut, "the group coordinator did not answer in time; whether the request took effect is not known")
	case <-c.stopped:
		return group.Reply{}, errClosed()
	}
}

// submit hands a message to the loop, or refuses it when too many wait.
func (c *Coordinator) submit(m message) error {
	select {
	case <-c.stopped:
		return errClosed()
	default:
	}
	select {
	case c.inbox <- m:
		return nil
	default:
		return cluster.Refuse(cluster.CodeOverloaded, "too many requests wait for the group coordinator")
	}
}

func errClosed() error {
	return cluster.Refuse(cluster.CodeShuttingDown, "the group coordinator is stopping")
}

// look runs see on the loop and waits for it.
func (c *Coordinator) look(ctx context.Context, see func(*coordinator.Coordinator)) error {
	done := make(chan struct{})
	err := c.submit(message{see: func(core *coordinator.Coordinator) {
		see(core)
		close(done)
	}})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return cluster.Refuse(cluster.CodeTimedOut, "the group coordinator did not answer in time")
	case <-c.stopped:
		return errClosed()
	}
}

// appended and loaded are outcomes of work that runs beside the loop.
type appended struct {
	result cluster.Result
	err    error
}

type loaded struct {
	load    coordinator.Load
	content ShardContent
	err     error
}

// append proposes a command and hands the outcome to the loop. There is one at a time.
func (c *Coordinator) append(ctx context.Context, command cluster.GroupAppend) {
	bounded, cancel := context.WithTimeout(ctx, c.config.AppendTimeout)
	defer cancel()
	start := time.Now()
	result, err := c.ports.Log.Append(bounded, command)
	c.counts.appended(time.Since(start))
	if err != nil {
		c.log.Warn("outcome of a group append is unknown", "batches", len(command.Batches), "error", err)
	}
	c.appended <- appended{result, err}
}

// load loads a shard and hands the content to the loop.
func (c *Coordinator) load(ctx context.Context, l coordinator.Load) {
	if l.Attempt > 0 {
		select {
		case <-time.After(c.config.LoadRetry):
		case <-ctx.Done():
			return
		}
	}
	bounded, cancel := context.WithTimeout(ctx, c.config.LoadTimeout)
	defer cancel()
	content, err := c.ports.Log.Load(bounded, l.Shard, l.MinIndex)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("group shard not loaded", "shard", l.Shard, "epoch", l.Epoch, "attempt", l.Attempt, "error", err)
	}
	select {
	case c.loaded <- loaded{l, content, err}:
	case <-ctx.Done():
	}
}
