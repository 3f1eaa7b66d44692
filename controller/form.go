package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Timing of formation.
const (
	probeTimeout  = 500 * time.Millisecond // one seed's answer
	formPause     = 100 * time.Millisecond // between rounds until Raft runs
	settledPause  = time.Second            // between rounds while Raft runs without a leader
	joinTimeout   = 10 * time.Second       // a join, which waits for a committed Raft configuration
	reasonRepeats = 10 * time.Second       // between log lines about the same reason to wait
)

// form brings the broker into a cluster: it starts Raft once it knows whether it forms, joins or goes on, and ends when the cluster id is known here and a
// leader is in contact. It keeps asking the seeds until then, because the cluster may have moved or may have forgotten this server.
func (c *Controller) form() {
	if c.hadState && !c.start(nil) {
		return
	}
	f := former{c: c}
	for !c.settled() {
		if !f.round(c.ctx) {
			return
		}
		pause := formPause
		if c.node.Load() != nil {
			pause = settledPause
		}
		if !f.rest(pause) {
			return
		}
	}
	c.mark(c.Applied())
}

// rest waits for the next round: a moment, a change of leader, or the cluster id. It is false when the Controller is closed.
func (f *former) rest(d time.Duration) bool {
	c := f.c
	formed := c.formed
	if !c.Image().ClusterID().IsZero() {
		formed = nil // no news
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-formed:
	case <-c.leaderChanged():
	case <-c.ctx.Done():
	}
	return c.ctx.Err() == nil
}

// start runs Raft; false means that the broker cannot go on.
func (c *Controller) start(configuration *raft.Configuration) bool {
	if err := c.startNode(configuration); err != nil {
		c.fail(err)
		return false
	}
	return true
}

// settled reports whether this broker knows its cluster and is in contact with a leader.
func (c *Controller) settled() bool {
	n := c.node.Load()
	if n == nil || c.Image().ClusterID().IsZero() {
		return false
	}
	_, id := n.raft.LeaderWithID()
	return id != ""
}

// former is the state of one formation.
type former struct {
	c        *Controller
	reason   string
	reported time.Duration
}

// round asks the seeds and takes one step; false means that the broker cannot go on.
func (f *former) round(ctx context.Context) bool {
	c := f.c
	if n := c.node.Load(); n != nil {
		if _, id := n.raft.LeaderWithID(); id != "" {
			return true // in contact: the cluster id comes with the log
		}
	}
	answers := c.probe(ctx)
	self := c.bootstrapSelf()
	d := BootstrapPlan(self, answers)
	switch d.Step {
	case BootstrapRefuse:
		c.fail(&RefusedError{Reason: d.Reason})
		return false
	case BootstrapWait:
		f.report(d.Reason)
	case BootstrapForm:
		if c.node.Load() == nil {
			configuration := firstConfiguration(self, c.cfg.Address, d.Members)
			c.log.Info("forming a new cluster", "brokers", len(configuration.Servers), "voters", voters(configuration))
			return c.start(&configuration)
		}
	case BootstrapStart:
		if c.node.Load() == nil {
			return c.start(nil)
		}
	case BootstrapJoin:
		return f.join(ctx, d.Leader)
	}
	return true
}

// bootstrapSelf is what this broker knows about itself now.
func (c *Controller) bootstrapSelf() BootstrapSelf {
	return BootstrapSelf{
		Broker: c.cfg.Broker, Directory: c.cfg.Directory, Cluster: c.clusterID(),
		HasState: c.bootstrapped(), MayRejoin: c.marker.rejoin(), Expect: c.cfg.expect(), HasSeeds: len(c.cfg.Seeds) > 0,
	}
}

// join asks the leader to add this server, and then starts Raft if it does not run.
func (f *former) join(ctx context.Context, leader Endpoint) bool {
	c := f.c
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	c.hint(Redirect(leader))
	response, err := c.ports.Calls.Call(ctx, leader, JoinRequest{
		Broker: c.cfg.Broker, Directory: c.cfg.Directory, Address: c.cfg.Address, Cluster: c.clusterID(),
	})
	if err != nil {
		f.report("the controller at " + leader.Address + " does not take the join: " + err.Error())
		return true
	}
	answer, ok := response.(JoinResponse)
	if !ok {
		return true // a Redirect: the next round asks again
	}
	switch joinVerdict(answer.Code) {
	case joinAdded:
		if c.node.Load() == nil {
			c.log.Info("joining the cluster", "cluster", answer.Cluster.String(), "controller", leader.Address)
			return c.start(nil)
		}
	case joinRefused:
		c.fail(&RefusedError{Reason: answer.Message})
		return false
	default:
		f.report(answer.Message)
	}
	return true
}

// report logs why the broker waits, not more often than it helps.
func (f *former) report(reason string) {
	now := f.c.ports.Now()
	if reason == f.reason && now-f.reported < reasonRepeats {
		return
	}
	f.reason, f.reported = reason, now
	f.c.log.Info("waiting for the cluster", "reason", reason)
}

// probe asks all seeds, and the servers in Raft's configuration, at once and returns the answers, each with the address that was asked.
func (c *Controller) probe(ctx context.Context) []BootstrapAnswer {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request := ProbeRequest{From: c.cfg.Broker, Directory: c.cfg.Directory, BootstrapExpect: c.cfg.expect()}
	var (
		mu      sync.Mutex // guards answers
		answers []BootstrapAnswer
		asked   sync.WaitGroup
	)
	for _, to := range c.probeTargets() {
		asked.Go(func() {
			response, err := c.ports.Calls.Call(ctx, to, request)
			answer, ok := response.(ProbeResponse)
			if err != nil || !ok {
				return
			}
			c.book.hear(serverID(answer.Broker, answer.Directory), to.Address)
			mu.Lock()
			answers = append(answers, BootstrapAnswer{Address: to.Address, ProbeResponse: answer})
			mu.Unlock()
		})
	}
	asked.Wait()
	return answers
}

// probeTargets are the seeds, whoever answers there, and the servers that Raft knows, at their addresses and no others.
func (c *Controller) probeTargets() []Endpoint {
	var targets []Endpoint
	for _, seed := range c.cfg.Seeds {
		targets = append(targets, Endpoint{Address: seed})
	}
	n := c.node.Load()
	if n == nil {
		return targets
	}
	configuration, err := n.configuration()
	if err != nil {
		return targets
	}
	for _, s := range configuration.Servers {
		to := splitServerAddress(s.Address)
		if s.ID != c.server && !slices.Contains(c.cfg.Seeds, to.Address) {
			targets = append(targets, to)
		}
	}
	return targets
}
