package consumergroup

import (
	"context"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
)

const (
	// maxDrain is how many requests are taken at a time before their records are sent.
	maxDrain = 512
	// leaseRetry is how often a lease that has run out is looked at while a deadline waits for it.
	leaseRetry = 250 * time.Millisecond
	// maxOverslept is how late the timer may be before the loop concludes that the process was stopped: then the members' heartbeats are
	// still in the sockets, and nobody is fenced.
	maxOverslept = time.Second
	// loggedLines is how many lines with one message are logged in ten seconds: clients make groups and members by the thousand, and let them go.
	loggedLines = 100
)

// loop is the goroutine that owns the groups.
type loop struct {
	*Coordinator
	ctx     context.Context
	core    *coordinator.Coordinator
	start   time.Time
	waiting map[coordinator.Ticket]chan group.Reply
	next    coordinator.Ticket

	timer *time.Timer
	// wakeAt is when the timer fires, group.Never while it does not run.
	wakeAt time.Duration
	// expireAt is when expired offsets are looked for next; it does not run while there are no groups.
	expireAt time.Duration
	// retention is of the offsets of empty groups.
	retention time.Duration
	// gap says that the lease had run out when the loop last looked: members could not reach their coordinator.
	gap bool
}

func newLoop(ctx context.Context, c *Coordinator) *loop {
	l := &loop{
		Coordinator: c,
		ctx:         ctx,
		core:        coordinator.New(c.config.Broker, c.config.Batch, c.config.Group),
		start:       time.Now(),
		waiting:     map[coordinator.Ticket]chan group.Reply{},
		timer:       time.NewTimer(time.Hour),
		wakeAt:      group.Never,
		expireAt:    group.Never,
		retention:   c.config.OffsetsRetention,
	}
	l.timer.Stop()
	return l
}

func (l *loop) env() group.Env {
	now := time.Now()
	return group.Env{Now: now.Sub(l.start), NowMs: now.UnixMilli(), Topics: l.ports.Topics()}
}

// run handles one thing after the other until the coordinator is closed.
func (l *loop) run() {
	defer close(l.stopped)
	defer l.timer.Stop()
	for {
		select {
		case m := <-l.inbox:
			l.handle(m)
			l.drain()
		case a := <-l.appended:
			l.core.Appended(l.env(), a.result, a.err)
			l.drain()
		case x := <-l.loaded:
			l.onLoaded(x)
		case <-l.news:
			l.takeNews()
		case <-l.timer.C:
			l.onTimer()
		case <-l.ctx.Done():
			return
		}
		l.carryOut(l.core.Take())
		l.arm()
	}
}

// drain takes what else waits, so that it travels in one append.
func (l *loop) drain() {
	for range maxDrain {
		select {
		case m := <-l.inbox:
			l.handle(m)
		default:
			return
		}
	}
}

// handle steps the group that a request is for.
func (l *loop) handle(m message) {
	if m.see != nil {
		m.see(l.core)
		return
	}
	env := l.env()
	if !l.leased(env) {
		m.reply <- group.Reply{Code: cluster.CodeNoCoordinator, Message: "the coordinator of group " + m.name + " has lost touch with the controller; retry"}
		return
	}
	l.next++
	l.waiting[l.next] = m.reply
	l.core.Handle(env, l.next, m.name, m.input)
}

// leased reports whether this broker still counts as alive. After a gap members get fresh sessions: they could not renew them.
func (l *loop) leased(env group.Env) bool {
	if !l.ports.LeaseValid() {
		l.gap = true
		return false
	}
	if l.gap {
		l.gap = false
		l.core.Refresh(env)
	}
	return true
}

func (l *loop) onLoaded(x loaded) {
	if x.err != nil {
		l.core.LoadFailed(x.load)
		return
	}
	l.core.Loaded(l.env(), x.load, x.content)
}

// takeNews takes up what was told from outside.
func (l *loop) takeNews() {
	l.told.Lock()
	shards, have, topics, settings := l.told.shards, l.told.have, l.told.topics, l.told.settings
	l.told.shards, l.told.have, l.told.topics, l.told.settings = nil, false, false, nil
	l.told.Unlock()
	if settings != nil { // first: groups of a shard that comes with it are loaded under them
		l.retention = settings.OffsetsRetention
		l.core.Configure(settings.apply(l.config.Group))
	}
	if have {
		l.core.ShardsChanged(shards)
	}
	if topics {
		l.core.TopicsChanged(l.env())
	}
}

// onTimer lets time pass for the groups, unless nobody could have reached them.
func (l *loop) onTimer() {
	env := l.env()
	overslept := env.Now-l.wakeAt > maxOverslept
	l.wakeAt = group.Never
	l.drain() // a heartbeat that has arrived counts before its session is looked at
	switch {
	case !l.leased(env):
	case overslept:
		l.core.Refresh(env)
	default:
		l.core.Tick(env)
	}
	if env.Now >= l.expireAt {
		l.expireAt = env.Now + l.config.ExpireInterval
		if !l.gap {
			l.core.Expire(env, l.retention)
		}
	}
}

// arm sets the timer for the next deadline. A broker without groups has none.
func (l *loop) arm() {
	now := time.Since(l.start)
	switch {
	case l.core.Len() == 0:
		l.expireAt = group.Never
	case l.expireAt == group.Never:
		l.expireAt = now + l.config.ExpireInterval
	}
	at := l.core.Deadline()
	if l.gap && at != group.Never {
		at = max(at, now+leaseRetry)
	}
	at = min(at, l.expireAt)
	if at == l.wakeAt {
		return
	}
	l.wakeAt = at
	if at == group.Never {
		l.timer.Stop()
		return
	}
	l.timer.Reset(max(0, at-now))
}

// carryOut does what the core decided.
func (l *loop) carryOut(fx coordinator.Effects) {
	l.counts.add(l.core.Counts(), fx)
	for _, a := range fx.Answers {
		if reply, ok := l.waiting[a.Ticket]; ok {
			delete(l.waiting, a.Ticket)
			reply <- a.Reply
		}
	}
	l.watchers.wake(fx.Wake, fx.Moved)
	for _, r := range fx.Removed {
		l.log.Info("group member removed", "group", r.Group, "member", r.Member, "reason", r.Reason)
	}
	for _, x := range fx.Expired {
		l.log.Info("group offsets expired", "group", x.Group, "offsets", x.Offsets, "group_deleted", x.Deleted, "retention", l.retention)
	}
	if fx.Append != nil {
		fx.Append.NowMs = time.Now().UnixMilli()
		command := *fx.Append
		l.work.Go(func() { l.append(l.ctx, command) })
	}
	for _, load := range fx.Loads {
		l.work.Go(func() { l.load(l.ctx, load) })
	}
}
