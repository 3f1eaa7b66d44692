package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// membersPause is the time between two looks at who votes.
const membersPause = time.Second

// health is what the leader knows about servers from their heartbeats.
type health struct {
	self    raft.ServerID
	session time.Duration // how long a server may be silent
	now     func() time.Duration
	began   time.Duration

	mu      sync.Mutex // guards servers
	servers map[raft.ServerID]*serverHealth
}

// serverHealth is one server's last heartbeat, and since when it has been healthy or not.
type serverHealth struct {
	last    time.Duration
	applied uint64
	healthy bool
	since   time.Duration
	// refused is when its peer port first refused a connection after the last heartbeat; gone says that it did so again, a while later.
	refused time.Duration
	doubted bool
	gone    bool
}

func newHealth(self raft.ServerID, session time.Duration, now func() time.Duration) *health {
	return &health{self: self, session: session, now: now, began: now(), servers: map[raft.ServerID]*serverHealth{}}
}

// note remembers a heartbeat.
func (h *health) note(id raft.ServerID, applied uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.get(id)
	s.last, s.applied = h.now(), applied
	s.doubted, s.gone = false, false
}

// refusedBy remembers that a server's peer port refused a connection. Two, gap apart and without a heartbeat between, mean that its process is gone.
func (h *health) refusedBy(id raft.ServerID, gap time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, now := h.get(id), h.now()
	switch {
	case !s.doubted:
		s.doubted, s.refused = true, now
	case now-s.refused >= gap:
		s.gone = true
	}
}

// get returns the record of a server. A new leader gives everybody a session timeout to come.
func (h *health) get(id raft.ServerID) *serverHealth {
	s, ok := h.servers[id]
	if !ok {
		s = &serverHealth{last: h.began, since: h.now()}
		h.servers[id] = s
	}
	return s
}

// alive reports whether a server has sent a heartbeat within the session timeout.
func (h *health) alive(id raft.ServerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return id == h.self || h.live(h.get(id))
}

func (h *health) live(s *serverHealth) bool { return !s.gone && h.now()-s.last < h.session }

// judge reports whether a server is healthy, and for how long that has been so or not so. Index is what the leader has applied.
func (h *health) judge(id raft.ServerID, index uint64) (healthy bool, since time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, now := h.get(id), h.now()
	healthy = id == h.self || h.live(s) && s.applied > 0 && s.applied+voterLagMax >= index
	if healthy != s.healthy {
		s.healthy, s.since = healthy, now
	}
	return healthy, now - s.since
}

// keepMembers holds Raft's configuration to the rules of planMembers.
func (l *leadership) keepMembers() {
	ticker := time.NewTicker(min(membersPause, max(l.c.cfg.VoterStabilization/2, 1)))
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
		}
		for l.stepMembers() { // two voters are worse than one: the step to three follows at once
		}
	}
}

// stepMembers makes the next change, and reports whether it made one.
func (l *leadership) stepMembers() bool {
	ctx, cancel := context.WithTimeout(l.ctx, joinTimeout)
	defer cancel()
	change, index, err := l.dueChange()
	if err == nil && change == (memberChange{}) {
		return false
	}
	if err == nil {
		err = l.changeMembers(ctx, change, index)
	}
	if err != nil && l.ctx.Err() == nil {
		l.c.log.Warn("cannot change who votes", "error", err)
	}
	return err == nil
}

// dueChange is what planMembers wants of the present configuration, and that configuration's index.
func (l *leadership) dueChange() (memberChange, uint64, error) {
	future := l.n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return memberChange{}, 0, fmt.Errorf("controller: read the Raft configuration: %w", err)
	}
	image, applied := l.c.Image(), l.c.Applied()
	var views []memberView
	for _, s := range future.Configuration().Servers {
		v := memberView{ID: s.ID, Broker: cluster.NoBroker, Voter: s.Suffrage == raft.Voter}
		if broker, dir, err := parseServerID(s.ID); err == nil {
			registered, ok := image.Broker(broker)
			v.Broker, v.Registered = broker, ok && registered.Directory == dir && !registered.Draining
		}
		v.Healthy, v.Since = l.health.judge(s.ID, applied)
		views = append(views, v)
	}
	// Servers that have joined but not registered count: the set that formed the cluster votes before anybody is registered.
	brokers := max(image.BrokerCount(), len(views))
	return planMembers(l.c.server, brokers, views, l.c.cfg.VoterStabilization), future.Index(), nil
}

// changeMembers carries out a change of the configuration with that index.
func (l *leadership) changeMembers(ctx context.Context, change memberChange, index uint64) error {
	switch {
	case change.Promote != "":
		address, err := l.c.book.ServerAddr(change.Promote)
		if err != nil {
			return err
		}
		l.c.log.Info("a server becomes a voter", "server", string(change.Promote))
		return await(ctx, l.n.raft.AddVoter(change.Promote, address, index, enqueueTimeout))
	case change.Demote != "":
		l.c.log.Info("a server stops voting", "server", string(change.Demote))
		return await(ctx, l.n.raft.DemoteVoter(change.Demote, index, enqueueTimeout))
	case change.Remove != "":
		l.c.log.Info("removing a server that belongs to no broker", "server", string(change.Remove))
		return await(ctx, l.n.raft.RemoveServer(change.Remove, index, enqueueTimeout))
	}
	return nil
}

