package coordinator

import (
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/planted"
)

// ShardsChanged takes the shards that this broker leads now, all of them. New ones are loaded; what waited for lost ones is refused.
func (c *Coordinator) ShardsChanged(led []ShardLead) {
	want := map[cluster.ShardID]cluster.ShardEpoch{}
	for _, l := range led {
		want[l.Shard] = l.Epoch
	}
	for id := range cluster.ShardID(cluster.ShardCount) {
		sh := c.shards[id]
		epoch, ok := want[id]
		switch {
		case !ok && sh != nil:
			c.lose(sh)
		case ok && sh == nil:
			c.take(id, epoch, 0)
		case ok && epoch > sh.epoch:
			c.lose(sh)
			c.take(id, epoch, 0)
		}
	}
}

// lose gives up a shard. What is in flight still gets its answer: the log decides whether it came before the loss.
func (c *Coordinator) lose(sh *shard) {
	const message = "another broker coordinates the group now"
	c.dropQueued(sh, cluster.CodeNotCoordinator, message)
	c.refuseParked(sh, cluster.CodeNotCoordinator, message)
	c.forget(sh, cluster.CodeNotCoordinator, message)
	c.shards[sh.id] = nil
	c.effects.Moved = append(c.effects.Moved, sh.id)
}

// take begins to load a shard.
func (c *Coordinator) take(id cluster.ShardID, epoch cluster.ShardEpoch, minSequence int64) {
	if old := c.shards[id]; old != nil {
		c.forget(old, cluster.CodeCoordinatorLoading, "the coordinator is taking over again")
	}
	c.shards[id] = &shard{id: id, epoch: epoch, loading: true, nextSequence: minSequence, groups: map[string]*entry{}}
	c.counts.Loads++
	c.load(c.shards[id])
}

func (c *Coordinator) load(sh *shard) {
	if sh.attempts > 0 { // it takes longer: requests are better tried again later
		c.refuseParked(sh, cluster.CodeCoordinatorLoading, "the coordinator is taking over")
	}
	l := Load{Shard: sh.id, Epoch: sh.epoch, MinIndex: c.lastIndex, Attempt: sh.attempts}
	if planted.On(planted.StaleTakeover) {
		l.MinIndex = 0
	}
	c.effects.Loads = append(c.effects.Loads, l)
	sh.attempts++
}

// forget takes the groups of a shard out of the timers, and refuses who waits in them for other members.
func (c *Coordinator) forget(sh *shard, code cluster.Code, message string) {
	for _, e := range sh.sorted() {
		c.unschedule(e)
		for _, waiter := range e.group.Abandon() {
			c.refuse(Ticket(waiter), code, message)
		}
	}
}

// parked is a request that came while its shard was loading for the first time: that takes a moment, so it waits.
type parked struct {
	ticket Ticket
	name   string
	input  group.Input
}

func (c *Coordinator) park(sh *shard, p parked) {
	sh.parked = append(sh.parked, p)
	c.pendingRequests++
}

// refuseParked gives up on the requests that wait for a load.
func (c *Coordinator) refuseParked(sh *shard, code cluster.Code, message string) {
	for _, p := range sh.parked {
		c.refuse(p.ticket, code, message)
	}
	c.pendingRequests -= len(sh.parked)
	sh.parked = nil
}

// awaited returns the shard that a load was for, nil if nobody waits for it any more.
func (c *Coordinator) awaited(l Load) *shard {
	sh := c.shards[l.Shard]
	if sh == nil || !sh.loading || sh.content != nil || sh.epoch != l.Epoch {
		return nil
	}
	return sh
}

// LoadFailed repeats a load that came to nothing.
func (c *Coordinator) LoadFailed(l Load) {
	if sh := c.awaited(l); sh != nil {
		c.load(sh)
	}
}

// Loaded takes the content of a shard and serves it, at once or when no batch of an earlier time can come into the log any more: every group goes on in
// the epoch it had, with fresh sessions. Content from before this
// broker's leadership, or from before a batch that is known to be accepted, is asked for again; a newer epoch means that the shard has moved
// on, and ShardsChanged will say so.
func (c *Coordinator) Loaded(env group.Env, l Load, content ShardContent) {
	sh := c.awaited(l)
	if sh == nil {
		return
	}
	if content.Epoch > sh.epoch {
		c.refuseParked(sh, cluster.CodeNotCoordinator, "another broker coordinates the group now")
		sh.attempts++
		return
	}
	if (content.Epoch < sh.epoch || content.NextSequence < sh.nextSequence) && !planted.On(planted.StaleTakeover) {
		c.load(sh)
		return
	}
	sh.doubt = sh.doubt && content.NextSequence == sh.nextSequence // a higher one says that the batch in doubt is in the content, or never will be
	sh.nextSequence = content.NextSequence
	sh.content = &content
	if sh.doubt {
		c.settle = append(c.settle, sh)
		return
	}
	c.serve(env, sh)
}

// serve begins to answer from the content of a shard.
func (c *Coordinator) serve(env group.Env, sh *shard) {
	content := sh.content
	sh.content, sh.doubt, sh.loading = nil, false, false
	for r := range content.Records {
		sh.replay(c.groupConfig, r)
	}
	for _, e := range sh.sorted() {
		c.step(env, 0, e, group.NewCoordinator{})
		c.step(env, 0, e, group.TopicsChanged{})
	}
	c.effects.Moved = append(c.effects.Moved, sh.id)
	waiting := sh.parked
	sh.parked = nil
	c.pendingRequests -= len(waiting)
	for _, p := range waiting {
		c.Handle(env, p.ticket, p.name, p.input)
	}
}

// replay puts one record of the content in its group.
func (sh *shard) replay(config group.Config, r cluster.GroupRecord) {
	name := r.GroupID()
	e := sh.groups[name]
	if e == nil {
		e = &entry{shard: sh, group: group.New(name, config), index: -1}
		sh.groups[name] = e
	}
	e.group.Replay(r)
}
