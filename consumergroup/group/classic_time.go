package group

import (
	"maps"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// forgetPending drops the member ids that were handed out and not used.
func (g *Group) forgetPending(now time.Duration) {
	maps.DeleteFunc(g.classic.pending, func(_ string, p pending) bool { return p.ends <= now })
}

// ended reports whether the session of a member is over. Who waits for an answer that only others can bring about is not to blame; but one
// that has never been in a generation may be gone for good.
func (g *Group) ended(now time.Duration, p *peer) bool { return p.ends <= now && g.sessionRuns(p) }

func (g *Group) sessionRuns(p *peer) bool {
	return p.sync == 0 && (!p.joined || g.member(p.m.ID) == nil)
}

// classicTick removes members whose session ended and members that have not asked for their assignment in time, and begins a generation
// whose time to gather is over.
func (g *Group) classicTick(env Env) Output {
	t := g.turn(env)
	late := t.c.syncBy != 0 && t.c.syncBy <= env.Now
	var gone []*peer
	for _, p := range t.c.roster {
		switch {
		case late && p.toSync:
			t.out.Removed = append(t.out.Removed, Removal{p.m.ID, ReasonSync})
		case g.ended(env.Now, p):
			t.out.Removed = append(t.out.Removed, Removal{p.m.ID, ReasonSession})
		default:
			continue
		}
		gone = append(gone, p)
	}
	if late {
		t.c.syncBy = 0
	}
	for _, p := range gone {
		t.remove(p)
	}
	if len(gone) > 0 {
		t.prepare()
	}
	t.begin()
	g.rearm(nil)
	return t.end()
}

// rearmClassic looks at everything classic for the next deadline.
func (g *Group) rearmClassic() {
	for _, id := range slices.Sorted(maps.Keys(g.classic.pending)) {
		g.until(g.classic.pending[id].ends)
	}
	for _, p := range g.classic.roster {
		if g.sessionRuns(p) {
			g.until(p.ends)
		}
	}
	if g.classic.joining {
		g.until(g.classic.joinBy)
	}
	g.until(g.classic.syncBy)
}

// resume goes on with what was committed, as a new coordinator or after a time in which members could not be heard: everybody gets the time
// that it would have after being heard of. A state without a leader was committed while the next generation gathered.
func (g *Group) resume(env Env) Output {
	t := g.turn(env)
	c := t.c
	for i := range t.state.Members {
		g.restore(&t.state.Members[i])
	}
	for _, p := range c.roster {
		g.keepUp(env, p)
	}
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		p := c.pending[id]
		c.pending[id] = pending{p.session, max(p.ends, env.Now+p.session)}
	}
	switch {
	case c.joining && !c.gathering:
		c.joinBy = max(c.joinBy, env.Now+c.longest())
	case c.joining || len(t.state.Members) == 0:
	case t.state.Leader == "":
		t.prepare()
	case t.phase() == StateCompleting:
		c.syncBy = env.Now + c.longest()
	}
	g.rearm(nil)
	return t.end()
}

// restore makes what is volatile of a member that the durable state has, unless it is there.
func (g *Group) restore(m *cluster.GroupMember) {
	c := g.classic
	if c.member(m.ID) != nil {
		return
	}
	p := &peer{m: *m, protocols: []Protocol{{g.state.Assignor, m.Metadata}}, partial: true, order: c.joins}
	p.m.Metadata, p.m.Assignment = nil, nil
	// Of members that may be away for a while only the leader must show itself soon.
	p.toSync = m.Epoch != g.state.Epoch && (m.InstanceID == "" || m.ID == g.state.Leader)
	c.joins++
	c.add(p)
	c.protocolType, c.leader = g.state.Protocol, g.state.Leader
}
