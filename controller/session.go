package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// Timing of a session.
const (
	heartbeatTimeout = time.Second // one heartbeat's answer
	registerPause    = 100 * time.Millisecond
	hurry            = 5               // heartbeats come so much faster while the last one was not answered or the broker is fenced
	maxPromises      = 8               // leases that wait; the oldest are forgotten, which have ended or soon will
	duplicateGrace   = 5 * time.Second // how long a live broker of the same id may be this one's earlier life
	// repeatOffline is how often every replica that is offline is reported anew. A controller forgets them with its leadership, perhaps before it has acted.
	repeatOffline = 5 * time.Second
)

// SessionEvents is what a Session tells its broker. Functions are called on the session's goroutine, Contact also on the one that calls Acted, and must not
// block; nil ones are skipped.
type SessionEvents struct {
	// Contact says that the broker may count on being in contact with the controller until that moment of Ports.Now. It comes when the broker acts on all that
	// the controller had decided when it answered: a broker that hears the controller and not its decisions would go on as a leader that it is no more.
	Contact func(until time.Duration)
	// Handled is the index up to which the broker acts on the metadata, which is what heartbeats tell the controller. Nil: what has been applied.
	Handled func() uint64
	// Fenced says whether the controller keeps the broker out of leadership and ISRs.
	Fenced func(fenced bool)
	// Registration builds the registration of a broker whose earlier one is not known to the controller any more. Its Broker.Incarnation and Directory are those
	// of the first one.
	Registration func(previous cluster.BrokerEpoch) cluster.RegisterBroker
	// Registered reports a new broker epoch after such a registration.
	Registered func(epoch cluster.BrokerEpoch)
}

// Session is a broker's registration with the controller: heartbeats carry what the broker has applied and what has failed, their answers carry the lease.
// One per Controller. Its methods may be called from any goroutine; Run by one.
type Session struct {
	c      *Controller
	events SessionEvents
	epoch  atomic.Int64
	fenced atomic.Bool   // as of the last answer
	soon   chan struct{} // capacity 1: beat now

	mu       sync.Mutex    // guards the rest
	offline  replicas      // to be reported
	online   replicas      // to be reported; none of them is in offline
	failed   replicas      // all that are offline, reported or not
	repeatAt time.Duration // when all of them are reported next
	refusing []cluster.BrokerID
	draining bool
	drained  chan struct{} // closed when the broker may shut down
	// promises are leases that wait for the broker to act on what was decided before them, oldest first, at most maxPromises.
	promises []promise
}

// replicas is a set of this broker's replicas. A disk that fails as a whole takes all of them in at once.
type replicas map[cluster.TopicPartition]struct{}

// list is the set in key order, nil when it is empty.
func (r replicas) list() []cluster.TopicPartition {
	return slices.SortedFunc(maps.Keys(r), cluster.TopicPartition.Compare)
}

// promise is a lease until a moment of Ports.Now for a broker that acts on the metadata up to an index.
type promise struct {
	until time.Duration
	index uint64
}

// NewSession creates the broker's session; Register must succeed before Run.
func (c *Controller) NewSession(events SessionEvents) *Session {
	s := &Session{c: c, events: events, soon: make(chan struct{}, 1), drained: make(chan struct{}), offline: replicas{}, online: replicas{}, failed: replicas{}}
	s.epoch.Store(int64(cluster.NoBrokerEpoch))
	return s
}

// Epoch is the broker epoch of the present registration, NoBrokerEpoch before the first.
func (s *Session) Epoch() cluster.BrokerEpoch { return cluster.BrokerEpoch(s.epoch.Load()) }

