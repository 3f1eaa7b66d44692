package group

import (
	"maps"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// tick removes members whose session ended and members that kept what they had to release; all of them in one record and one new epoch.
func (g *Group) tick(env Env) Output {
	g.forgetPending(env.Now)
	if g.Type() == cluster.GroupClassic {
		return g.classicTick(env)
	}
	var out Output
	for i := range g.state.Members {
		m := &g.state.Members[i]
		s := g.session(m.ID)
		switch {
		case s.ends <= env.Now:
			out.Removed = append(out.Removed, Removal{m.ID, ReasonSession})
		case s.releaseBy != 0 && s.releaseBy <= env.Now:
			out.Removed = append(out.Removed, Removal{m.ID, ReasonRelease})
		}
	}
	g.rearm(out.Removed)
	if len(out.Removed) == 0 {
		return out
	}
	e := g.edit(env)
	for _, r := range out.Removed {
		e.remove(r.Member)
		out.Wake = append(out.Wake, r.Member)
	}
	e.rebalance()
	out.Records = e.records()
	out.Wake = append(out.Wake, e.wake("")...)
	return out
}

// rearm looks at every member for the next deadline.
func (g *Group) rearm(removed []Removal) {
	g.deadline = Never
	if g.rearmClassic(); g.Type() == cluster.GroupClassic {
		return
	}
	for i := range g.state.Members {
		id := g.state.Members[i].ID
		if slices.ContainsFunc(removed, func(r Removal) bool { return r.Member == id }) {
			continue
		}
		s := g.session(id)
		g.until(s.ends)
		g.until(s.releaseBy)
	}
}

// newCoordinator gives every member the time that it would have after a heartbeat, and forgets what members were told.
func (g *Group) newCoordinator(env Env) Output {
	if g.Type() == cluster.GroupClassic {
		return g.resume(env)
	}
	for i := range g.state.Members {
		m := &g.state.Members[i]
		s := g.session(m.ID)
		*s = session{ends: env.Now + sessionOf(m)}
		if len(m.Revoking) > 0 {
			s.releaseBy = env.Now + rebalanceOf(m)
		}
	}
	g.rearm(nil)
	return Output{}
}

// topicsChanged drops the offsets of deleted topics, as the deletion of the topic did in the log, and begins a new epoch if the target is
// another now.
func (g *Group) topicsChanged(env Env) Output {
	maps.DeleteFunc(g.offsets, func(id cluster.TopicID, _ map[int32]cluster.CommittedOffset) bool {
		_, ok := env.Topics.Topic(id)
		return !ok
	})
	if g.state.Type != cluster.GroupNative || len(g.state.Members) == 0 {
		return Output{}
	}
	now := g.topologyOf(env.Topics)
	if now == g.topology {
		return Output{}
	}
	g.topology = now
	e := g.edit(env)
	if !e.retarget() {
		return Output{}
	}
	e.state.Epoch++
	e.dirty = true
	return Output{Records: e.records(), Wake: e.wake("")}
}

// topologyOf stands for the subscribed topics as they are now: names, ids and sizes.
func (g *Group) topologyOf(topics Topics) uint64 {
	h := newHash()
	for i := range g.state.Members {
		for _, name := range g.state.Members[i].Topics {
			h.text(name)
			if topic, ok := topics.TopicByName(name); ok {
				h.partition(cluster.TopicPartition{Topic: topic.ID, Partition: topic.Partitions})
			}
		}
	}
	return h.sum()
}

// settled reports whether a member has what the group wants it to have.
func (g *Group) settled(m *cluster.GroupMember) bool {
	return m.Epoch == EpochStaticLeave || m.Epoch == g.state.Epoch && len(m.Revoking) == 0 && len(m.Assigned) == len(m.Target)
}
