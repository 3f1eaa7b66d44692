package group

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// answer ends a heartbeat with what it changed and what the member is told.
func (e *edit) answer(hb Heartbeat, out Output) Output {
	m := e.member(hb.MemberID)
	out.Records = e.records()
	out.Wake = append(out.Wake, e.wake(m.ID)...)
	out.Reply.Member = e.group.tell(e.env, hb, m)
	return out
}

// tell says where a member stands. Its session goes on, unless a door only polls.
func (g *Group) tell(env Env, hb Heartbeat, m *cluster.GroupMember) MemberReply {
	s := g.session(m.ID)
	if !hb.Poll {
		s.ends = env.Now + sessionOf(m)
	}
	switch {
	case len(m.Revoking) == 0:
		s.releaseBy = 0
	case s.releaseBy == 0:
		s.releaseBy = env.Now + rebalanceOf(m)
	}
	g.until(s.ends)
	g.until(s.releaseBy)

	now := version(m)
	seen := s.told
	if hb.Seen != 0 {
		seen = hb.Seen
	}
	s.told = now
	reply := MemberReply{
		MemberID:          m.ID,
		Epoch:             m.Epoch,
		HeartbeatInterval: min(g.config.HeartbeatInterval, sessionOf(m)/3),
		SessionTimeout:    sessionOf(m),
		Version:           now,
		Changed:           hb.Epoch == EpochJoin || hb.Epoch != m.Epoch || hb.Owned != nil || seen != now,
	}
	if reply.Changed {
		reply.Assigned, reply.Revoke = slices.Clone(m.Assigned), slices.Clone(m.Revoking)
	}
	return reply
}

// left ends the heartbeat of a member that went.
func (e *edit) left(hb Heartbeat) Output {
	return Output{
		Records: e.records(),
		Wake:    e.wake(hb.MemberID),
		Reply:   Reply{Member: MemberReply{MemberID: hb.MemberID, Epoch: hb.Epoch}},
	}
}

// version stands for what a member is told: its epoch, Assigned and Revoking. Within one epoch Assigned first only grows, then only shrinks,
// so a member that has seen the present version has seen everything that led to it.
func version(m *cluster.GroupMember) uint64 {
	h := newHash()
	h.number(m.Epoch)
	for _, set := range [][]cluster.TopicPartition{m.Assigned, m.Revoking} {
		h.number(int32(len(set)))
		for _, tp := range set {
			h.partition(tp)
		}
	}
	return h.sum()
}