// Register registers this run of the broker and returns its broker epoch, once this broker has applied the registration itself. A registration whose outcome is
// unknown is sent again: it supersedes itself. A *cluster.Error of CodeDuplicateBroker, CodeWrongCluster or CodeUnsupportedFeature is final.
func (s *Session) Register(ctx context.Context, registration cluster.RegisterBroker) (cluster.BrokerEpoch, error) {
	select {
	case <-s.c.formed: // earlier, the metadata refuses everything
	case <-ctx.Done():
		return cluster.NoBrokerEpoch, fmt.Errorf("controller: register broker %d before the cluster formed: %w", s.c.cfg.Broker, ctx.Err())
	case <-s.c.ctx.Done():
		return cluster.NoBrokerEpoch, ErrClosed
	}
	registration = atLevel(s.c.Image().FeatureLevel(), registration)
	start := s.c.ports.Now()
	for {
		changed := s.c.leaderChanged()
		result, err := s.c.Propose(ctx, registration)
		switch {
		case err == nil && result.Code == cluster.CodeNone:
			s.epoch.Store(int64(result.BrokerEpoch))
			return result.BrokerEpoch, nil
		case err == nil && result.Code == cluster.CodeDuplicateBroker && s.c.ports.Now()-start < duplicateGrace:
			// The other one may be the earlier life of this broker, on a disk that was wiped since: its session ends soon.
		case err == nil && !temporary(result.Code):
			return cluster.NoBrokerEpoch, cluster.Refuse(result.Code, result.Message)
		case ctx.Err() != nil:
			return cluster.NoBrokerEpoch, fmt.Errorf("controller: register broker %d: %w", s.c.cfg.Broker, errors.Join(ctx.Err(), err))
		}
		if !s.c.pause(ctx, changed, registerPause) {
			return cluster.NoBrokerEpoch, fmt.Errorf("controller: register broker %d: %w", s.c.cfg.Broker, errors.Join(ErrClosed, err))
		}
	}
}

// atLevel leaves out of a registration what brokers of an older version would not understand, as long as there may be some.
func atLevel(level int32, c cluster.RegisterBroker) cluster.RegisterBroker {
	if level < cluster.LevelLogs {
		c.Logs, c.LogsTold = nil, false
	}
	return c
}

// temporary says that the same registration may be accepted later.
func temporary(code cluster.Code) bool {
	switch code {
	case cluster.CodeTimedOut, cluster.CodeNoController, cluster.CodeNotController, cluster.CodeOverloaded:
		return true
	}
	return false
}

// ReportOffline tells the controller, with the next heartbeat, that the logs of partitions failed here.
func (s *Session) ReportOffline(partitions ...cluster.TopicPartition) {
	s.mu.Lock()
	for _, tp := range partitions {
		delete(s.online, tp)
		s.offline[tp], s.failed[tp] = struct{}{}, struct{}{}
	}
	s.mu.Unlock()
	s.beatSoon()
}

// ReportOnline takes ReportOffline back, with the next heartbeat: the replica was begun anew, and works, or it is gone.
func (s *Session) ReportOnline(tp cluster.TopicPartition) {
	s.mu.Lock()
	delete(s.offline, tp)
	delete(s.failed, tp)
	s.online[tp] = struct{}{}
	s.mu.Unlock()
	s.beatSoon()
}

// ReportRefusing tells the controller, with the next heartbeat, that a broker's peer port refused connections twice, at least 100 ms apart.
func (s *Session) ReportRefusing(broker cluster.BrokerID) {
	s.mu.Lock()
	if !slices.Contains(s.refusing, broker) {
		s.refusing = append(s.refusing, broker)
	}
	s.mu.Unlock()
	s.beatSoon()
}

// Drain asks for an orderly shutdown and returns when the controller says that nothing depends on this broker any more. Run must be running.
func (s *Session) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.beatSoon()
	select {
	case <-s.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controller: drain: %w", ctx.Err())
	case <-s.c.ctx.Done():
		return ErrClosed
	}
}

