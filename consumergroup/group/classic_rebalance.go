package group

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// prepare begins to gather the next generation, unless it gathers already. Members learn of it by their heartbeats.
func (t *turn) prepare() {
	c := t.c
	if c.joining {
		return
	}
	for _, p := range c.roster {
		if p.sync != 0 {
			t.dismiss(p, cluster.CodeRebalanceInProgress, "group "+t.g.name+" rebalances; join again")
			t.renew(p)
		}
		p.joined, p.toSync = false, false
	}
	c.joining, c.syncBy = true, 0
	c.joinBy = t.env.Now + c.longest()
	c.gathering = len(t.state.Members) == 0 && t.g.config.InitialRebalanceDelay > 0
	if c.gathering {
		c.gatherEnd = c.joinBy
		t.gather()
	}
	t.g.until(c.joinBy)
}

// gather puts the first generation off: members of a new group mostly come together, and each would be a rebalance.
func (t *turn) gather() {
	t.c.joinBy = min(t.env.Now+t.g.config.InitialRebalanceDelay, t.c.gatherEnd)
	t.g.until(t.c.joinBy)
}

// begin begins the next generation if everybody has joined, or the time for that is over.
func (t *turn) begin() {
	c := t.c
	if !c.joining {
		return
	}
	if len(c.roster) == 0 {
		t.vacate()
		return
	}
	if t.env.Now < c.joinBy {
		waits := c.gathering || len(c.pending) > 0 || slices.ContainsFunc(c.roster, func(p *peer) bool { return !p.joined })
		if waits {
			return
		}
	}
	for _, p := range slices.Clone(c.roster) {
		if !p.joined && p.m.InstanceID == "" { // a static member has until its session ends
			t.remove(p)
			t.out.Removed = append(t.out.Removed, Removal{p.m.ID, ReasonRejoin})
		}
	}
	if len(c.roster) == 0 {
		t.vacate()
		return
	}
	leader := c.electLeader()
	if leader == "" { // all that are left are static and away
		c.joinBy = t.env.Now + c.longest()
		t.g.until(c.joinBy)
		return
	}
	t.generation(leader)
}

// electLeader keeps the leader, or takes the oldest of the members that have joined.
func (c *classic) electLeader() string {
	if p := c.member(c.leader); p != nil && p.joined {
		return c.leader
	}
	var oldest *peer
	for _, p := range c.roster {
		if p.joined && (oldest == nil || p.order < oldest.order) {
			oldest = p
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.m.ID
}

// generation begins a generation with all members of the roster, and answers their joins.
func (t *turn) generation(leader string) {
	c := t.c
	c.joining, c.gathering, c.leader = false, false, leader
	c.syncBy = t.env.Now + c.longest()
	t.g.until(c.syncBy)
	protocol := t.choose()
	last := t.state.Epoch
	t.state.Epoch++
	t.state.Assignor, t.state.Protocol, t.state.Leader = protocol, c.protocolType, leader
	t.state.EmptySinceMs = 0
	t.state.Members = make([]cluster.GroupMember, 0, len(c.roster))
	for _, p := range c.roster {
		m := p.m
		m.Epoch = last
		m.Metadata, _ = p.has(protocol)
		m.Topics = t.subscription(m.Metadata)
		t.state.Members = append(t.state.Members, m)
	}
	t.dirty = true
	for _, p := range c.roster {
		if p.joined {
			t.complete(p.join, Reply{Join: t.standing(p)})
			t.renew(p)
		}
		p.toSync, p.joined, p.join = p.joined, false, 0
	}
}

// choose finds the protocol of the next generation: of those that all members know, the one that most prefer; of equals the leader's or, with
// none, the first member's first.
func (t *turn) choose() string {
	first := t.c.roster[0]
	if leader := t.c.member(t.c.leader); leader != nil {
		first = leader
	}
	common := map[string]bool{}
	for _, offer := range first.protocols {
		common[offer.Name] = t.c.allHave(offer.Name, nil)
	}
	votes := map[string]int{}
	for _, p := range t.c.roster {
		if i := slices.IndexFunc(p.protocols, func(offer Protocol) bool { return common[offer.Name] }); i >= 0 {
			votes[p.protocols[i].Name]++
		}
	}
	best := ""
	for _, offer := range first.protocols {
		if votes[offer.Name] > votes[best] {
			best = offer.Name
		}
	}
	return best
}

// assign gives every member what the leader assigned to it, and answers those that wait for it.
func (t *turn) assign(assignments []Assignment) {
	by := make(map[string][]byte, len(assignments))
	for _, a := range assignments {
		by[a.MemberID] = a.Assignment
	}
	t.change()
	for i := range t.state.Members {
		m := &t.state.Members[i]
		m.Assignment, m.Epoch = by[m.ID], t.state.Epoch
	}
	for _, p := range t.c.roster {
		if p.sync != 0 {
			t.complete(p.sync, Reply{Sync: t.share(p)})
			p.sync = 0
			t.renew(p)
		}
	}
}

// share is what a member got in the present generation.
func (t *turn) share(p *peer) *SyncReply {
	reply := &SyncReply{ProtocolType: t.state.Protocol, Protocol: t.state.Assignor}
	if i, ok := findMember(t.state.Members, p.m.ID); ok {
		reply.Assignment = t.state.Members[i].Assignment
	}
	return reply
}

// vacate ends the last generation: nobody is left.
func (t *turn) vacate() {
	t.c.joining, t.c.gathering, t.c.syncBy, t.c.leader = false, false, 0, ""
	if !t.dirty {
		return // those that left had never been in a generation
	}
	t.state.Members = nil
	t.state.Epoch++
	t.state.Leader, t.state.Assignor = "", ""
}
