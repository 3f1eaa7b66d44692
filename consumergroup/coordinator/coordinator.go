package coordinator

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/planted"
)

// Coordinator holds the groups of the shards that one broker leads. It belongs to one goroutine.
//
// Records are replayed as soon as a handler has made them, so the groups in memory are ahead of the log by what is queued and in flight;
// what rests on them waits until they are committed. When a batch is refused, or nobody knows what became of it, the shard's groups are
// thrown away and loaded from the log.
type Coordinator struct {
	broker      cluster.BrokerID
	config      Config
	groupConfig group.Config

	shards [cluster.ShardCount]*shard // nil where another broker leads
	queue  []*unit                    // waits for the next append, oldest first
	settle []*shard                   // are to send a batch without records with the next append
	flight *flight                    // the one append that is unresolved
	timers timers

	pendingBytes    int
	pendingRequests int
	// lastIndex is the newest entry of the metadata log that an append of ours is known to have become.
	lastIndex uint64
	effects   Effects
	counts    Counts
}

// shard is one led shard in one epoch, from one Load to the next. A shard that was lost or is loaded again gets a new one; units keep a
// pointer to theirs, so that a late result never touches the new one.
type shard struct {
	id           cluster.ShardID
	epoch        cluster.ShardEpoch
	loading      bool
	attempts     int // to load it; above 1 the first one failed
	parked       []parked
	nextSequence int64 // while loading: the least that the content must have
	// doubt says that a batch of nextSequence, of unknown outcome, may still be applied: then what the log has now is not what it will have. Before
	// anything is answered from the content, a batch without records takes the sequence, or finds it taken.
	doubt   bool
	content *ShardContent // waits for that batch; nil when none is on its way
	groups  map[string]*entry
}

// entry is one group with its place among the timers.
type entry struct {
	shard *shard
	group *group.Group
	// last is the newest unit with records of this group that is not resolved.
	last *unit
	// at and index belong to timers; index is -1 outside.
	at    time.Duration
	index int
}

// New returns a coordinator that leads no shard. The configurations must be valid.
func New(broker cluster.BrokerID, config Config, groupConfig group.Config) *Coordinator {
	return &Coordinator{broker: broker, config: config, groupConfig: groupConfig}
}

// Configure changes the configuration of every group. It must be valid.
func (c *Coordinator) Configure(config group.Config) {
	c.groupConfig = config
	for _, sh := range c.shards {
		if sh == nil {
			continue
		}
		for _, e := range sh.groups { // the order does not matter: each gets the same, and nothing follows from it
			e.group.Configure(config)
		}
	}
}

// Counts returns the totals since the start.
func (c *Coordinator) Counts() Counts { return c.counts }

// Deadline is when Tick wants to be called, group.Never if nothing waits for time.
func (c *Coordinator) Deadline() time.Duration {
	if len(c.timers) == 0 {
		return group.Never
	}
	return c.timers[0].at
}

// Take returns the effects since the last call. When no append is unresolved it makes one of what is queued: the shell calls it after it has
// handed over everything that it has, so that requests which come together travel together.
func (c *Coordinator) Take() Effects {
	if c.flight == nil && (len(c.queue) > 0 || len(c.settle) > 0) {
		c.send()
	}
	out := c.effects
	c.effects = Effects{}
	return out
}

// Handle has a group handle an input. The answer comes as an effect.
func (c *Coordinator) Handle(env group.Env, ticket Ticket, name string, in group.Input) {
	sh := c.shards[cluster.ShardOf(name)]
	switch {
	case sh == nil:
		c.refuse(ticket, cluster.CodeNotCoordinator, "this broker does not coordinate group "+name)
	case sh.loading && sh.attempts > 1:
		c.refuse(ticket, cluster.CodeCoordinatorLoading, "the coordinator of group "+name+" is taking over")
	case c.pendingBytes >= c.config.MaxPendingBytes || c.pendingRequests >= c.config.MaxPendingRequests:
		c.refuse(ticket, cluster.CodeOverloaded, "too many group requests wait for the metadata log")
	case sh.loading:
		c.park(sh, parked{ticket, name, in})
	default:
		e := sh.groups[name]
		if e == nil {
			e = &entry{shard: sh, group: group.New(name, c.groupConfig), index: -1}
		}
		c.step(env, ticket, e, in)
	}
}

func (c *Coordinator) refuse(ticket Ticket, code cluster.Code, message string) {
	c.effects.Answers = append(c.effects.Answers, Answer{ticket, group.Reply{Code: code, Message: message}})
}