func (s *Session) beatSoon() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// Run sends heartbeats until ctx ends, at once after a change of leader and after a report.
func (s *Session) Run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := s.c.leaderChanged()
		pause := s.c.cfg.SessionHeartbeat
		if !s.beat(ctx) || s.fenced.Load() || s.isDraining() {
			pause /= hurry
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-s.soon:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// beat sends one heartbeat; false means that it was not answered by a leader.
func (s *Session) beat(ctx context.Context) bool {
	request := s.request()
	sent := s.c.ports.Now()
	callCtx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	response, err := s.c.callLeader(callCtx, request)
	answer, ok := response.(HeartbeatResponse)
	if err != nil || !ok {
		s.restore(request)
		return false
	}
	switch answer.Code {
	case cluster.CodeNone:
		s.answered(answer, sent)
		return true
	case cluster.CodeStaleBrokerEpoch, cluster.CodeUnknownBroker:
		s.restore(request)
		s.registerAgain(ctx)
	default:
		s.restore(request)
	}
	return false
}

func (s *Session) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

func (s *Session) handled() uint64 {
	if s.events.Handled == nil {
		return s.c.Applied()
	}
	return s.events.Handled()
}

// request takes what is to be reported.
func (s *Session) request() HeartbeatRequest {
	now := s.c.ports.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.repeatAt {
		s.offline, s.repeatAt = maps.Clone(s.failed), now+repeatOffline
	}
	request := HeartbeatRequest{
		Broker: s.c.cfg.Broker, Epoch: s.Epoch(), Applied: s.handled(),
		WantDrain: s.draining, Offline: s.offline.list(), Refusing: s.refusing, Online: s.online.list(),
	}
	s.offline, s.refusing, s.online = replicas{}, nil, replicas{}
	return request
}

// restore puts back what an unanswered heartbeat wanted to report. A refusing peer is not: it may be back, and will be seen again if it is not.
func (s *Session) restore(request HeartbeatRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range request.Offline {
		if _, told := s.online[tp]; !told { // since then
			s.offline[tp] = struct{}{}
		}
	}
	for _, tp := range request.Online {
		if _, told := s.offline[tp]; !told {
			s.online[tp] = struct{}{}
		}
	}
}

func (s *Session) answered(answer HeartbeatResponse, sent time.Duration) {
	s.fenced.Store(answer.Fenced)
	if s.events.Contact != nil && !answer.Fenced { // a fenced broker may be replaced at once, so it takes no lease
		s.promise(promise{until: sent + s.c.cfg.ContactLease, index: answer.Applied})
		s.Acted()
	}
	if s.events.Fenced != nil {
		s.events.Fenced(answer.Fenced)
	}
	if !answer.MayShutDown {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// promise keeps a lease for when the broker has got so far.
func (s *Session) promise(p promise) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.promises) == maxPromises {
		s.promises = slices.Delete(s.promises, 0, 1)
	}
	s.promises = append(s.promises, p)
}

// Acted is to be called when the broker acts on newer metadata: a lease may have waited for that.
func (s *Session) Acted() {
	if s.events.Contact == nil {
		return
	}
	handled, until := s.handled(), time.Duration(0)
	s.mu.Lock()
	s.promises = slices.DeleteFunc(s.promises, func(p promise) bool {
		if p.index > handled {
			return false
		}
		until = max(until, p.until)
		return true
	})
	s.mu.Unlock()
	if until > 0 {
		s.events.Contact(until)
	}
}

// registerAgain registers a broker that the controller does not know under its epoch.
func (s *Session) registerAgain(ctx context.Context) {
	if s.events.Registration == nil {
		return
	}
	epoch, err := s.Register(ctx, s.events.Registration(s.Epoch()))
	if err != nil {
		s.c.log.Warn("cannot register again", "error", err)
		return
	}
	s.mu.Lock()
	s.repeatAt = 0 // with the epoch the controller has forgotten what is offline
	s.mu.Unlock()
	s.c.log.Info("registered again", "broker_epoch", int64(epoch))
	if s.events.Registered != nil {
		s.events.Registered(epoch)
	}
}
