package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/assignor"
)

// heartbeat is the one request of a native member.
func (g *Group) heartbeat(env Env, hb Heartbeat) Output {
	if g.Type() == cluster.GroupClassic && g.occupied() {
		return refuse(cluster.CodeGroupTypeMismatch, "group "+g.name+" is a classic group with members; let them leave first")
	}
	if out := g.checkHeartbeat(hb); out.Reply.Code != cluster.CodeNone {
		return out
	}
	switch hb.Epoch {
	case EpochJoin:
		return g.join(env, hb)
	case EpochLeave:
		return g.leave(env, hb)
	case EpochStaticLeave:
		return g.leaveStatic(env, hb)
	}
	return g.keepAlive(env, hb)
}

// checkHeartbeat refuses what no state of the group could make right.
func (g *Group) checkHeartbeat(hb Heartbeat) Output {
	if err := cluster.ParseGroupID(g.name); err != nil {
		return refuse(cluster.CodeInvalidGroup, err.Error())
	}
	for _, s := range []string{hb.MemberID, hb.InstanceID, hb.ClientID, hb.ClientHost, hb.Rack} {
		if len(s) > MaxMemberIDBytes {
			return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("an id of a member has %d bytes, at most %d are allowed", len(s), MaxMemberIDBytes))
		}
	}
	switch {
	case hb.MemberID == "":
		return refuse(cluster.CodeInvalidRequest, "a heartbeat must name its member")
	case hb.Epoch < EpochStaticLeave:
		return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("there is no member epoch %d", hb.Epoch))
	case hb.Poll && hb.Epoch <= 0:
		return refuse(cluster.CodeInvalidRequest, "a poll cannot join or leave")
	case len(hb.Topics) > MaxTopicsOfMember:
		return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("a subscription of %d topics, at most %d are allowed", len(hb.Topics), MaxTopicsOfMember))
	}
	for _, topic := range hb.Topics {
		if len(topic) > cluster.MaxTopicNameLen {
			return refuse(cluster.CodeInvalidTopicName, fmt.Sprintf("a topic name has at most %d bytes", cluster.MaxTopicNameLen))
		}
	}
	return Output{}
}

// joinTerms are the checked wishes of a joining member.
type joinTerms struct{ session, rebalance time.Duration }

func (g *Group) checkJoin(hb Heartbeat) (joinTerms, Output) {
	terms := joinTerms{hb.SessionTimeout, hb.RebalanceTimeout}
	if terms.session == 0 {
		terms.session = g.config.DefaultSession
	}
	if terms.rebalance == 0 {
		terms.rebalance = g.config.DefaultRebalance
	}
	switch {
	case hb.Topics == nil:
		return terms, refuse(cluster.CodeInvalidRequest, "a join must say what it subscribes to")
	case terms.session < g.config.MinSession || terms.session > g.config.MaxSession:
		return terms, refuse(cluster.CodeInvalidSessionTimeout,
			fmt.Sprintf("session timeout %s; allowed are %s to %s", terms.session, g.config.MinSession, g.config.MaxSession))
	case terms.rebalance < g.config.MinRebalance || terms.rebalance > g.config.MaxRebalance:
		return terms, refuse(cluster.CodeInvalidRequest,
			fmt.Sprintf("rebalance timeout %s; allowed are %s to %s", terms.rebalance, g.config.MinRebalance, g.config.MaxRebalance))
	case hb.Assignor != "" && !assignor.Name(hb.Assignor).Known():
		return terms, refuse(cluster.CodeInconsistentProtocol,
			fmt.Sprintf("there is no assignor %q; there are %q and %q", hb.Assignor, assignor.Uniform, assignor.Range))
	}
	return terms, Output{}
}

// join adds a member, or takes one back that lost its state: the member says that it owns nothing. A static member takes the place, and the
// assignment, of the one that held its instance id; nobody else notices.
func (g *Group) join(env Env, hb Heartbeat) Output {
	terms, out := g.checkJoin(hb)
	if out.Reply.Code != cluster.CodeNone {
		return out
	}
	e := g.edit(env)
	holder := instance(e.state.Members, hb.InstanceID)
	known := e.member(hb.MemberID)
	if known != nil && known.InstanceID != hb.InstanceID {
		return refuse(cluster.CodeInvalidRequest, "member "+hb.MemberID+" joined with another instance id")
	}
	if known == nil && holder == nil && len(e.state.Members) >= g.config.MaxMembers {
		return refuse(cluster.CodeGroupFull, fmt.Sprintf("group %s has %d members, its maximum", g.name, len(e.state.Members)))
	}

	m := cluster.GroupMember{ID: hb.MemberID, InstanceID: hb.InstanceID}
	moved := true // somebody new, or a new wish: partitions may move
	if old := holder; old != nil || known != nil {
		if old == nil {
			old = known
		}
		m.Assigned, m.Target, m.Topics = old.Assigned, old.Target, old.Topics
		moved = false
		if id, away := old.ID, old.Epoch == EpochStaticLeave; id != m.ID {
			e.remove(id)
			if !away {
				out.Removed = append(out.Removed, Removal{id, ReasonReplaced})
			}
			out.Wake = append(out.Wake, id)
		}
	}
	m.ClientID, m.ClientHost, m.Rack = hb.ClientID, hb.ClientHost, hb.Rack
	m.SessionTimeoutMs, m.RebalanceMs = int32(terms.session.Milliseconds()), int32(terms.rebalance.Milliseconds())
	if topics := sortedTopics(hb.Topics); !slices.Equal(topics, m.Topics) {
		m.Topics, moved = topics, true
	}
	if e.choose(hb.Assignor) {
		moved = true
	}
	e.put(m)
	if moved {
		e.rebalance()
	}
	e.startOver(m.ID)
	if size := e.size(); size > g.config.MaxStateBytes {
		return refuse(cluster.CodeGroupFull, fmt.Sprintf("the state of group %s would have %d bytes, at most %d are allowed", g.name, size, g.config.MaxStateBytes))
	}
	return e.answer(hb, out)
}

