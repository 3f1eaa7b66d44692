package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/controller/state"
)

// Bounds and times of groups.
const (
	maxGroups      = 3
	maxGroupSize   = 4 // members, besides twins
	observersEach  = 3 // clients that only look at the committed offsets of a group
	groupTopic     = "river"
	groupTimeout   = 2 * time.Second       // of a request to a coordinator, on the client
	silenceLimit   = 3 * time.Second       // after which a client gives a stream up
	lookEvery      = 50 * time.Millisecond // at what the groups still wait for
	minSessionTime = 1500 * time.Millisecond
	bringBackEvery = time.Second
)

// groups is the consumer groups of a history: none in some.
type groups struct {
	w              *World
	list           []*simGroup
	check          *groupChecker
	rebalanceDelay time.Duration
	// retention is how long offsets of empty groups are kept; they are looked at more often than in the product.
	retention time.Duration
	// ambush has the controller lose its leadership with the next append in its queue.
	ambush bool
	// hold has the next append wait in a buffer while its shards move.
	hold bool
	// madeIDs counts the member ids that brokers have made.
	madeIDs int
	// looked is what was last waited for, and lookedAt since when that is so, or was.
	looked   string
	lookedAt time.Duration
	// before is, for a plant, what the log was before the newest batch of a shard.
	before map[cluster.ShardID]*state.GroupView
}

// simGroup is one consumer group: its members, and who looks at it from outside.
type simGroup struct {
	w       *World
	name    string
	classic bool
	// cooperative says that classic members go on reading while they join, requireID that they are given an id before.
	cooperative, requireID bool

	members   []*member
	session   time.Duration
	rebalance time.Duration
	deserted  time.Duration // until when nobody comes back
	every     time.Duration // between the changes of its membership, at most
	made      int           // members so far
}

func newGroups(w *World) *groups {
	g := &groups{w: w, before: map[cluster.ShardID]*state.GroupView{}}
	g.check = newGroupChecker(w)
	g.retention = time.Hour
	if w.chance(500) {
		g.retention = w.between(time.Second, 3*time.Second)
	}
	g.rebalanceDelay = w.between(0, 600*time.Millisecond)
	if (w.chance(700) || w.opts.Plant.inGroups()) && !w.opts.without(partGroups) {
		for range 1 + w.rng.IntN(maxGroups) {
			name := fmt.Sprintf("group-%d-%d", len(g.list), w.rng.IntN(10_000))
			g.list = append(g.list, &simGroup{w: w, name: name, classic: w.chance(500), cooperative: w.chance(500), requireID: w.chance(700),
				session:   w.between(minSessionTime, 3*time.Second).Truncate(time.Millisecond),
				rebalance: w.between(time.Second, 3*time.Second).Truncate(time.Millisecond), every: w.between(300*time.Millisecond, 6*time.Second)})
		}
	}
	return g
}

// start brings the members together, and begins to trouble them.
func (g *groups) start() {
	for _, sg := range g.list {
		for range 1 + g.w.rng.IntN(maxGroupSize) {
			m := sg.newMember("")
			if g.w.chance(300) {
				m.instance = fmt.Sprintf("instance-%d", len(sg.members))
			}
			g.w.after(g.w.between(0, 500*time.Millisecond), m.start)
		}
		g.observe(sg)
		if !g.w.opts.without(partAdmins) && g.w.chance(500) {
			a := &groupAdmin{newGroupClient(sg)}
			a.up = true
			g.w.after(g.w.between(0, time.Second), a.act)
		}
		if !g.w.opts.without(partChurn) {
			g.w.after(g.w.between(sg.every/4, sg.every), sg.churn)
		}
	}
}

// observe has some clients look at the offsets of a group.
func (g *groups) observe(sg *simGroup) {
	for range observersEach {
		o := &observer{groupClient: newGroupClient(sg)}
		o.up = true
		g.w.after(g.w.between(0, 500*time.Millisecond), o.look)
	}
}

// logged takes an entry of the metadata log; before is what it was applied to.
func (g *groups) logged(cmd cluster.Command, res cluster.Result, image *cluster.Image, before *state.GroupView) {
	g.check.log(cmd, res, image)
	c, ok := cmd.(cluster.GroupAppend)
	if !ok || g.w.opts.Plant != PlantStaleLoad {
		return
	}
	for i, b := range c.Batches {
		if res.Items[i].Code == cluster.CodeNone {
			g.before[b.Shard] = before
		}
	}
}

// uses reports whether some group is in a shard.
func (g *groups) uses(shard cluster.ShardID) bool {
	for _, sg := range g.list {
		if cluster.ShardOf(sg.name) == shard {
			return true
		}
	}
	return false
}

// former is the log without the newest batch of a shard, at most as new as a broker has it.
func (g *groups) former(shard cluster.ShardID, has *state.GroupView) *state.GroupView {
	if v := g.before[shard]; v != nil && v.Index() < has.Index() {
		return v
	}
	return has
}

// proposed is called when an append has come into the controller's queue.
func (g *groups) proposed() {
	if g.ambush {
		g.ambush = false
		g.w.moveController()
	}
}

