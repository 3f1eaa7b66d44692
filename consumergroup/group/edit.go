package group

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/assignor"
	"github.com/moldau-log/moldau/internal/planted"
)

// edit is a new GroupState in the making. Members are copied, the slices they point to are shared and only ever replaced.
type edit struct {
	group *Group
	env   Env
	state cluster.GroupState
	dirty bool
	// owners says who has a partition in Assigned or Revoking; nil while nobody asked.
	owners map[cluster.TopicPartition]string
}

func (g *Group) edit(env Env) *edit {
	e := &edit{group: g, env: env, state: g.state}
	e.state.Members = slices.Clone(g.state.Members)
	if g.state.Type != cluster.GroupNative {
		e.state = cluster.GroupState{Group: g.name, Type: cluster.GroupNative, Epoch: g.state.Epoch, Assignor: string(assignor.Uniform)}
	}
	return e
}

// member finds a member. The pointer holds until the next put or remove.
func (e *edit) member(id string) *cluster.GroupMember {
	if i, ok := findMember(e.state.Members, id); ok {
		return &e.state.Members[i]
	}
	return nil
}

// put adds a member or replaces the one of that id.
func (e *edit) put(m cluster.GroupMember) {
	i, ok := findMember(e.state.Members, m.ID)
	if ok {
		e.state.Members[i] = m
	} else {
		e.state.Members = slices.Insert(e.state.Members, i, m)
	}
	e.state.EmptySinceMs = 0
	e.dirty = true
	e.owners = nil
}

// remove takes a member away. What it had is free.
func (e *edit) remove(id string) {
	if i, ok := findMember(e.state.Members, id); ok {
		e.state.Members = slices.Delete(e.state.Members, i, i+1)
		e.dirty = true
		e.owners = nil
	}
	if len(e.state.Members) == 0 {
		e.state.EmptySinceMs = e.env.NowMs
	}
}

// choose makes an explicit choice of assignor the group's, so that a rolling restart can change it. It reports whether that is news.
func (e *edit) choose(name string) bool {
	if name == "" || name == e.state.Assignor {
		return false
	}
	e.state.Assignor = name
	e.dirty = true
	return true
}

// rebalance begins a new group epoch with a new target.
func (e *edit) rebalance() {
	e.state.Epoch++
	e.dirty = true
	e.group.topology = 0
	e.retarget()
}

// retarget computes who should have what, and reports whether that differs from before.
func (e *edit) retarget() (changed bool) {
	members := make([]assignor.Member, len(e.state.Members))
	var topics []assignor.Topic
	byName := map[string]*cluster.Topic{}
	for i := range e.state.Members {
		m := &e.state.Members[i]
		members[i] = assignor.Member{Key: memberKey(m), Current: m.Target}
		for _, name := range m.Topics {
			topic, seen := byName[name]
			if !seen {
				topic, _ = e.env.Topics.TopicByName(name)
				byName[name] = topic
				if topic != nil {
					topics = append(topics, assignor.Topic{ID: topic.ID, Partitions: topic.Partitions})
				}
			}
			if topic != nil {
				members[i].Topics = append(members[i].Topics, topic.ID)
			}
		}
	}
	for i, target := range assignor.Assign(assignor.Name(e.state.Assignor), members, topics) {
		m := &e.state.Members[i]
		if !slices.Equal(m.Target, target) {
			m.Target = target
			changed = true
		}
		if m.Epoch == EpochStaticLeave { // it reads nothing: what is not meant for it is free
			m.Assigned = intersect(m.Assigned, m.Target)
		}
	}
	e.owners = nil
	return changed
}

// memberKey is what orders members for the assignor: static members keep their place when their member id changes.
func memberKey(m *cluster.GroupMember) string {
	if m.InstanceID != "" {
		return "i" + m.InstanceID
	}
	return "m" + m.ID
}

// startOver puts a member that owns nothing at the group's epoch: nothing is to be revoked, what is not meant for it is free.
func (e *edit) startOver(id string) {
	m := e.member(id)
	m.Revoking = nil
	m.Assigned = intersect(m.Assigned, m.Target)
	m.Epoch = e.state.Epoch
	e.dirty = true
	e.owners = nil
	e.grant(m)
}

