package controller

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// Bounds of the leader's loop.
const (
	heartbeatQueue = 1024 // heartbeats waiting for the leader to verify itself; beyond it they are not answered
	sessionTimeout = 1500 * time.Millisecond
)

// leadership is this broker's time as controller. It ends with the Raft leadership.
type leadership struct {
	c       *Controller
	n       *node
	began   time.Duration // of Ports.Now
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	beats   chan *beat
	health  *health
}

// beat is a heartbeat that waits for its answer.
type beat struct {
	request HeartbeatRequest
	answer  chan Response // capacity 1
}

// startLeadership begins to lead.
func (c *Controller) startLeadership(n *node) *leadership {
	l := &leadership{
		c: c, n: n, began: c.ports.Now(),
		beats:  make(chan *beat, heartbeatQueue),
		health: newHealth(c.server, c.ports.Now),
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
	l.loop()
}

// loop answers heartbeats, in batches: those that come while one batch is being verified form the next.
func (l *leadership) loop() {
	verified := make(chan error, 1)
	var verifying, waiting []*beat
	for {
		select {
		case <-l.ctx.Done():
			return
		case b := <-l.beats:
			waiting = append(waiting, b)
		case err := <-verified:
			for _, b := range verifying {
				b.answer <- l.answer(b.request, err)
			}
			verifying = nil
		}
		if verifying == nil && waiting != nil {
			verifying, waiting = waiting, nil
			l.running.Go(func() { verified <- await(l.ctx, l.n.raft.VerifyLeader()) })
		}
	}
}

// answer answers one heartbeat after the leadership was verified.
func (l *leadership) answer(r HeartbeatRequest, err error) Response {
	if err != nil {
		return Redirect{}
	}
	registered, ok := l.c.Image().Broker(r.Broker)
	switch {
	case !ok:
		return HeartbeatResponse{Code: cluster.CodeUnknownBroker}
	case registered.Epoch != r.Epoch:
		return HeartbeatResponse{Code: cluster.CodeStaleBrokerEpoch}
	}
	return HeartbeatResponse{Fenced: registered.Fenced}
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

func newUUID() cluster.UUID {
	var id cluster.UUID
	_, _ = rand.Read(id[:]) // never fails
	return id
}

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

// liveElsewhere reports whether the broker has a live session from another data directory.
func (l *leadership) liveElsewhere(broker cluster.BrokerID, dir cluster.DirectoryID) bool {
	registered, ok := l.c.Image().Broker(broker)
	return ok && registered.Directory != dir && l.health.alive(serverID(broker, registered.Directory))
}
