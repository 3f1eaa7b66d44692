package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// newMemberTimeout is how long a member that joins for the first time may wait for its generation: its client may be gone, and nothing else
// would tell (KAFKA-5510 was such a group of ghosts).
const newMemberTimeout = 5 * time.Minute

// classicJoin answers Kafka's JoinGroup.
func (g *Group) classicJoin(env Env, j Join) Output {
	if out := g.checkClassic(); out.Reply.Code != cluster.CodeNone {
		return out
	}
	if out := g.checkOffer(j); out.Reply.Code != cluster.CodeNone {
		return out
	}
	if j.MemberID != "" {
		if _, ok := g.classic.pending[j.MemberID]; ok && j.InstanceID == "" {
			return g.joinNew(env, j, j.MemberID)
		}
		return g.joinAgain(env, j)
	}
	switch holder := g.classic.holder(j.InstanceID); {
	case holder != nil:
		return g.joinInstead(env, j, holder)
	case j.RequireMemberID && j.InstanceID == "":
		return g.handOut(env, j)
	}
	return g.joinNew(env, j, j.NewMemberID)
}

// checkOffer refuses what no state of the group could make right.
func (g *Group) checkOffer(j Join) Output {
	if len(j.Protocols) > MaxProtocols {
		return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("a member offers %d protocols, at most %d are allowed", len(j.Protocols), MaxProtocols))
	}
	ids := []string{j.MemberID, j.InstanceID, j.ProtocolType, j.NewMemberID}
	size := 0
	for _, offer := range j.Protocols {
		ids = append(ids, offer.Name)
		size += len(offer.Metadata)
	}
	for _, s := range ids {
		if len(s) > MaxMemberIDBytes {
			return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("an id or a name has %d bytes, at most %d are allowed", len(s), MaxMemberIDBytes))
		}
	}
	switch {
	case j.MemberID == "" && (j.NewMemberID == "" || g.classic.member(j.NewMemberID) != nil):
		return refuse(cluster.CodeInvalidRequest, "a join without an id must bring a new one")
	case j.SessionTimeout < g.config.MinSession || j.SessionTimeout > g.config.MaxSession:
		return refuse(cluster.CodeInvalidSessionTimeout,
			fmt.Sprintf("session timeout %s; allowed are %s to %s", j.SessionTimeout, g.config.MinSession, g.config.MaxSession))
	case j.ProtocolType == "" || len(j.Protocols) == 0:
		return refuse(cluster.CodeInconsistentProtocol, "a join must name a protocol type and at least one protocol")
	case size > g.config.MaxStateBytes:
		return g.tooLarge(size)
	}
	return Output{}
}

func (g *Group) tooLarge(size int) Output {
	return refuse(cluster.CodeGroupFull, fmt.Sprintf("the state of group %s would have %d bytes, at most %d are allowed", g.name, size, g.config.MaxStateBytes))
}

// checkFit says whether what a member offers fits with the others; self is the member itself, if it is there already.
func (g *Group) checkFit(j Join, self *peer) Output {
	size, others := offerBytes(j.Protocols), 0
	for _, p := range g.classic.roster {
		if p != self {
			size += offerBytes(p.protocols)
			others++
		}
	}
	switch {
	case self == nil && others >= g.config.MaxMembers:
		return refuse(cluster.CodeGroupFull, fmt.Sprintf("group %s has %d members, its maximum", g.name, others))
	case size > g.config.MaxStateBytes:
		return g.tooLarge(size)
	case others == 0:
		return Output{}
	case j.ProtocolType != g.classic.protocolType:
		return refuse(cluster.CodeInconsistentProtocol, fmt.Sprintf("group %s has members of protocol type %q, not %q", g.name, g.classic.protocolType, j.ProtocolType))
	}
	for _, offer := range j.Protocols {
		if g.classic.allHave(offer.Name, self) {
			return Output{}
		}
	}
	return refuse(cluster.CodeInconsistentProtocol, "no protocol that the member offers is known to all members of group "+g.name)
}

// offerBytes is about what a member takes in memory; in the log it takes less, for there it has one protocol.
func offerBytes(offers []Protocol) int {
	n := 4 * MaxMemberIDBytes
	for _, offer := range offers {
		n += len(offer.Name) + len(offer.Metadata)
	}
	return n
}

// handOut gives a dynamic member its id, with which it is to join again. Nobody who does not come back becomes a member (KIP-394).
func (g *Group) handOut(env Env, j Join) Output {
	if out := g.checkFit(j, nil); out.Reply.Code != cluster.CodeNone {
		return out
	}
	g.classic.makeRoom(g.config.MaxMembers)
	ends := env.Now + j.SessionTimeout
	g.classic.pending[j.NewMemberID] = pending{j.SessionTimeout, ends}
	g.until(ends)
	return Output{Reply: Reply{Join: &JoinReply{MemberIDRequired: true, MemberID: j.NewMemberID, Generation: NoGeneration}}}
}

// makeRoom bounds the ids that were handed out: the one that ends first goes. Refusing new ones instead would lock a group that clients which
// never come back with their id have knocked at.
func (c *classic) makeRoom(most int) {
	if len(c.pending) < most {
		return
	}
	ids := slices.Sorted(maps.Keys(c.pending))
	first := ids[0]
	for _, id := range ids {
		if c.pending[id].ends < c.pending[first].ends {
			first = id
		}
	}
	delete(c.pending, first)
}

