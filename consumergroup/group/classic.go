package group

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// classic is the volatile side of a classic group: who has joined what is not committed yet, and who waits for an answer.
//
// The durable state is the last generation that was committed: with assignments (each member's Epoch is the generation) once the leader has
// sent them, without before. A state that is committed while the next generation gathers has no leader, which tells a new coordinator to
// gather it anew.
type classic struct {
	// roster holds all members by id: those of the durable state, and those that have joined for the first time.
	roster []*peer
	// pending holds the member ids that were handed out and not joined with yet (KIP-394).
	pending map[string]pending

	// joining says that the next generation gathers. It begins when all have joined, or at joinBy.
	joining bool
	joinBy  time.Duration
	// gathering says that it is the first one: it always waits until joinBy, which each new member puts off, until gatherEnd at most.
	gathering bool
	gatherEnd time.Duration
	// syncBy is when members of the present generation that have not asked for their assignment are removed; 0 for never.
	syncBy time.Duration

	protocolType string
	// leader is the last member that led, even if the durable state has none.
	leader string
	joins  int // members so far, for peer.order
}

// peer is one member of a classic group.
type peer struct {
	// m is what the member is in the next generation, without Metadata and Assignment.
	m         cluster.GroupMember
	protocols []Protocol
	// partial says that a new coordinator knows no protocol of the member but the group's.
	partial bool
	// order is by first join: the oldest leads.
	order int
	ends  time.Duration // of the session, while the member waits for nothing
	// joined says that the member is ready for the next generation; join waits for it to begin.
	joined bool
	join   uint64
	// toSync says that the member has not asked for its assignment in the present generation; sync waits for it.
	toSync bool
	sync   uint64
}

type pending struct{ session, ends time.Duration }

func newClassic() *classic {
	return &classic{pending: map[string]pending{}}
}

func (c *classic) find(id string) (int, bool) {
	return slices.BinarySearchFunc(c.roster, id, func(p *peer, id string) int { return strings.Compare(p.m.ID, id) })
}

// member finds a member by id.
func (c *classic) member(id string) *peer {
	if i, ok := c.find(id); ok {
		return c.roster[i]
	}
	return nil
}

func (c *classic) add(p *peer) {
	i, _ := c.find(p.m.ID)
	c.roster = slices.Insert(c.roster, i, p)
}

func (c *classic) drop(id string) {
	if i, ok := c.find(id); ok {
		c.roster = slices.Delete(c.roster, i, i+1)
	}
}

// holder finds the member that holds an instance id.
func (c *classic) holder(instanceID string) *peer {
	if instanceID == "" {
		return nil
	}
	for _, p := range c.roster {
		if p.m.InstanceID == instanceID {
			return p
		}
	}
	return nil
}

// longest is the longest rebalance timeout of the members.
func (c *classic) longest() time.Duration {
	var out time.Duration
	for _, p := range c.roster {
		out = max(out, rebalanceOf(&p.m))
	}
	return out
}

// has reports whether a member offers a protocol, and with which metadata.
func (p *peer) has(name string) ([]byte, bool) {
	for _, offer := range p.protocols {
		if offer.Name == name {
			return offer.Metadata, true
		}
	}
	return nil, false
}

// allHave reports whether all members, but for one, offer a protocol.
func (c *classic) allHave(name string, except *peer) bool {
	return !slices.ContainsFunc(c.roster, func(p *peer) bool { _, ok := p.has(name); return !ok && p != except })
}

// matches reports whether a member offers the same as before. Of a member that a new coordinator took over only the group's protocol is known.
func (p *peer) matches(offers []Protocol) bool {
	same := func(a, b Protocol) bool { return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata) }
	if p.partial {
		return slices.ContainsFunc(offers, func(o Protocol) bool { return same(o, p.protocols[0]) })
	}
	return slices.EqualFunc(p.protocols, offers, same)
}

// occupied reports whether the group has members, of either kind, joining ones included.
func (g *Group) occupied() bool { return len(g.state.Members) > 0 || len(g.classic.roster) > 0 }

// exists reports whether there is anything that a client would call the group.
func (g *Group) exists() bool {
	return g.state.Type != cluster.GroupNone || len(g.offsets) > 0 || len(g.classic.roster) > 0
}

// classicState says how settled a group with classic members is.
func (g *Group) classicState() State {
	switch {
	case g.classic.joining:
		return StatePreparing
	case len(g.state.Members) == 0:
		return StateEmpty
	case g.state.Members[0].Epoch != g.state.Epoch: // all get their assignment at once
		return StateCompleting
	}
	return StateStable
}

