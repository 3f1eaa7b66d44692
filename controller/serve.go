package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Serve answers a request of another broker, or of this one. A request for the leader is answered with a Redirect elsewhere. An error means that there is no
// answer: ctx ended, the Controller is closed, or the request is of no known type.
func (c *Controller) Serve(ctx context.Context, request Request) (Response, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	switch r := request.(type) {
	case ProbeRequest:
		return c.serveProbe(r), nil
	case JoinRequest:
		if lead := c.lead.Load(); lead != nil {
			return lead.join(ctx, r), nil
		}
	case ProposeRequest:
		if c.lead.Load() != nil {
			return c.servePropose(ctx, r), nil
		}
	case HeartbeatRequest:
		if lead := c.lead.Load(); lead != nil {
			return lead.heartbeat(ctx, r)
		}
	default:
		return nil, fmt.Errorf("controller: unknown request %T", request)
	}
	return c.redirect(), nil
}

// redirect names the leader if this broker knows it.
func (c *Controller) redirect() Redirect {
	if c.IsLeader() { // elected a moment ago: come again
		return Redirect{}
	}
	to, _ := c.leaderEndpoint()
	return Redirect{Address: to.Address, Server: to.Server}
}

// serveProbe says who this broker is and what it knows.
func (c *Controller) serveProbe(ProbeRequest) ProbeResponse {
	answer := ProbeResponse{
		Broker: c.cfg.Broker, Directory: c.cfg.Directory, Cluster: c.clusterID(),
		Bootstrapped: c.bootstrapped(), BootstrapExpect: c.cfg.expect(),
	}
	if n := c.node.Load(); n != nil {
		if address, id := n.raft.LeaderWithID(); id != "" {
			if resolved, err := c.book.ServerAddr(id); err == nil {
				address = resolved
			}
			to := splitServerAddress(address)
			answer.LeaderAddress, answer.LeaderServer = to.Address, to.Server
		}
	}
	return answer
}

// clusterID is the id of this broker's cluster: as applied, else as its directory remembers.
func (c *Controller) clusterID() cluster.ClusterID {
	if id := c.Image().ClusterID(); !id.IsZero() {
		return id
	}
	return c.cfg.Cluster
}

// bootstrapped reports whether this server has Raft state of its own.
func (c *Controller) bootstrapped() bool {
	if c.hadState {
		return true
	}
	n := c.node.Load()
	return n != nil && (n.raft.LastIndex() > 0 || n.raft.CurrentTerm() > 0)
}

// servePropose applies another broker's command here.
func (c *Controller) servePropose(ctx context.Context, r ProposeRequest) Response {
	cmd, err := decodeCommand(r.Command)
	if err != nil {
		return ProposeResponse{Result: cluster.Result{Code: cluster.CodeUnsupportedFeature, Message: err.Error()}}
	}
	out := c.proposeHere(ctx, cmd, r.Command)
	var refusal *cluster.Error
	switch {
	case out.err == nil:
		return ProposeResponse{Result: out.result}
	case retriable(out.err):
		return Redirect{}
	case errors.As(out.err, &refusal):
		return ProposeResponse{Result: cluster.Result{Code: refusal.Code, Message: refusal.Message}}
	}
	return ProposeResponse{Result: cluster.Result{Code: cluster.CodeTimedOut, Message: out.err.Error()}}
}

// proposeHere has a command applied by the local Raft node, which leads.
func (c *Controller) proposeHere(ctx context.Context, cmd cluster.Command, encoded []byte) outcome {
	lead := c.lead.Load()
	if lead == nil {
		return outcome{err: cluster.Refuse(cluster.CodeNoController, "this broker has just become the controller; try again")}
	}
	switch cmd := cmd.(type) {
	case cluster.RegisterBroker:
		return lead.register(ctx, cmd)
	case cluster.GroupAppend:
		return lead.n.proposer.submit(ctx, frameEntry(encoded), true)
	}
	return lead.n.proposer.submit(ctx, frameEntry(encoded), false)
}

// callLeader sends a request to the leader, wherever it is.
func (c *Controller) callLeader(ctx context.Context, request Request) (Response, error) {
	if c.lead.Load() != nil {
		return c.Serve(ctx, request)
	}
	to, ok := c.leaderEndpoint()
	if !ok {
		return nil, cluster.Refuse(cluster.CodeNoController, "no controller is known")
	}
	response, err := c.ports.Calls.Call(ctx, to, request)
	if r, ok := response.(Redirect); ok {
		c.hint(r)
	}
	return response, err
}

// joinOutcome is what a joining broker makes of the answer.
type joinOutcome int

const (
	joinAdded joinOutcome = iota
	joinLater
	joinRefused
)

// joinVerdict sorts the codes of a JoinResponse.
func joinVerdict(code cluster.Code) joinOutcome {
	switch code {
	case cluster.CodeNone:
		return joinAdded
	case cluster.CodeWrongCluster, cluster.CodeInvalidRequest:
		return joinRefused
	}
	return joinLater
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
			if l.alive(other.ID) {
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
