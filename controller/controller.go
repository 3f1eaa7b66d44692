package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
)

// Controller is one broker's part in the metadata: its Raft node, the Image, and, while it leads, the controller of the cluster.
type Controller struct {
	cfg     Config
	ports   Ports
	log     *slog.Logger
	raftLog hclog.Logger
	server  raft.ServerID
	board   *board
	fsm     *fsm
	book    *addressBook
	store   *logStore
	snaps   *snapshotStore
	marker  *markerFile
	short   atomic.Bool // see DiskShort
	// proposals counts by outcome.
	proposals *meter.CounterVec
	// hadState says that the Raft directory was not empty at Open.
	hadState bool

	node     atomic.Pointer[node]       // nil until Raft runs
	lead     atomic.Pointer[leadership] // nil while another broker leads
	hinted   atomic.Pointer[Endpoint]   // who a Redirect or a seed named as leader
	leaders  *signal                    // fires at every change of leader
	formed   chan struct{}              // closed when the cluster id is known
	ctx      context.Context            // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	once     sync.Once // of Close
	failOnce sync.Once
}

// Open opens the Raft files and checks them, so that damage shows before anything else starts. The Controller then answers probes; Start makes it take part.
// An error is for the operator: a *StoreError names the file and the remedy, a *RefusedError the mistake.
func Open(cfg Config, ports Ports) (*Controller, error) {
	c, err := prepare(cfg, ports)
	if err != nil {
		return nil, err
	}
	if err := c.openFiles(); err != nil {
		return nil, err
	}
	return c, nil
}

// prepare builds a Controller without touching its files.
func prepare(cfg Config, ports Ports) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ports.Log == nil {
		ports.Log = slog.Default()
	}
	if ports.Now == nil {
		start := time.Now()
		ports.Now = func() time.Duration { return time.Since(start) }
	}
	c := &Controller{
		cfg: cfg, ports: ports, log: ports.Log,
		raftLog: newRaftLog(ports.Log),
		server:  serverID(cfg.Broker, cfg.Directory),
		board:   newBoard(),
		leaders: newSignal(),
		formed:  make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.book = &addressBook{self: c.server, own: cfg.Address, board: c.board, lastIndex: c.lastIndex, heard: map[raft.ServerID]heardAddress{}}
	c.fsm = newFSM(c.board, c.fail, c.onApplied)
	c.fsm.written = c.mark
	c.export(ports.Meter)
	return c, nil
}

// openFiles opens the stores and refuses what must not run.
func (c *Controller) openFiles() error {
	if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("controller: create the Raft directory: %w", err)
	}
	var err error
	if c.store, err = openLogStore(c.cfg.Dir, c.storeFailed); err != nil {
		return err
	}
	if err = c.checkFiles(); err != nil {
		return errors.Join(err, c.store.close())
	}
	return nil
}

// checkFiles runs every check that comes before Raft may read its files.
func (c *Controller) checkFiles() error {
	var err error
	if c.snaps, err = openSnapshotStore(c.cfg.Dir, c.raftLog, c.fail); err != nil {
		return err
	}
	if c.marker, err = openMarker(c.cfg.Dir, c.server); err != nil {
		return err
	}
	if err = checkRaftFiles(c.store, c.snaps, c.marker); err != nil {
		return err
	}
	made, err := makeReserve(c.cfg.Dir)
	if err != nil {
		return err
	}
	c.short.Store(!made)
	c.hadState, err = raft.HasExistingState(c.store, c.store, c.snaps)
	if err != nil {
		return fmt.Errorf("controller: read the Raft state: %w", err)
	}
	return nil
}

// Start makes the broker take part: it forms the cluster, joins it, or goes on where it stopped, in the background. Formed tells when.
func (c *Controller) Start() {
	c.running.Go(c.form)
	c.running.Go(c.keepReserve)
}

// Formed is closed when this broker has applied the entry that gave the cluster its id.
func (c *Controller) Formed() <-chan struct{} { return c.formed }

// Close stops the Raft node and everything around it. It does not hand over leadership: TransferLeadership does.
func (c *Controller) Close() error {
	var err error
	c.once.Do(func() {
		c.cancel()
		c.running.Wait()
		close(c.board.closed)
		err = errors.Join(c.marker.write(c.board.applied.Load()), c.store.close())
	})
	return err
}

// fail stops the broker: its metadata can no longer be trusted.
func (c *Controller) fail(err error) {
	c.failOnce.Do(func() {
		c.log.Error("the metadata of this broker failed; it must stop", "error", err)
		if c.ports.Fatal != nil {
			c.ports.Fatal(err)
		}
	})
}

// mark writes down that this server has applied the index. It only adds to the checks of the next start, so a failure is no reason to stop.
func (c *Controller) mark(applied uint64) {
	if err := c.marker.write(applied); err != nil {
		c.log.Warn("cannot write the Raft marker", "error", err)
	}
}

