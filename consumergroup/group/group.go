package group

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
)

// Never is the deadline of a group in which nothing waits for time.
const Never = time.Duration(1<<63 - 1)

// Group is one consumer group. It belongs to one goroutine.
type Group struct {
	name   string
	config Config

	// state is the last GroupState that was replayed. It is shared with the log: it and all that it points to are never changed, only
	// replaced. Members are sorted by id.
	state cluster.GroupState
	// offsets holds what is committed. Only Replay writes it; the one exception is a deleted topic, whose offsets the committed deletion
	// of the topic has removed.
	offsets offsets
	// topology stands for the topics that the target was last computed or checked against; 0 when that is not known.
	topology uint64

	// sessions holds what a new coordinator does not inherit, by member id. There is one for every member.
	sessions map[string]*session
	deadline time.Duration
	// classic is the volatile side of a classic group; it is empty in others.
	classic *classic
}

// session is the volatile side of a member.
type session struct {
	ends time.Duration
	// releaseBy is when a member that must give something up is fenced, 0 while it must not.
	releaseBy time.Duration
	// told is the Version of the last reply.
	told uint64
}

// Env is what an input is handled against.
type Env struct {
	Now    time.Duration // monotonic
	NowMs  int64         // wall clock, milliseconds
	Topics Topics
	// Waiter names who waits for the reply; a Completion gives it back. 0 is nobody.
	Waiter uint64
}

// Output is what a handler decided. Nothing of it has happened: the caller replays Records before it steps the group again, and lets Reply
// and Wake out when they are committed.
type Output struct {
	Records []cluster.GroupRecord
	Reply   Reply
	// Parked says that there is no Reply yet: it comes in Completed of a later output.
	Parked bool
	// Completed answers inputs that were parked, with the same condition as Reply.
	Completed []Completion
	// Wake names members for whom a heartbeat would have news.
	Wake []string
	// Removed lists members that were removed without having asked for it.
	Removed []Removal
	// Expired is how many offsets retention takes.
	Expired int
}

// Removal is a member that was removed, and why.
type Removal struct {
	Member string
	Reason string
}

// The reasons of a Removal.
const (
	ReasonSession  = "session timeout"
	ReasonRelease  = "partitions not released in time"
	ReasonReplaced = "replaced by a member with the same instance id"
	ReasonRejoin   = "did not join again in time"
	ReasonSync     = "did not ask for its assignment in time"
)

// New returns a group without members and offsets.
func New(name string, config Config) *Group {
	return &Group{
		name:     name,
		config:   config,
		state:    cluster.GroupState{Group: name},
		offsets:  offsets{},
		sessions: map[string]*session{},
		deadline: Never,
		classic:  newClassic(),
	}
}

// Name returns the group id.
func (g *Group) Name() string { return g.name }

// Vacant reports whether the group holds nothing: it can be forgotten.
func (g *Group) Vacant() bool { return !g.exists() && len(g.classic.pending) == 0 }

// Exists reports whether there is anything that a client would call the group.
func (g *Group) Exists() bool { return g.exists() }

// Deadline is when the group wants a Tick, Never if it does not. It may be too early, never too late.
func (g *Group) Deadline() time.Duration { return g.deadline }

// Type returns the group's type.
func (g *Group) Type() cluster.GroupType {
	if len(g.classic.roster) > 0 {
		return cluster.GroupClassic // from the first join on
	}
	return g.state.Type
}

// ProtocolType returns the protocol type of a classic group, empty for others.
func (g *Group) ProtocolType() string {
	if len(g.classic.roster) > 0 {
		return g.classic.protocolType
	}
	return g.state.Protocol
}

// Members returns how many members the group has.
func (g *Group) Members() int { return max(len(g.state.Members), len(g.classic.roster)) }

// Offsets returns everything committed, by partition.
func (g *Group) Offsets() []FetchedOffset { return g.allOffsets() }

// State says how settled the group is.
func (g *Group) State() State {
	if g.Type() == cluster.GroupClassic {
		return g.classicState()
	}
	if len(g.state.Members) == 0 {
		return StateEmpty
	}
	for i := range g.state.Members {
		if !g.settled(&g.state.Members[i]) {
			return StateReconciling
		}
	}
	return StateStable
}