// join adds a server as a non-voter. The old server of a wiped broker is removed first.
func (l *leadership) join(ctx context.Context, r JoinRequest) Response {
	own := l.c.Image().ClusterID()
	switch {
	case own.IsZero():
		return JoinResponse{Code: cluster.CodeNoController, Message: "the cluster has no id yet"}
	case !r.Cluster.IsZero() && r.Cluster != own:
		return JoinResponse{Code: cluster.CodeWrongCluster, Message: fmt.Sprintf(
			"broker %d belongs to cluster %s and cannot join cluster %s: start it with an empty data directory", r.Broker, r.Cluster, own)}
	case l.liveElsewhere(r.Broker, r.Directory):
		return JoinResponse{Code: cluster.CodeDuplicateBroker, Message: fmt.Sprintf(
			"broker %d is live with another data directory: give each broker its own id", r.Broker)}
	}
	l.c.book.hear(serverID(r.Broker, r.Directory), r.Address)
	if err := l.addServer(ctx, r.Broker, r.Directory, r.Address); err != nil {
		return JoinResponse{Code: cluster.CodeOverloaded, Message: fmt.Sprintf("broker %d cannot be added now: %v", r.Broker, err)}
	}
	return JoinResponse{Cluster: own}
}

// addServer makes sure that a server is in the Raft configuration and that no other of the same broker is.
func (l *leadership) addServer(ctx context.Context, broker cluster.BrokerID, dir cluster.DirectoryID, address string) error {
	future := l.n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return err
	}
	id := serverID(broker, dir)
	present := false
	for _, s := range future.Configuration().Servers {
		other, _, err := parseServerID(s.ID)
		switch {
		case s.ID == id:
			present = true
		case err == nil && other == broker:
			if err := l.removeServer(ctx, s); err != nil {
				return err
			}
		}
	}
	if present {
		return nil
	}
	l.c.log.Info("adding a server to Raft", "server", string(id), "address", address)
	return await(ctx, l.n.raft.AddNonvoter(id, serverAddress(id, address), 0, enqueueTimeout))
}

// removeServer takes a server out of the Raft configuration. A voter goes only while the others that are alive can commit without it: the removal counts from the
// moment it is written, so a removal too early would end the quorum.
func (l *leadership) removeServer(ctx context.Context, s raft.Server) error {
	if s.Suffrage == raft.Voter {
		configuration, err := l.n.configuration()
		if err != nil {
			return err
		}
		rest, alive := 0, 0
		for _, other := range configuration.Servers {
			if other.Suffrage != raft.Voter || other.ID == s.ID {
				continue
			}
			rest++
			if l.health.alive(other.ID) {
				alive++
			}
		}
		if alive <= rest/2 {
			return fmt.Errorf("the old server %s votes, and only %d of the other %d voters are alive", s.ID, alive, rest)
		}
	}
	l.c.log.Info("removing a server from Raft", "server", string(s.ID))
	return await(ctx, l.n.raft.RemoveServer(s.ID, 0, enqueueTimeout))
}

// register proposes a registration with what only the leader knows, and keeps Raft's configuration in step: a registered server is in it, a refused one that is new
// is not.
func (l *leadership) register(ctx context.Context, cmd cluster.RegisterBroker) outcome {
	cmd.Live = l.liveElsewhere(cmd.Broker.ID, cmd.Broker.Directory)
	encoded, err := encodeCommand(cmd)
	if err != nil {
		return outcome{err: cluster.Refuse(cluster.CodeInvalidRequest, err.Error())}
	}
	out := l.n.proposer.submit(ctx, frameEntry(encoded), false)
	switch {
	case out.err != nil:
	case out.result.Code == cluster.CodeNone:
		err = l.addServer(ctx, cmd.Broker.ID, cmd.Broker.Directory, cmd.Broker.PeerAddress)
	case out.result.Code == cluster.CodeDuplicateBroker || out.result.Code == cluster.CodeWrongCluster:
		err = l.dropNonvoter(ctx, serverID(cmd.Broker.ID, cmd.Broker.Directory))
	}
	if err != nil {
		l.c.log.Warn("Raft's configuration does not follow a registration yet", "broker", int(cmd.Broker.ID), "error", err)
	}
	return out
}

// unregister proposes to remove a broker for good, and takes its server out of Raft's configuration.
func (l *leadership) unregister(ctx context.Context, cmd cluster.UnregisterBroker, encoded []byte) outcome {
	registered, ok := l.c.Image().Broker(cmd.Broker)
	if ok && l.health.alive(serverID(registered.ID, registered.Directory)) {
		return outcome{err: cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("broker %d is running: stop it before it is removed", cmd.Broker))}
	}
	out := l.n.proposer.submit(ctx, frameEntry(encoded), false)
	if !ok || out.err != nil || out.result.Code != cluster.CodeNone {
		return out
	}
	if err := l.removeID(ctx, serverID(registered.ID, registered.Directory)); err != nil {
		l.c.log.Warn("Raft's configuration does not follow the removal of a broker yet", "broker", int(cmd.Broker), "error", err)
	}
	return out
}

// removeID takes a server out of Raft's configuration if it is there.
func (l *leadership) removeID(ctx context.Context, id raft.ServerID) error {
	configuration, err := l.n.configuration()
	if err != nil {
		return err
	}
	for _, s := range configuration.Servers {
		if s.ID == id {
			return l.removeServer(ctx, s)
		}
	}
	return nil
}

// dropNonvoter takes a server out of Raft's configuration if it does not vote.
func (l *leadership) dropNonvoter(ctx context.Context, id raft.ServerID) error {
	configuration, err := l.n.configuration()
	if err != nil {
		return err
	}
	for _, s := range configuration.Servers {
		if s.ID == id && s.Suffrage != raft.Voter {
			return l.removeServer(ctx, s)
		}
	}
	return nil
}
