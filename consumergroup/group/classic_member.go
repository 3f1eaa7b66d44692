package group

import (
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// checkGeneration says whether a classic member may act in a generation.
func (g *Group) checkGeneration(id, instanceID string, generation int32) (*peer, Output) {
	p, out := g.checkPeer(id, instanceID)
	switch {
	case p == nil:
		return nil, out
	case generation != g.state.Epoch:
		return nil, refuse(cluster.CodeIllegalGeneration, fmt.Sprintf("group %s is at generation %d, not %d", g.name, g.state.Epoch, generation))
	}
	return p, Output{}
}

// sync answers Kafka's SyncGroup.
func (g *Group) sync(env Env, s Sync) Output {
	p, out := g.checkGeneration(s.MemberID, s.InstanceID, s.Generation)
	switch {
	case p == nil:
		return out
	case g.classic.joining:
		return refuse(cluster.CodeRebalanceInProgress, "group "+g.name+" rebalances; join again")
	case s.ProtocolType != "" && s.ProtocolType != g.state.Protocol || s.Protocol != "" && s.Protocol != g.state.Assignor:
		return refuse(cluster.CodeInconsistentProtocol,
			fmt.Sprintf("group %s has protocol %q of type %q, not %q of %q", g.name, g.state.Assignor, g.state.Protocol, s.Protocol, s.ProtocolType))
	}
	t := g.turn(env)
	waits := t.phase() == StateCompleting
	if leads := p.m.ID == t.state.Leader; waits && leads {
		if size := assignedSize(t.state, s.Assignments); size > g.config.MaxStateBytes {
			return refuse(cluster.CodeTooLarge,
				fmt.Sprintf("with these assignments the state of group %s would have %d bytes, at most %d are allowed", g.name, size, g.config.MaxStateBytes))
		}
		t.assign(s.Assignments)
		waits = false
	}
	p.toSync = false
	t.dismiss(p, cluster.CodeRebalanceInProgress, "the member has sent a newer request")
	if waits {
		p.sync = env.Waiter
		t.out.Parked = true
		return t.end()
	}
	t.renew(p)
	t.out.Reply = Reply{Sync: t.share(p)}
	return t.end()
}

// assignedSize estimates the encoded state with assignments, in bytes.
func assignedSize(state cluster.GroupState, assignments []Assignment) int {
	size := RecordSize(state)
	for _, a := range assignments {
		size += len(a.Assignment)
	}
	return size
}

// classicHeartbeat answers Kafka's Heartbeat.
func (g *Group) classicHeartbeat(env Env, hb ClassicHeartbeat) Output {
	p, out := g.checkGeneration(hb.MemberID, hb.InstanceID, hb.Generation)
	if p == nil {
		return out
	}
	g.keepUp(env, p)
	if g.classic.joining {
		return refuse(cluster.CodeRebalanceInProgress, "group "+g.name+" rebalances; join again")
	}
	return Output{}
}

// keepUp renews the session of a member that was heard of.
func (g *Group) keepUp(env Env, p *peer) {
	p.ends = max(p.ends, env.Now+sessionOf(&p.m)) // a member that joins for the first time has longer
	g.until(p.ends)
}

// classicCommit says whether a classic member may store offsets: it must be of the present generation, and that must have its assignment.
// While the next one gathers members still commit what they have read in this one.
func (g *Group) classicCommit(env Env, c Commit) Output {
	p, out := g.checkGeneration(c.MemberID, c.InstanceID, c.Epoch)
	if planted.On(planted.OldGenerationCommits) {
		p, out = g.checkPeer(c.MemberID, c.InstanceID)
	}
	if p == nil {
		return out
	}
	if g.classicState() == StateCompleting {
		return refuse(cluster.CodeRebalanceInProgress, "group "+g.name+" waits for its assignment")
	}
	g.keepUp(env, p)
	return Output{}
}

// classicLeave answers Kafka's LeaveGroup.
func (g *Group) classicLeave(env Env, l Leave) Output {
	if out := g.checkClassic(); out.Reply.Code != cluster.CodeNone {
		return out
	}
	if len(l.Members) > g.config.MaxMembers {
		return refuse(cluster.CodeInvalidRequest, fmt.Sprintf("%d members leave at once, at most %d are allowed", len(l.Members), g.config.MaxMembers))
	}
	t := g.turn(env)
	codes := make([]cluster.Code, len(l.Members))
	removed := false
	for i, m := range l.Members {
		if _, ok := t.c.pending[m.MemberID]; ok && m.InstanceID == "" {
			delete(t.c.pending, m.MemberID)
			continue
		}
		id := m.MemberID
		if holder := t.c.holder(m.InstanceID); id == "" && holder != nil {
			id = holder.m.ID
		}
		p, out := g.checkPeer(id, m.InstanceID)
		if p == nil {
			codes[i] = out.Reply.Code
			continue
		}
		t.remove(p)
		removed = true
	}
	if removed {
		t.prepare()
	}
	t.begin()
	t.out.Reply = Reply{Codes: codes}
	return t.end()
}