// reconcile moves a member one step towards its target: first it gives up what it must; when it has, it reaches the group's epoch and gets
// what is free; later it gets the rest, as others release it.
func (e *edit) reconcile(id string) {
	m := e.member(id)
	if m.Epoch != e.state.Epoch {
		if keep := intersect(m.Assigned, m.Target); len(keep) < len(m.Assigned) {
			m.Revoking = union(m.Revoking, subtract(m.Assigned, m.Target))
			m.Assigned = keep
			e.dirty = true
		}
		if len(m.Revoking) > 0 {
			return
		}
		m.Epoch = e.state.Epoch
		e.dirty = true
	}
	e.grant(m)
}

// grant gives a member what it should have and nobody holds.
func (e *edit) grant(m *cluster.GroupMember) {
	if len(m.Assigned) == len(m.Target) {
		return // Assigned is part of Target here
	}
	owners := e.ownership()
	var free []cluster.TopicPartition
	for _, tp := range m.Target {
		if _, taken := owners[tp]; !taken || planted.On(planted.AssignedBeforeRevoked) {
			free = append(free, tp)
			owners[tp] = m.ID
		}
	}
	if len(free) > 0 {
		m.Assigned = union(m.Assigned, free)
		e.dirty = true
	}
}

// ownership says who holds what in the state in the making.
func (e *edit) ownership() map[cluster.TopicPartition]string {
	if e.owners == nil {
		e.owners = ownership(e.state.Members)
	}
	return e.owners
}

func ownership(members []cluster.GroupMember) map[cluster.TopicPartition]string {
	owners := map[cluster.TopicPartition]string{}
	for i := range members {
		for _, list := range [][]cluster.TopicPartition{members[i].Assigned, members[i].Revoking} {
			for _, tp := range list {
				owners[tp] = members[i].ID
			}
		}
	}
	return owners
}

// records returns what is to be committed, if anything changed.
func (e *edit) records() []cluster.GroupRecord {
	if !e.dirty {
		return nil
	}
	return []cluster.GroupRecord{e.state}
}

// wake names the members, but for one, for whom a heartbeat would have news in the new state.
func (e *edit) wake(except string) []string {
	if !e.dirty {
		return nil
	}
	var out []string
	for i := range e.state.Members {
		if m := &e.state.Members[i]; m.ID != except && e.hasNews(m) {
			out = append(out, m.ID)
		}
	}
	return out
}

func (e *edit) hasNews(m *cluster.GroupMember) bool {
	if m.Epoch == EpochStaticLeave {
		return false
	}
	if m.Epoch != e.state.Epoch {
		return len(m.Revoking) == 0 || len(intersect(m.Assigned, m.Target)) < len(m.Assigned)
	}
	if len(m.Assigned) == len(m.Target) {
		return false
	}
	owners := e.ownership()
	return slices.ContainsFunc(m.Target, func(tp cluster.TopicPartition) bool { _, taken := owners[tp]; return !taken })
}

// size estimates the encoded state, in bytes.
func (e *edit) size() int { return RecordSize(e.state) }

// RecordSize estimates what a record takes in the log, in bytes.
func RecordSize(record cluster.GroupRecord) int {
	const fixed, perPartition = 32, 24
	switch r := record.(type) {
	case cluster.GroupState:
		n := fixed + len(r.Group) + len(r.Assignor) + len(r.Protocol) + len(r.Leader)
		for i := range r.Members {
			m := &r.Members[i]
			n += fixed + len(m.ID) + len(m.InstanceID) + len(m.ClientID) + len(m.ClientHost) + len(m.Rack) + len(m.Metadata) + len(m.Assignment)
			n += perPartition * (len(m.Assigned) + len(m.Target) + len(m.Revoking))
			for _, t := range m.Topics {
				n += 2 + len(t)
			}
		}
		return n
	case cluster.GroupDeleted:
		return fixed + len(r.Group)
	case cluster.OffsetCommitted:
		return offsetBytes + len(r.Group) + len(r.Committed.Metadata)
	case cluster.OffsetDeleted:
		return perPartition + len(r.Group)
	}
	return fixed
}
