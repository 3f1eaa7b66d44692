package controller

import (
	"context"
	"errors"
	"fmt"

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
	return Redirect(to)
}

// serveProbe says who this broker is and what it knows.
func (c *Controller) serveProbe(ProbeRequest) ProbeResponse {
	answer := ProbeResponse{
		Broker: c.cfg.Broker, Directory: c.cfg.Directory, Cluster: c.clusterID(),
		Bootstrapped: c.bootstrapped(), BootstrapExpect: c.cfg.expect(),
	}
	if n := c.node.Load(); n != nil {
		answer.RaftRuns = true
		if address, id := n.raft.LeaderWithID(); id != "" {
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
	case cluster.UnregisterBroker:
		return lead.unregister(ctx, cmd, encoded)
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