// Configure changes the bounds and times. What members were granted stays: the new ones count from the next request and the next rebalance on.
func (g *Group) Configure(config Config) { g.config = config }

// Replay applies one record that was, or is about to be, committed. Nothing else changes the durable state.
func (g *Group) Replay(record cluster.GroupRecord) {
	switch r := record.(type) {
	case cluster.GroupState:
		g.state = r
		g.keepSessions()
	case cluster.GroupDeleted:
		*g = *New(g.name, g.config)
	case cluster.OffsetCommitted:
		g.offsets.set(r.Partition, r.Committed)
	case cluster.OffsetDeleted:
		g.offsets.remove(r.Partition)
	}
}

// keepSessions drops the sessions of members that are gone. Those of new members were made by the handler, or come with NewCoordinator.
func (g *Group) keepSessions() {
	if len(g.sessions) <= len(g.state.Members) {
		return // handlers make the session of a new member before this, so nobody's is left over
	}
	maps.DeleteFunc(g.sessions, func(id string, _ *session) bool { return g.member(id) == nil })
}

// Step handles one input. It changes nothing durable.
func (g *Group) Step(env Env, in Input) Output {
	switch in := in.(type) {
	case Heartbeat:
		return g.heartbeat(env, in)
	case Commit:
		return g.commit(env, in)
	case FetchOffsets:
		return g.fetch(in)
	case Reset:
		return g.reset(env, in)
	case Delete:
		return g.delete()
	case DeleteOffsets:
		return g.deleteOffsets(env, in)
	case Describe:
		return g.describe(env)
	case TopicsChanged:
		return g.topicsChanged(env)
	case Tick:
		return g.tick(env)
	case NewCoordinator:
		return g.newCoordinator(env)
	case Expire:
		return g.expire(env, in)
	case Join:
		return g.classicJoin(env, in)
	case Sync:
		return g.sync(env, in)
	case ClassicHeartbeat:
		return g.classicHeartbeat(env, in)
	case Leave:
		return g.classicLeave(env, in)
	}
	invariant.Check(false, "group: input %T is not in the set", in)
	return Output{}
}

// refuse is an output that does nothing.
func refuse(code cluster.Code, message string) Output {
	return Output{Reply: Reply{Code: code, Message: message}}
}

// member finds a member by id.
func (g *Group) member(id string) *cluster.GroupMember {
	if i, ok := findMember(g.state.Members, id); ok {
		return &g.state.Members[i]
	}
	return nil
}

func findMember(members []cluster.GroupMember, id string) (int, bool) {
	return slices.BinarySearchFunc(members, id, func(m cluster.GroupMember, id string) int { return strings.Compare(m.ID, id) })
}

// instance finds the member that holds an instance id.
func instance(members []cluster.GroupMember, id string) *cluster.GroupMember {
	if id == "" {
		return nil
	}
	for i := range members {
		if members[i].InstanceID == id {
			return &members[i]
		}
	}
	return nil
}

// session returns the volatile side of a member, making it when it is new.
func (g *Group) session(id string) *session {
	s := g.sessions[id]
	if s == nil {
		s = &session{}
		g.sessions[id] = s
	}
	return s
}

// until brings the deadline forward. It is put back only by a Tick, so that a heartbeat costs no look at the other members.
func (g *Group) until(at time.Duration) {
	if at > 0 && at < g.deadline {
		g.deadline = at
	}
}

// assignor is the assignor or protocol of the present members; there is none before the first generation of a classic group.
func (g *Group) assignor() string {
	if g.Type() != g.state.Type {
		return ""
	}
	return g.state.Assignor
}

func (g *Group) describe(env Env) Output {
	if !g.exists() {
		return refuse(cluster.CodeUnknownGroup, "there is no group "+g.name)
	}
	return Output{Reply: Reply{Description: &Description{
		Group:        g.name,
		Type:         g.Type(),
		State:        g.State(),
		Epoch:        g.state.Epoch,
		Assignor:     g.assignor(),
		EmptySinceMs: g.state.EmptySinceMs,
		ProtocolType: g.ProtocolType(),
		Leader:       g.state.Leader,
		Members:      g.classicMembers(),
		Offsets:      g.allOffsets(),
		Why:          g.why(env),
	}}}
}