// step has one group handle one input, replays what it decided and queues it.
func (c *Coordinator) step(env group.Env, ticket Ticket, e *entry, in group.Input) {
	env.Waiter = uint64(ticket)
	out := e.group.Step(env, in)
	for _, r := range out.Records {
		e.group.Replay(r)
	}
	var waiting []Answer
	for _, done := range out.Completed {
		waiting = append(waiting, Answer{Ticket(done.Waiter), done.Reply})
	}
	if ticket != 0 && !out.Parked && planted.On(planted.CommitAnsweredEarly) {
		c.effects.Answers = append(c.effects.Answers, Answer{ticket, out.Reply})
	} else if ticket != 0 && !out.Parked {
		waiting = append(waiting, Answer{ticket, out.Reply})
	}
	if !e.group.Vacant() {
		e.shard.groups[e.group.Name()] = e // even without records: somebody waits in it, or was given an id
	}
	switch {
	case len(out.Records) > 0:
		e.shard.groups[e.group.Name()] = e
		c.enqueue(e, out, waiting, in)
	case e.last != nil:
		e.last.answers = append(e.last.answers, waiting...)
		c.pendingRequests += len(waiting)
	default:
		c.effects.Answers = append(c.effects.Answers, waiting...)
	}
	if len(out.Records) == 0 { // members that had never been in a generation
		for _, r := range out.Removed {
			c.effects.Removed = append(c.effects.Removed, Removed{e.group.Name(), r})
		}
	}
	c.schedule(e)
}

// all steps every group that is served, in a fixed order, with nobody waiting.
func (c *Coordinator) all(env group.Env, in group.Input) {
	for _, e := range c.entries() {
		c.step(env, 0, e, in)
	}
}

// entries lists the groups that are served: by shard, then by name.
func (c *Coordinator) entries() []*entry {
	var out []*entry
	for _, sh := range c.shards {
		if sh != nil && !sh.loading {
			out = append(out, sh.sorted()...)
		}
	}
	return out
}

func (sh *shard) sorted() []*entry {
	out := make([]*entry, 0, len(sh.groups))
	for _, e := range sh.groups {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.group.Name(), b.group.Name()) })
	return out
}

// TopicsChanged tells all groups that topics were created, grew or were deleted.
func (c *Coordinator) TopicsChanged(env group.Env) { c.all(env, group.TopicsChanged{}) }

// Expire has all groups look for offsets that nobody has used for the retention time.
func (c *Coordinator) Expire(env group.Env, retention time.Duration) {
	c.all(env, group.Expire{Retention: retention})
}

// Refresh gives every member a fresh session, after a time in which members could not reach this broker as coordinator.
func (c *Coordinator) Refresh(env group.Env) { c.all(env, group.NewCoordinator{}) }

// Tick has the groups whose deadline has come look at the time.
func (c *Coordinator) Tick(env group.Env) {
	for len(c.timers) > 0 && c.timers[0].at <= env.Now {
		c.step(env, 0, c.timers[0], group.Tick{})
	}
}

// Len returns how many groups are held.
func (c *Coordinator) Len() int {
	n := 0
	for _, sh := range c.shards {
		if sh != nil {
			n += len(sh.groups)
		}
	}
	return n
}

// Groups calls see for every group that is served, by shard and name. The groups may be ahead of the log by what is in flight.
func (c *Coordinator) Groups(see func(*group.Group)) {
	for _, e := range c.entries() {
		if e.group.Exists() {
			see(e.group)
		}
	}
}

// schedule puts a group where its deadline belongs among the timers, and forgets a group that holds nothing and waits for nothing.
func (c *Coordinator) schedule(e *entry) {
	if e.group.Vacant() && e.last == nil {
		if e.shard.groups[e.group.Name()] == e {
			delete(e.shard.groups, e.group.Name())
		}
		c.unschedule(e)
		return
	}
	e.at = e.group.Deadline()
	switch {
	case e.at == group.Never:
		c.unschedule(e)
	case e.index < 0:
		heap.Push(&c.timers, e)
	default:
		heap.Fix(&c.timers, e.index)
	}
}

func (c *Coordinator) unschedule(e *entry) {
	if e.index >= 0 {
		heap.Remove(&c.timers, e.index)
	}
}

// timers is a heap of groups by deadline, and by name where deadlines are equal.
type timers []*entry

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if t[i].at != t[j].at {
		return t[i].at < t[j].at
	}
	return t[i].group.Name() < t[j].group.Name()
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push and Pop serve container/heap.
func (t *timers) Push(x any) {
	e := x.(*entry)
	e.index = len(*t)
	*t = append(*t, e)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	e.index = -1
	return e
}
