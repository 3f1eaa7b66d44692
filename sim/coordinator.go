package sim

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// Times of the coordinator's shell, as the product has them.
const (
	groupLeaseRetry = 250 * time.Millisecond
	groupOverslept  = time.Second
	proposePause    = 50 * time.Millisecond
	expireEvery     = 500 * time.Millisecond // far more often than the product
)

// groupShell is what one life of a broker has around the pure group coordinator: an inbox, the timer, appends and loads. It stands in for the
// loop of package consumergroup, and like its select it takes whatever is ready in any order.
type groupShell struct {
	b      *broker
	core   *coordinator.Coordinator
	config consumergroup.Config

	inbox    []groupRequest
	outcomes []func() // of appends
	contents []func() // of loads
	shards   []coordinator.ShardLead
	news     bool // shards and topics have not been taken up
	due      bool // the timer has fired
	turning  bool
	wakeAt   time.Duration
	expireAt time.Duration
	gap      bool

	waiting map[coordinator.Ticket]func(group.Reply)
	next    coordinator.Ticket
	seen    *cluster.Image // what was last told
	doors   []*joinDoor
	// served says since when a shard has been loaded, heard when a member was last served: for the checks.
	served [cluster.ShardCount]time.Duration
	heard  map[coordinator.Watched]time.Duration
	// suspect holds who was removed earlier than after a session, and how long after it was served; what for shows when that is committed.
	suspect map[coordinator.Watched]time.Duration
}

// groupRequest is one input for a group on its way to the loop.
type groupRequest struct {
	name  string
	in    group.Input
	reply func(group.Reply)
}

func newGroupShell(b *broker) *groupShell {
	config := consumergroup.DefaultConfig()
	config.Group.InitialRebalanceDelay = b.w.groups.rebalanceDelay
	return &groupShell{
		b: b, config: config, core: coordinator.New(b.id, config.Batch, config.Group), wakeAt: group.Never, seen: cluster.EmptyImage(),
		waiting: map[coordinator.Ticket]func(group.Reply){}, heard: map[coordinator.Watched]time.Duration{},
		suspect: map[coordinator.Watched]time.Duration{},
	}
}

// inContact is the lease of answers that rest on no commit: see broker.Broker.
func (b *broker) inContact() bool {
	me, ok := b.image.Broker(b.id)
	if b.w.opts.Plant == PlantEternalCoordinator {
		return true
	}
	return ok && !me.Draining && b.Now() < b.lease
}

// learn takes what a newer image says of shards and topics, and has the loop take it up later.
func (s *groupShell) learn(image *cluster.Image) {
	if cluster.Diff(s.seen, image).Empty() {
		s.seen = image
		return
	}
	s.seen = image
	s.shards = nil
	for id := range cluster.ShardID(cluster.ShardCount) {
		if shard := image.Shard(id); shard.Leader == s.b.id {
			s.shards = append(s.shards, coordinator.ShardLead{Shard: id, Epoch: shard.Epoch})
		}
	}
	s.news = true
	s.wake()
}

func (s *groupShell) env() group.Env {
	return group.Env{Now: s.b.Now(), NowMs: s.b.WallMs(), Topics: s.b.image}
}

// submit hands a request to the loop. reply is called once, or never if this life ends.
func (s *groupShell) submit(name string, in group.Input, reply func(group.Reply)) {
	s.inbox = append(s.inbox, groupRequest{name, in, reply})
	s.wake()
}

func (s *groupShell) wake() {
	if !s.turning {
		s.turning = true
		s.b.later(s.b.w.between(0, 200*time.Microsecond), s.turn)
	}
}

// ready lists what the loop could take next.
func (s *groupShell) ready() []func() {
	var out []func()
	if len(s.inbox) > 0 {
		out = append(out, s.drain)
	}
	if len(s.outcomes) > 0 {
		out = append(out, func() { s.first(&s.outcomes); s.drain() })
	}
	if len(s.contents) > 0 {
		out = append(out, func() { s.first(&s.contents) })
	}
	if s.news {
		out = append(out, s.takeNews)
	}
	if s.due {
		out = append(out, s.onTimer)
	}
	return out
}

func (s *groupShell) first(of *[]func()) {
	what := (*of)[0]
	*of = (*of)[1:]
	what()
}