// sortedTopics is a subscription as it is stored: sorted, each topic once, never nil.
func sortedTopics(names []string) []string {
	out := append(make([]string, 0, len(names)), names...)
	slices.Sort(out)
	return slices.Compact(out)
}

// keepAlive renews a session, takes note of what was released and of a new subscription, and moves the member on.
func (g *Group) keepAlive(env Env, hb Heartbeat) Output {
	if out := g.checkMember(hb.MemberID, hb.InstanceID); out.Reply.Code != cluster.CodeNone {
		return out
	}
	m := g.member(hb.MemberID)
	// An older epoch is a member whose last answer was lost, or crossed this heartbeat: it is told again, and what it lists or leaves out
	// is from before, so it releases nothing. A member that reads what it was not given must drop everything.
	if m.Epoch == EpochStaticLeave || hb.Epoch > m.Epoch || !containsAll(hb.Owned, m.Assigned, m.Revoking) {
		return refuse(cluster.CodeFencedMemberEpoch, fmt.Sprintf("member %s is at epoch %d of group %s; join again", m.ID, m.Epoch, g.name))
	}
	topics := m.Topics
	if hb.Topics != nil {
		topics = sortedTopics(hb.Topics)
	}
	resubscribed := !slices.Equal(topics, m.Topics)
	if g.settled(m) && !resubscribed { // nearly always: nothing to decide, nothing to copy
		return Output{Reply: Reply{Member: g.tell(env, hb, m)}}
	}

	e := g.edit(env)
	m = e.member(hb.MemberID)
	if resubscribed {
		m.Topics = topics
		e.dirty = true
		e.rebalance()
	}
	current := hb.Epoch == m.Epoch && (hb.Seen == 0 || hb.Seen == version(m))
	if hb.Owned != nil && current && len(m.Revoking) > 0 {
		if left := intersect(m.Revoking, hb.Owned); len(left) < len(m.Revoking) {
			m.Revoking = left
			e.dirty = true
		}
	}
	e.reconcile(hb.MemberID)
	if size := e.size(); resubscribed && size > g.config.MaxStateBytes {
		return refuse(cluster.CodeGroupFull, fmt.Sprintf("the state of group %s would have %d bytes, at most %d are allowed", g.name, size, g.config.MaxStateBytes))
	}
	return e.answer(hb, Output{})
}

// checkMember says whether a member id still speaks for its place in the group.
func (g *Group) checkMember(id, instanceID string) Output {
	m := g.member(id)
	switch {
	case m == nil && instance(g.state.Members, instanceID) != nil:
		return refuse(cluster.CodeFencedInstance, "another member of group "+g.name+" has taken the instance id "+instanceID)
	case m == nil:
		return refuse(cluster.CodeUnknownMember, "group "+g.name+" has no member "+id+"; join again")
	case instanceID != "" && m.InstanceID != instanceID:
		return refuse(cluster.CodeInvalidRequest, "member "+id+" joined with another instance id")
	}
	return Output{}
}

// leave removes a member that asks for it: what it had is free at once.
func (g *Group) leave(env Env, hb Heartbeat) Output {
	if out := g.checkMember(hb.MemberID, hb.InstanceID); out.Reply.Code != cluster.CodeNone {
		return out
	}
	e := g.edit(env)
	e.remove(hb.MemberID)
	e.rebalance()
	return e.left(hb)
}

// leaveStatic takes note that a static member is away. Its assignment waits for it until its session ends.
func (g *Group) leaveStatic(env Env, hb Heartbeat) Output {
	if out := g.checkMember(hb.MemberID, hb.InstanceID); out.Reply.Code != cluster.CodeNone {
		return out
	}
	e := g.edit(env)
	m := e.member(hb.MemberID)
	if m.InstanceID == "" {
		return refuse(cluster.CodeInvalidRequest, "member "+m.ID+" is not static: it can only leave for good")
	}
	m.Epoch = EpochStaticLeave
	m.Revoking = nil // it has stopped reading everything
	e.dirty = true
	s := g.session(m.ID)
	s.ends, s.releaseBy = env.Now+sessionOf(m), 0
	g.until(s.ends)
	return e.left(hb)
}

func sessionOf(m *cluster.GroupMember) time.Duration {
	return time.Duration(m.SessionTimeoutMs) * time.Millisecond
}

func rebalanceOf(m *cluster.GroupMember) time.Duration {
	return time.Duration(m.RebalanceMs) * time.Millisecond
}