// joinNew adds a member. The next generation gathers.
func (g *Group) joinNew(env Env, j Join, id string) Output {
	if out := g.checkFit(j, nil); out.Reply.Code != cluster.CodeNone {
		return out
	}
	t := g.turn(env)
	delete(t.c.pending, id)
	p := &peer{m: cluster.GroupMember{ID: id, InstanceID: j.InstanceID}, order: t.c.joins}
	t.c.joins++
	t.c.add(p)
	t.offer(p, j)
	t.prepare()
	if t.c.gathering {
		t.gather()
	}
	t.park(p)
	p.ends = env.Now + max(newMemberTimeout, j.SessionTimeout)
	g.until(p.ends)
	t.begin()
	return t.end()
}

// joinAgain takes a member into the next generation, or tells it again where it stands if there is no reason for a new one: then its last
// answer was lost.
func (g *Group) joinAgain(env Env, j Join) Output {
	p, out := g.checkPeer(j.MemberID, j.InstanceID)
	if p == nil {
		return out
	}
	if out := g.checkFit(j, p); out.Reply.Code != cluster.CodeNone {
		return out
	}
	t := g.turn(env)
	phase, same := t.phase(), p.matches(j.Protocols)
	t.offer(p, j)
	if same && (phase == StateCompleting || phase == StateStable && t.state.Leader != p.m.ID) {
		t.renew(p)
		t.out.Reply = Reply{Join: t.standing(p)}
		return t.end()
	}
	t.prepare()
	t.park(p)
	t.begin()
	return t.end()
}

// joinInstead puts a static member that came back without its id in its own place (KIP-345), and fences who was there. A stable group stays
// as it is: the assignment is handed on.
func (g *Group) joinInstead(env Env, j Join, p *peer) Output {
	if out := g.checkFit(j, p); out.Reply.Code != cluster.CodeNone {
		return out
	}
	t := g.turn(env)
	old, phase := p.m.ID, t.phase()
	t.dismiss(p, cluster.CodeFencedInstance, "another member of group "+g.name+" has taken the instance id "+j.InstanceID)
	t.out.Removed = append(t.out.Removed, Removal{old, ReasonReplaced})
	t.c.drop(old)
	p.m.ID = j.NewMemberID
	t.c.add(p)
	t.offer(p, j)
	ledBefore := t.c.leader == old
	if ledBefore {
		t.c.leader = p.m.ID
	}
	t.rename(old, p)
	if phase == StateStable && t.choose() == t.state.Assignor {
		t.renew(p)
		join := t.standing(p)
		if ledBefore && j.CanSkipAssignment {
			join.SkipAssignment = true
		} else if ledBefore { // it must not assign, and an older client does not know any other word for that
			join.Leader, join.Members = old, nil
		}
		t.out.Reply = Reply{Join: join}
		return t.end()
	}
	t.prepare()
	t.park(p)
	t.begin()
	return t.end()
}

// rename puts a member under its new id in the durable state, if it is there.
func (t *turn) rename(old string, p *peer) {
	i, ok := findMember(t.state.Members, old)
	if !ok {
		return
	}
	t.change()
	m := t.state.Members[i]
	t.state.Members = slices.Delete(t.state.Members, i, i+1)
	next := p.m
	next.Epoch, next.Assignment = m.Epoch, m.Assignment
	next.Metadata, next.Topics = m.Metadata, m.Topics
	if metadata, ok := p.has(t.state.Assignor); ok {
		next.Metadata, next.Topics = metadata, t.subscription(metadata)
	}
	i, _ = findMember(t.state.Members, next.ID)
	t.state.Members = slices.Insert(t.state.Members, i, next)
	if t.state.Leader == old {
		t.state.Leader = next.ID
	}
}

// offer takes note of what a member that joins can do.
func (t *turn) offer(p *peer, j Join) {
	rebalance := j.RebalanceTimeout
	if rebalance <= 0 {
		rebalance = j.SessionTimeout
	}
	rebalance = min(max(rebalance, t.g.config.MinRebalance), t.g.config.MaxRebalance)
	p.m.ClientID, p.m.ClientHost = cut(j.ClientID), cut(j.ClientHost)
	p.m.SessionTimeoutMs, p.m.RebalanceMs = int32(j.SessionTimeout.Milliseconds()), int32(rebalance.Milliseconds())
	p.protocols, p.partial = slices.Clone(j.Protocols), false
	t.c.protocolType = j.ProtocolType
}

// cut bounds what is only for people, and which Kafka does not bound.
func cut(s string) string { return s[:min(len(s), MaxMemberIDBytes)] }

// park has a member wait for its generation. A join that it sent before is given up by its client.
func (t *turn) park(p *peer) {
	t.dismiss(p, cluster.CodeRebalanceInProgress, "the member has sent a newer request")
	p.join, p.joined = t.env.Waiter, true
	t.out.Parked = true
}

// standing tells a member of the present generation where it stands.
func (t *turn) standing(p *peer) *JoinReply {
	reply := &JoinReply{
		MemberID: p.m.ID, Generation: t.state.Epoch, ProtocolType: t.state.Protocol, Protocol: t.state.Assignor, Leader: t.state.Leader,
	}
	if p.m.ID == t.state.Leader {
		for i := range t.state.Members {
			m := &t.state.Members[i]
			reply.Members = append(reply.Members, JoinedMember{m.ID, m.InstanceID, m.Metadata})
		}
	}
	return reply
}