// turn takes one thing.
func (s *groupShell) turn() {
	s.turning = false
	if ready := s.ready(); len(ready) > 0 {
		ready[s.b.w.rng.IntN(len(ready))]()
		s.carryOut(s.core.Take())
		s.arm()
	}
	if len(s.ready()) > 0 {
		s.wake()
	}
}

// drain takes all requests that wait.
func (s *groupShell) drain() {
	inbox := s.inbox
	s.inbox = nil
	for _, r := range inbox {
		s.handle(r)
	}
}

func (s *groupShell) handle(r groupRequest) {
	env := s.env()
	if !s.leased(env) {
		r.reply(group.Reply{Code: cluster.CodeNoCoordinator})
		return
	}
	s.next++
	s.waiting[s.next] = func(answer group.Reply) {
		if who := memberOf(r.in); who != "" && answer.Code == cluster.CodeNone {
			s.heard[coordinator.Watched{Group: r.name, Member: who}] = env.Now
		}
		r.reply(answer)
	}
	s.core.Handle(env, s.next, r.name, r.in)
}

// memberOf names the member whose session an input renews.
func memberOf(in group.Input) string {
	switch in := in.(type) {
	case group.Heartbeat:
		if !in.Poll {
			return in.MemberID
		}
	case group.ClassicHeartbeat:
		return in.MemberID
	}
	return ""
}

// leased reports whether this broker still counts as alive. After a gap members get fresh sessions.
func (s *groupShell) leased(env group.Env) bool {
	if !s.b.inContact() {
		s.gap = true
		return false
	}
	if s.gap {
		s.gap = false
		if s.b.w.opts.Plant != PlantForgetsGap {
			s.core.Refresh(env)
		}
		for i := range s.served {
			s.served[i] = env.Now
		}
	}
	return true
}

func (s *groupShell) takeNews() {
	s.news = false
	s.core.ShardsChanged(s.shards)
	s.core.TopicsChanged(s.env())
}

func (s *groupShell) onTimer() {
	s.due = false
	env := s.env()
	overslept := env.Now-s.wakeAt > groupOverslept
	s.wakeAt = group.Never
	s.drain()
	switch {
	case !s.leased(env):
	case overslept:
		s.core.Refresh(env)
	case env.Now >= s.expireAt:
		s.expireAt = env.Now + expireEvery
		s.core.Expire(env, s.b.w.groups.retention)
	default:
		before := s.members(env)
		s.core.Tick(env)
		s.b.w.groups.check.ticked(s, env.Now, before, s.members(env))
	}
}

// members lists who is in a group.
func (s *groupShell) members(env group.Env) []coordinator.Watched {
	var out []coordinator.Watched
	s.core.Groups(func(g *group.Group) {
		d := g.Step(env, group.Describe{}).Reply.Description
		for i := range d.Members {
			out = append(out, coordinator.Watched{Group: d.Group, Member: d.Members[i].ID})
		}
	})
	return out
}

// arm sets the timer for the next deadline.
func (s *groupShell) arm() {
	now, at := s.b.Now(), s.core.Deadline()
	if s.core.Len() > 0 {
		at = min(at, max(s.expireAt, now+time.Millisecond))
	}
	if s.gap && at != group.Never {
		at = max(at, now+groupLeaseRetry)
	}
	if at == s.wakeAt {
		return
	}
	s.wakeAt = at
	if at == group.Never {
		return
	}
	s.b.later(max(0, at-now), func() {
		if s.wakeAt == at {
			s.due = true
			s.wake()
		}
	})
}

// carryOut does what the core decided.
func (s *groupShell) carryOut(fx coordinator.Effects) {
	for _, r := range fx.Removed {
		s.b.w.groups.check.removed(s, r)
	}
	for _, a := range fx.Answers {
		if reply, ok := s.waiting[a.Ticket]; ok {
			delete(s.waiting, a.Ticket)
			reply(a.Reply)
		}
	}
	for _, d := range slices.Clone(s.doors) {
		if slices.Contains(fx.Wake, d.watched()) || slices.Contains(fx.Moved, cluster.ShardOf(d.base.Group)) {
			d.poke()
		}
	}
	if fx.Append != nil {
		fx.Append.NowMs = s.b.WallMs()
		s.append(*fx.Append)
	}
	for _, l := range fx.Loads {
		s.load(l)
	}
}

// stop ends this life: who waits hears of it, as its connection ends.
func (s *groupShell) stop() {
	for _, d := range slices.Clone(s.doors) {
		d.conn.breakUp()
	}
}