// holds reports whether an append is to come late, to a log in which its shards have other coordinators.
func (g *groups) holds(cmd cluster.GroupAppend) bool {
	if !g.hold {
		return false
	}
	g.hold = false
	for _, b := range cmd.Batches {
		g.w.meta.propose(cluster.AssignShards{Moves: []cluster.ShardMove{{Shard: b.Shard, Epoch: b.ShardEpoch, Leader: cluster.NoBroker}}}, nil)
	}
	return true
}

// resend is the plant that proposes an append again, as if its batches were new.
func (g *groups) resend(cmd cluster.GroupAppend) {
	cmd.Batches = slices.Clone(cmd.Batches)
	for i := range cmd.Batches {
		cmd.Batches[i].Sequence = g.w.meta.state.Groups().Shard(cmd.Batches[i].Shard).NextSequence
	}
	g.w.meta.propose(cmd, nil)
}

// coordinatorBroker is the broker that coordinates some group, any broker when there is none.
func (g *groups) coordinatorBroker() *broker {
	w := g.w
	if len(g.list) > 0 {
		shard := w.meta.state.Image().Shard(cluster.ShardOf(g.list[w.rng.IntN(len(g.list))].name))
		if shard.Leader >= 0 {
			return w.brokers[shard.Leader]
		}
	}
	return w.brokers[w.rng.IntN(len(w.brokers))]
}

// heal brings back who is away, and again and again who goes after that: a member that is about to leave commits first, and may wait long for an answer.
func (g *groups) heal() {
	g.bringBack()
	g.w.after(bringBackEvery, g.heal)
}

func (g *groups) bringBack() {
	for _, sg := range g.list {
		for _, m := range sg.members {
			m.paused = 0
			if !m.up && !m.fencedForGood {
				m.start()
			}
		}
		if !sg.anyUp() {
			sg.newMember("").start()
		}
	}
}

func (sg *simGroup) anyUp() bool {
	for _, m := range sg.members {
		if m.up {
			return true
		}
	}
	return false
}

// unsettled says which group has not come to rest with everything read, empty for none.
func (g *groups) unsettled() string {
	if g.looked != "" && g.w.now < g.lookedAt+lookEvery {
		return g.looked
	}
	g.looked, g.lookedAt = g.look(), g.w.now
	return g.looked
}

func (g *groups) look() string {
	for _, sg := range g.list {
		if why := sg.unsettled(); why != "" {
			return "group " + sg.name + ": " + why
		}
	}
	return ""
}

func (sg *simGroup) unsettled() string {
	w := sg.w
	view := w.meta.state.Groups()
	owners := map[cluster.TopicPartition]*member{}
	n := 0
	for _, m := range sg.members {
		if !m.up {
			continue
		}
		n++
		if why := m.proto.unsettled(); why != "" {
			return why
		}
		for _, h := range m.owned {
			if other := owners[h.tp]; other != nil {
				return fmt.Sprintf("%s and %s both read partition %d", other.id, m.id, h.tp.Partition)
			}
			owners[h.tp] = m
		}
	}
	if at, ok := view.Group(sg.name); !ok || len(at.Members) != n {
		return fmt.Sprintf("it has not the %d members that there are: %+v", n, at)
	}
	for _, tp := range w.readByGroups() {
		if owners[tp] == nil {
			at, _ := view.Group(sg.name)
			return fmt.Sprintf("nobody reads partition %d: %+v", tp.Partition, at)
		}
		p, _ := w.meta.state.Image().Partition(tp)
		end := w.brokers[p.Leader].replica(tp).at.HighWatermark
		if o, _ := view.Offset(sg.name, tp); o.Offset != end {
			return fmt.Sprintf("%d of %d is committed of partition %d", o.Offset, end, tp.Partition)
		}
	}
	return ""
}

// churn changes the membership now and then.
func (sg *simGroup) churn() {
	w := sg.w
	if !w.faults {
		return
	}
	w.after(w.between(sg.every/4, sg.every), sg.churn)
	m := sg.members[w.rng.IntN(len(sg.members))]
	switch roll := w.rng.IntN(100); {
	case w.now < sg.deserted:
	case !m.up:
		if !m.fencedForGood {
			m.start()
		}
	case roll < 25:
		m.crash()
	case roll < 35:
		m.leave()
	case roll < 50:
		sg.deserted = w.now + w.between(2*time.Second, 9*time.Second)
		for _, m := range sg.members {
			if m.up {
				m.leave()
			}
		}
	case roll < 70:
		w.cov.MemberPauses++
		m.paused = w.now + w.between(200*time.Millisecond, 2*sg.session)
	case roll < 85 && m.instance != "":
		if len(sg.members) < 2*maxGroupSize {
			sg.newMember(m.instance).start() // the same instance id a second time
		}
	default:
		if len(sg.members) < 2*maxGroupSize {
			sg.newMember("").start()
		}
	}
}

func (sg *simGroup) newMember(instance string) *member {
	m := &member{groupClient: newGroupClient(sg), number: sg.made, instance: instance}
	sg.made++
	m.proto = &nativeMember{member: m}
	if sg.classic {
		m.proto = &classicMember{member: m, generation: group.NoGeneration}
	}
	sg.members = append(sg.members, m)
	return m
}
