package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftEntriesMax is how many entries Raft writes and sends at once.
const raftEntriesMax = 64

// commitTimeout is how long a follower may not know that what it has is committed (up to twice as long): a proposal from a follower waits for it. It is also the
// time between the idle messages to each follower.
const commitTimeout = 10 * time.Millisecond

// node is a running Raft node with its transport and the queue in front of it.
type node struct {
	raft     *raft.Raft
	trans    *transport
	proposer *proposer
	failure  func() error // of the store
	once     sync.Once    // of halt
	stopped  raft.Future
}

// raftConfig is the library's configuration for this broker.
func (c *Controller) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = c.server
	conf.HeartbeatTimeout = c.cfg.RaftHeartbeat
	conf.ElectionTimeout = c.cfg.RaftElection
	conf.LeaderLeaseTimeout = c.cfg.RaftLease
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = raftEntriesMax
	conf.BatchApplyCh = true
	conf.SnapshotThreshold = c.cfg.SnapshotThreshold
	conf.TrailingLogs = c.cfg.TrailingLogs
	conf.SnapshotInterval = c.cfg.SnapshotInterval
	conf.Logger = c.raftLog
	// A removed server stays, silent, until the operator or a new registration decides: stopping Raft would leave a broker without metadata.
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	return conf
}

// startNode starts Raft on the opened files; configuration, if not nil, is the first one of a new cluster. Who forms a cluster, and who is alone, stands for
// election at once: there is no leader to wait for.
func (c *Controller) startNode(configuration *raft.Configuration) error {
	trans := newTransport(c.ports.Streams, serverAddress(c.server, c.cfg.Address), c.book, c.raftLog, c.refused)
	conf := c.raftConfig()
	if configuration != nil {
		if err := raft.BootstrapCluster(conf, c.store, c.store, c.snaps, trans, *configuration); err != nil {
			_ = trans.Close()
			return fmt.Errorf("controller: write the first Raft configuration: %w", err)
		}
	}
	r, err := c.newRaft(conf, trans)
	if err != nil {
		_ = trans.Close()
		return fmt.Errorf("controller: start Raft: %w", err)
	}
	n := &node{raft: r, trans: trans, proposer: newProposer(r), failure: c.store.failure}
	c.node.Store(n)
	if c.store.failure() != nil { // before there was a node to halt
		n.halt()
	}
	c.running.Go(func() { c.watchLeadership(n) })
	c.running.Go(func() { c.keepCompact(n) })
	if alone, err := n.loneVoter(c.server); configuration != nil || err == nil && alone {
		trans.electNow()
	}
	return nil
}

// refused passes on that a server's peer port refused a connection: while this broker leads, the controller wants to know.
func (c *Controller) refused(server raft.ServerID) {
	if lead := c.lead.Load(); lead != nil {
		lead.refused(server)
	}
}

// halt ends Raft's part in the cluster at once, and does not wait for its goroutines: it may be called from one of them. Whoever waits for a proposal is told
// that its outcome is unknown.
func (n *node) halt() {
	n.once.Do(func() {
		n.stopped = n.raft.Shutdown()
		n.proposer.halt()
	})
}

// haltPatience is how long the end of Raft's goroutines is waited for after a failure of the store.
const haltPatience = time.Second

// close stops Raft and waits for it; not for ever where the store has failed. The goroutine of Raft's that met the failure ended there, without telling another
// that may wait for it: the sender of a pipeline leaves the reader of its answers behind. Such a one touches nothing any more.
func (n *node) close() {
	n.halt()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.stopped.Error() // it always returns nil, and closes the transport
	}()
	var patience <-chan time.Time
	if n.failure() != nil {
		patience = time.After(haltPatience)
	}
	select {
	case <-ended:
	case <-patience:
		_ = n.trans.Close()
	}
	n.proposer.close()
}

// configuration is the latest Raft configuration, committed or not.
func (n *node) configuration() (raft.Configuration, error) {
	future := n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return raft.Configuration{}, fmt.Errorf("controller: read the Raft configuration: %w", err)
	}
	return future.Configuration(), nil
}

// loneVoter reports whether server is the only voter.
func (n *node) loneVoter(server raft.ServerID) (bool, error) {
	configuration, err := n.configuration()
	if err != nil {
		return false, err
	}
	for _, s := range configuration.Servers {
		if s.ID == server && s.Suffrage == raft.Voter {
			return voters(configuration) == 1, nil
		}
	}
	return false, nil
}

// voters counts the voters of a configuration.
func voters(configuration raft.Configuration) int {
	n := 0
	for _, s := range configuration.Servers {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// await waits for one of Raft's futures or for ctx. Futures end at the latest when Raft stops, and with them the goroutine that waits here.
func await(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watchLeadership follows who leads, runs the leader's loop while it is this broker, and stops Raft in the end.
func (c *Controller) watchLeadership(n *node) {
	observed := make(chan raft.Observation, 16)
	observer := raft.NewObserver(observed, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	n.raft.RegisterObserver(observer)
	defer n.close()
	defer n.raft.DeregisterObserver(observer)
	var lead *leadership
	resign := func() {
		if lead != nil {
			c.lead.Store(nil)
			lead.close()
			lead = nil
		}
	}
	defer resign()
	for {
		select {
		case <-c.ctx.Done():
			return
		case leads := <-n.raft.LeaderCh():
			resign() // also when leadership was lost and won again in between
			if leads {
				lead = c.startLeadership(n)
				c.lead.Store(lead)
			}
			c.leaders.fire()
		case o := <-observed:
			if leader, ok := o.Data.(raft.LeaderObservation); ok && leader.LeaderID != "" && leader.LeaderID != c.server {
				c.book.hear(leader.LeaderID, splitServerAddress(leader.LeaderAddr).Address)
			}
			c.leaders.fire()
			c.mark(c.Applied())
		}
	}
}