// classicMembers lists the members of the durable state, and those that have joined for the first time.
func (g *Group) classicMembers() []cluster.GroupMember {
	out := slices.Clone(g.state.Members)
	for _, p := range g.classic.roster {
		if g.member(p.m.ID) == nil {
			out = append(out, p.m)
		}
	}
	slices.SortFunc(out, func(a, b cluster.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Abandon gives up the group: it returns who waits for an answer, which is not to come any more.
func (g *Group) Abandon() []uint64 {
	var out []uint64
	for _, p := range g.classic.roster {
		for _, w := range []*uint64{&p.join, &p.sync} {
			if *w != 0 {
				out = append(out, *w)
				*w = 0
			}
		}
	}
	return out
}

// turn is one step of a classic group: the new state in the making, and who hears what.
type turn struct {
	g     *Group
	c     *classic
	env   Env
	state cluster.GroupState
	dirty bool // Members are a copy, and the state is to be committed
	out   Output
}

func (g *Group) turn(env Env) *turn {
	t := &turn{g: g, c: g.classic, env: env, state: g.state}
	if g.state.Type != cluster.GroupClassic {
		t.state = cluster.GroupState{Group: g.name, Type: cluster.GroupClassic, Epoch: g.state.Epoch, EmptySinceMs: g.state.EmptySinceMs}
	}
	return t
}

// change is called before the members of the state are changed.
func (t *turn) change() {
	if !t.dirty {
		t.state.Members = slices.Clone(t.state.Members)
		t.dirty = true
	}
}

// end returns what the step decided. A state that is committed while the next generation gathers has no leader.
func (t *turn) end() Output {
	if t.dirty {
		if t.c.joining {
			t.state.Leader = ""
		}
		if len(t.state.Members) == 0 && t.state.EmptySinceMs == 0 {
			t.state.EmptySinceMs = t.env.NowMs
		}
		t.out.Records = []cluster.GroupRecord{t.state}
	}
	return t.out
}

// phase is the state of the group with what the step has changed so far.
func (t *turn) phase() State {
	switch {
	case t.c.joining:
		return StatePreparing
	case len(t.state.Members) == 0:
		return StateEmpty
	case t.state.Members[0].Epoch != t.state.Epoch:
		return StateCompleting
	}
	return StateStable
}

func (t *turn) complete(waiter uint64, reply Reply) {
	if waiter != 0 {
		t.out.Completed = append(t.out.Completed, Completion{waiter, reply})
	}
}

// dismiss answers what a member waits for with a refusal.
func (t *turn) dismiss(p *peer, code cluster.Code, message string) {
	for _, w := range []*uint64{&p.join, &p.sync} {
		t.complete(*w, Reply{Code: code, Message: message})
		*w = 0
	}
}

// renew begins a member's session anew.
func (t *turn) renew(p *peer) {
	p.ends = t.env.Now + sessionOf(&p.m)
	t.g.until(p.ends)
}

// remove takes a member away. What waits for the member is refused.
func (t *turn) remove(p *peer) {
	t.dismiss(p, cluster.CodeUnknownMember, "member "+p.m.ID+" was removed from group "+t.g.name)
	t.c.drop(p.m.ID)
	if i, ok := findMember(t.state.Members, p.m.ID); ok {
		t.change()
		t.state.Members = slices.Delete(t.state.Members, i, i+1)
	}
}

// checkPeer says whether a member id speaks for a classic member.
func (g *Group) checkPeer(id, instanceID string) (*peer, Output) {
	if out := g.checkClassic(); out.Reply.Code != cluster.CodeNone {
		return nil, out
	}
	p := g.classic.member(id)
	if p != nil && (instanceID == "" || instanceID == p.m.InstanceID) {
		return p, Output{}
	}
	if instanceID != "" {
		switch holder := g.classic.holder(instanceID); {
		case holder == nil:
			return nil, refuse(cluster.CodeUnknownMember, "group "+g.name+" has no member with instance id "+instanceID+"; join again")
		case holder.m.ID != id:
			return nil, refuse(cluster.CodeFencedInstance, "another member of group "+g.name+" has taken the instance id "+instanceID)
		}
	}
	return nil, refuse(cluster.CodeUnknownMember, "group "+g.name+" has no member "+id+"; join again")
}

// checkClassic refuses classic members while there are native ones.
func (g *Group) checkClassic() Output {
	if err := cluster.ParseGroupID(g.name); err != nil {
		return refuse(cluster.CodeInvalidGroup, err.Error())
	}
	if g.state.Type == cluster.GroupNative && len(g.state.Members) > 0 {
		return refuse(cluster.CodeGroupTypeMismatch, "group "+g.name+" is a native group with members; let them leave first")
	}
	return Output{}
}
