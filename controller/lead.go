package controller

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/driver"
)

// Bounds of the leader's loop.
const (
	heartbeatQueue = 1024 // heartbeats waiting for the leader to verify itself; beyond it they are not answered
	refusalQueue   = 64   // reports of refused connections; beyond it they are dropped, more will come
)

// leadership is this broker's time as controller. It ends with the Raft leadership.
type leadership struct {
	c        *Controller
	n        *node
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	beats    chan *beat
	refusals chan cluster.BrokerID
	results  chan driver.ProposalDone
	verified chan error // capacity 1
	health   *health
	config   driver.Config
}

// beat is a heartbeat that waits for its answer.
type beat struct {
	request HeartbeatRequest
	answer  chan Response // capacity 1
}

// startLeadership begins to lead.
func (c *Controller) startLeadership(n *node) *leadership {
	config := driver.DefaultConfig()
	config.Session, config.MissedBeat = c.cfg.SessionTimeout, c.cfg.SessionHeartbeat*3/2
	l := &leadership{
		c: c, n: n, config: config,
		beats:    make(chan *beat, heartbeatQueue),
		refusals: make(chan cluster.BrokerID, refusalQueue),
		results:  make(chan driver.ProposalDone),
		verified: make(chan error, 1),
		health:   newHealth(c.server, config.Session, c.ports.Now),
	}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	l.running.Go(l.run)
	return l
}

// close ends the leadership and waits for its goroutines.
func (l *leadership) close() {
	l.cancel()
	l.running.Wait()
}

// run catches up with the log, names a new cluster, and leads.
func (l *leadership) run() {
	if err := await(l.ctx, l.n.raft.Barrier(0)); err != nil {
		return // leadership is gone again
	}
	l.c.log.Info("this broker is the controller", "term", l.n.raft.CurrentTerm())
	if l.c.Image().ClusterID().IsZero() {
		l.nameCluster()
	}
	l.running.Go(l.keepMembers)
	(&leaderLoop{leadership: l, driver: driver.New(l.config)}).run()
}

// leaderLoop owns the driver.
type leaderLoop struct {
	*leadership
	driver   *driver.Driver
	image    *cluster.Image // that the driver has
	deadline time.Duration
	// waiting heartbeats form the batch that is verified after the one in verifying.
	verifying, waiting []*beat
}

// run feeds the driver until the leadership ends.
func (l *leaderLoop) run() {
	watcher := l.c.Watch()
	defer watcher.Stop()
	l.image = l.c.Image()
	l.step(driver.BecameLeader{Image: l.image})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(max(l.deadline-l.c.ports.Now(), 0))
		select {
		case <-l.ctx.Done():
			return
		case b := <-l.beats:
			if len(l.waiting) == heartbeatQueue {
				b.answer <- Redirect{} // too many for one verification: come again
				continue
			}
			l.waiting = append(l.waiting, b)
		case err := <-l.verified:
			l.answer(err)
		case <-watcher.Changed():
			l.follow()
		case done := <-l.results:
			l.step(done)
		case broker := <-l.refusals:
			l.step(driver.PeerRefused{Broker: broker})
		case <-timer.C:
			l.step(driver.Tick{})
		}
		l.verify()
	}
}

// verify begins to verify the leadership for the heartbeats that have come since the last time.
func (l *leaderLoop) verify() {
	if l.verifying != nil || l.waiting == nil {
		return
	}
	l.verifying, l.waiting = l.waiting, nil
	l.running.Go(func() { l.verified <- await(l.ctx, l.n.raft.VerifyLeader()) })
}

// answer answers the heartbeats for which the leadership was being verified.
func (l *leaderLoop) answer(err error) {
	for _, b := range l.verifying {
		if err != nil {
			b.answer <- Redirect{}
			continue
		}
		l.follow() // a broker may know its registration before the driver does
		reply := l.step(driver.Heartbeat(b.request)).Reply
		b.answer <- HeartbeatResponse{Code: reply.Code, Fenced: reply.Fenced, MayShutDown: reply.MayShutDown, Applied: l.c.Applied()}
	}
	l.verifying = nil
}

// follow gives the driver the newest metadata.
func (l *leaderLoop) follow() {
	if image := l.c.Image(); image != l.image {
		l.image = image
		l.step(driver.ImageChanged{Image: image})
	}
}

// step steps the driver and carries out its effects.
func (l *leaderLoop) step(in driver.Input) driver.Effects {
	effects := l.driver.Step(l.c.ports.Now(), in)
	for _, p := range effects.Propose {
		l.propose(p)
	}
	l.deadline = effects.Deadline
	return effects
}

// propose queues a command of the driver, in order, and reports its outcome later.
func (l *leaderLoop) propose(p driver.Proposal) {
	encoded, err := encodeCommand(p.Command)
	if err != nil {
		l.c.fail(err) // the driver's commands hold nothing that cannot be encoded
		return
	}
	l.c.log.Debug("the controller proposes", "command", fmt.Sprintf("%T", p.Command))
	pr, queued := l.n.proposer.enqueue(frameEntry(encoded), false)
	l.running.Go(func() {
		done := driver.ProposalDone{ID: p.ID, Failed: true}
		if queued {
			out := l.n.proposer.wait(l.ctx, pr)
			done.Result, done.Failed = out.result, out.err != nil
		}
		select {
		case l.results <- done:
		case <-l.ctx.Done():
		}
	})
}

// nameCluster gives a new cluster its id. A failure ends the leadership, and the next one tries again.
func (l *leadership) nameCluster() {
	encoded, err := encodeCommand(cluster.InitCluster{Cluster: newUUID(), FeatureLevel: l.c.cfg.FeatureLevel, CreatedMs: time.Now().UnixMilli()})
	if err != nil {
		l.c.fail(fmt.Errorf("controller: encode the cluster id: %w", err))
		return
	}
	out := l.n.proposer.submit(l.ctx, frameEntry(encoded), false)
	if out.err == nil {
		l.c.log.Info("the cluster has an id", "cluster", l.c.Image().ClusterID().String())
	}
}

func newUUID() cluster.UUID { return cluster.DrawUUID(rand.Read) }

// heartbeat queues a broker's heartbeat and waits until a leader that is sure of itself has answered it.
func (l *leadership) heartbeat(ctx context.Context, request HeartbeatRequest) (Response, error) {
	if registered, ok := l.c.Image().Broker(request.Broker); ok && registered.Epoch == request.Epoch {
		l.health.note(serverID(registered.ID, registered.Directory), request.Applied)
	}
	b := &beat{request: request, answer: make(chan Response, 1)}
	select {
	case l.beats <- b:
	default:
		return nil, cluster.Refuse(cluster.CodeOverloaded, "too many heartbeats wait for the controller")
	}
	select {
	case answer := <-b.answer:
		return answer, nil
	case <-l.ctx.Done():
		return Redirect{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refused notes that a server's peer port refused a connection of this broker.
func (l *leadership) refused(id raft.ServerID) {
	l.health.refusedBy(id, l.config.RefusalGap)
	broker, _, err := parseServerID(id)
	if err != nil {
		return
	}
	select {
	case l.refusals <- broker:
	default:
	}
}

// liveElsewhere reports whether the broker has a live session from another data directory.
func (l *leadership) liveElsewhere(broker cluster.BrokerID, dir cluster.DirectoryID) bool {
	registered, ok := l.c.Image().Broker(broker)
	return ok && registered.Directory != dir && l.health.alive(serverID(broker, registered.Directory))
}