// onApplied runs after each applied entry, on Raft's goroutine.
func (c *Controller) onApplied(image *cluster.Image) {
	if image.ClusterID().IsZero() {
		return
	}
	select {
	case <-c.formed:
	default:
		close(c.formed)
	}
}

// Image is the metadata as this broker has applied it.
func (c *Controller) Image() *cluster.Image { return c.board.image.Load() }

// Applied is the index of the last command that this broker has applied.
func (c *Controller) Applied() uint64 { return c.board.applied.Load() }

// WaitApplied returns when this broker has applied the entry at index, or with ctx's error or ErrClosed.
func (c *Controller) WaitApplied(ctx context.Context, index uint64) error {
	return c.board.wait(ctx, index)
}

// lastIndex is the end of the local log.
func (c *Controller) lastIndex() uint64 {
	index, err := c.store.LastIndex()
	if err != nil {
		return 0 // the broker is stopping
	}
	return index
}

// IsLeader reports whether this broker is the Raft leader as far as it knows.
func (c *Controller) IsLeader() bool {
	n := c.node.Load()
	return n != nil && n.raft.State() == raft.Leader
}

// Leader is the controller as far as this broker knows: where it is, and its broker id.
func (c *Controller) Leader() (Endpoint, cluster.BrokerID, bool) {
	to, ok := c.leaderEndpoint()
	if !ok {
		return Endpoint{}, cluster.NoBroker, false
	}
	broker, _, err := parseServerID(raft.ServerID(to.Server))
	return to, broker, err == nil
}

// leaderEndpoint is the leader that Raft knows, else the one that somebody named.
func (c *Controller) leaderEndpoint() (Endpoint, bool) {
	if n := c.node.Load(); n != nil {
		if address, id := n.raft.LeaderWithID(); id != "" {
			return splitServerAddress(address), true // as the leader itself says with every entry
		}
	}
	if to := c.hinted.Load(); to != nil && to.Server != string(c.server) {
		return *to, true
	}
	return Endpoint{}, false
}

// hint notes who somebody named as leader; an empty Redirect forgets.
func (c *Controller) hint(r Redirect) {
	if r.Address == "" {
		c.hinted.Store(nil)
		return
	}
	c.hinted.Store(&Endpoint{Address: r.Address, Server: r.Server})
}

// leaderChanged is closed at the next change of leader.
func (c *Controller) leaderChanged() <-chan struct{} { return c.leaders.next() }

// TransferLeadership hands the Raft leadership to an up-to-date voter. Without one, or on a broker that does not lead, it does nothing. For orderly shutdown.
func (c *Controller) TransferLeadership(ctx context.Context) error {
	n := c.node.Load()
	if n == nil || n.raft.State() != raft.Leader {
		return nil
	}
	if configuration, err := n.configuration(); err != nil || voters(configuration) < 2 {
		return err
	}
	if err := await(ctx, n.raft.LeadershipTransfer()); err != nil {
		return fmt.Errorf("controller: hand over leadership: %w", err)
	}
	return nil
}

// Stats are figures for metrics and for `cluster status`.
type Stats struct {
	Server       string
	State        string // follower, candidate, leader, shutdown; forming until Raft runs
	Term         cluster.ControllerTerm
	LastIndex    uint64 // of the log
	CommitIndex  uint64
	AppliedIndex uint64 // last applied command
	Leader       cluster.BrokerID
	Voters       []cluster.BrokerID
	NonVoters    []cluster.BrokerID
	// VotersWanted is how many voters a cluster of this size has in the end. A broker that has joined gets its vote when it has been healthy for a while.
	VotersWanted int
}

// Stats returns the figures of this moment.
func (c *Controller) Stats() Stats {
	s := Stats{Server: string(c.server), State: "forming", AppliedIndex: c.Applied(), Leader: cluster.NoBroker}
	n := c.node.Load()
	if n == nil {
		return s
	}
	s.State = stateName(n.raft.State())
	s.Term = cluster.ControllerTerm(n.raft.CurrentTerm())
	s.LastIndex, s.CommitIndex = n.raft.LastIndex(), n.raft.CommitIndex()
	if _, id, ok := c.Leader(); ok {
		s.Leader = id
	}
	configuration, err := n.configuration()
	if err != nil {
		return s
	}
	for _, server := range configuration.Servers {
		broker, _, err := parseServerID(server.ID)
		switch {
		case err != nil:
		case server.Suffrage == raft.Voter:
			s.Voters = append(s.Voters, broker)
		default:
			s.NonVoters = append(s.NonVoters, broker)
		}
	}
	s.VotersWanted = voterCount(max(c.Image().BrokerCount(), len(configuration.Servers)))
	return s
}

// stateLeader is the State of the controller in Stats.
const stateLeader = "leader"

func stateName(s raft.RaftState) string {
	switch s {
	case raft.Leader:
		return stateLeader
	case raft.Candidate:
		return "candidate"
	case raft.Shutdown:
		return "shutdown"
	}
	return "follower"
}

// signal wakes everybody who waits for its next firing.
type signal struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}
