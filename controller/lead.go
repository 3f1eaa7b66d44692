package controller

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

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

	mu   sync.Mutex // guards seen
	seen map[raft.ServerID]time.Duration
}

// beat is a heartbeat that waits for its answer.
type beat struct {
	request HeartbeatRequest
	answer  chan HeartbeatResponse // capacity 1
}

// startLeadership begins to lead.
func (c *Controller) startLeadership(n *node) *leadership {
	l := &leadership{c: c, n: n, began: c.ports.Now(), beats: make(chan *beat, heartbeatQueue), seen: map[raft.ServerID]time.Duration{}}
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
	b := &beat{request: request, answer: make(chan HeartbeatResponse, 1)}
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

// note remembers that a server is alive.
func (l *leadership) note(id raft.ServerID) {
	l.mu.Lock()
	l.seen[id] = l.c.ports.Now()
	l.mu.Unlock()
}

// alive reports whether a server has sent a heartbeat within the session timeout. A new leader gives everybody that long to come.
func (l *leadership) alive(id raft.ServerID) bool {
	if id == l.c.server {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.seen[id]
	if !ok {
		last = l.began
	}
	return l.c.ports.Now()-last < sessionTimeout
}

// liveElsewhere reports whether the broker has a live session from another data directory.
func (l *leadership) liveElsewhere(broker cluster.BrokerID, dir cluster.DirectoryID) bool {
	registered, ok := l.c.Image().Broker(broker)
	return ok && registered.Directory != dir && l.alive(serverID(broker, registered.Directory))
}
