package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// classicMember keeps a member in its group as Kafka's clients of the classic protocol do: it joins, the leader of the generation assigns, everybody
// asks for its own, and heartbeats tell that it is time to join again. An eager member gives everything up before that; a cooperative one goes on
// reading, and gives up what the next generation has not for it.
type classicMember struct {
	*member
	generation int32
	step       classicStep
	// round numbers what the member is doing, so that what belongs to something earlier is told from the present.
	round int
	heard time.Duration
	// leads says that the member assigns in the present generation, known what there was to be assigned then, as far as it knew.
	leads bool
	known []cluster.TopicPartition
}

type classicStep int

const (
	classicIdle classicStep = iota
	classicJoining
	classicSyncing
	classicStable
)

// The protocols that members offer.
const (
	protocolEager       = "range"
	protocolCooperative = "cooperative-sticky"
)

func (c *classicMember) start() {
	c.id, c.generation, c.heard = "", group.NoGeneration, c.w.now
	c.join()
}

func (c *classicMember) stopped() { c.begins(classicIdle) }

func (c *classicMember) identity() (string, int32) { return c.id, c.generation }

func (c *classicMember) unsettled() string {
	if state, _ := c.w.meta.state.Groups().Group(c.group.name); c.step != classicStable || state == nil || state.Epoch != c.generation {
		return fmt.Sprintf("member %s is at step %d of generation %d: %+v", c.id, c.step, c.generation, state)
	}
	return ""
}

// begins goes to another step; what belongs to the former is over.
func (c *classicMember) begins(step classicStep) (current func() bool) {
	c.step = step
	c.round++
	round := c.round
	return func() bool { return c.round == round }
}

// leave says good-bye, unless the member is static, and ends the process.
func (c *classicMember) leave() {
	current := c.begins(classicIdle)
	if c.id == "" || c.instance != "" && c.w.chance(800) {
		c.crash()
		return
	}
	c.ask(group.Leave{Group: c.group.name, Members: []group.LeavingMember{{MemberID: c.id, InstanceID: c.instance}}}, groupTimeout, func(groupAnswer) {
		if current() {
			c.crash()
		}
	})
}

// join asks for a place in the next generation. What is read goes first, but for cooperative members.
func (c *classicMember) join() {
	current := c.begins(classicJoining)
	if c.group.cooperative || len(c.owned) == 0 {
		c.sendJoin(current)
		return
	}
	c.commit(nil, func() {
		if current() {
			c.dropAll()
			c.sendJoin(current)
		}
	})
}

func (c *classicMember) sendJoin(current func() bool) {
	w := c.w
	name := protocolEager
	if c.group.cooperative {
		name = protocolCooperative
	}
	in := group.Join{
		Group: c.group.name, MemberID: c.id, InstanceID: c.instance, ClientID: fmt.Sprintf("c%d", c.number), SessionTimeout: c.group.session, RebalanceTimeout: c.group.rebalance,
		ProtocolType: group.ProtocolTypeConsumer, Protocols: []group.Protocol{{Name: name, Metadata: c.metadata()}}, RequireMemberID: c.group.requireID, CanSkipAssignment: true,
	}
	if in.MemberID == "" {
		w.groups.madeIDs++
		in.NewMemberID = fmt.Sprintf("c%d-%d-%d", c.number, c.life, w.groups.madeIDs)
	}
	asked := w.groups.check.applied
	// The answer may come as late as the others join.
	c.ask(in, c.group.rebalance+groupTimeout, func(a groupAnswer) {
		if !current() {
			return
		}
		if a.lost || a.Code != cluster.CodeNone {
			c.refused(a)
			return
		}
		c.heard = w.now
		j := a.Join
		w.groups.check.joined(c, asked, j)
		c.id = j.MemberID
		if j.MemberIDRequired {
			c.sendJoin(current)
			return
		}
		w.cov.Joins++
		c.generation = j.Generation
		c.w.note("member joined", int64(c.number), int64(j.Generation), int64(len(j.Members)))
		c.sync(j)
	})
}

// sync hands over the assignments, as the leader, and asks for the member's own.
func (c *classicMember) sync(j *group.JoinReply) {
	current := c.begins(classicSyncing)
	in := group.Sync{Group: c.group.name, MemberID: c.id, InstanceID: c.instance, Generation: c.generation, ProtocolType: j.ProtocolType, Protocol: j.Protocol}
	c.leads, c.known = j.Leader == c.id, nil
	if c.leads && !j.SkipAssignment {
		c.known = c.subscribed()
		in.Assignments = c.assign(j.Members)
	}
	c.ask(in, c.group.rebalance+groupTimeout, func(a groupAnswer) {
		if !current() {
			return
		}
		if a.lost || a.Code != cluster.CodeNone {
			c.refused(a)
			return
		}
		c.heard = c.w.now
		mine := decodePartitions(a.Sync.Assignment)
		c.w.groups.check.synced(c, mine)
		c.take(mine)
	})
}

// take makes what is read what the generation gave.
func (c *classicMember) take(mine []cluster.TopicPartition) {
	current := c.begins(classicStable)
	c.later(c.interval(), func() { c.keepUp(current) })
	c.w.note("member has", int64(c.number), int64(c.generation), int64(len(mine)))
	var going, coming []cluster.TopicPartition
	for _, tp := range c.partitions() {
		if !contains(mine, tp) {
			going = append(going, tp)
		}
	}
	for _, tp := range mine {
		if c.holding(tp) == nil {
			coming = append(coming, tp)
		}
	}
	if len(coming) > 0 {
		c.begin(coming, current, func() {})
	}
	if len(going) == 0 {
		return
	}
	c.w.cov.Revocations++
	c.commit(going, func() {
		if current() {
			c.drop(going)
			c.join() // others wait for what was given up
		}
	})
}

// interval is the time between heartbeats: who hears of a rebalance by one must not be too late for it.
func (c *classicMember) interval() time.Duration { return min(c.group.session, c.group.rebalance) / 3 }

// keepUp sends heartbeats while the generation is the present one.
func (c *classicMember) keepUp(current func() bool) {
	if !current() {
		return
	}
	c.ask(group.ClassicHeartbeat{Group: c.group.name, MemberID: c.id, InstanceID: c.instance, Generation: c.generation}, groupTimeout, func(a groupAnswer) {
		switch {
		case !current():
			return
		case !a.lost && a.Code == cluster.CodeNone:
			c.heard = c.w.now
			if c.leads && c.w.chance(300) && !slices.Equal(c.known, c.subscribed()) {
				c.join() // the topic has changed
				return
			}
		case a.lost || a.Code == cluster.CodeNotCoordinator || a.Code == cluster.CodeNoCoordinator || a.Code == cluster.CodeCoordinatorLoading ||
			a.Code == cluster.CodeTimedOut || a.Code == cluster.CodeOverloaded:
			c.refresh()
			if c.w.now-c.heard > c.group.session { // the group has given the member up, for all that it knows
				c.lose()
				c.join()
				return
			}
			c.later(c.w.between(50*time.Millisecond, 200*time.Millisecond), func() { c.keepUp(current) })
			return
		default:
			c.refused(a)
			return
		}
		c.later(c.interval(), func() { c.keepUp(current) })
	})
}

// refused decides what a refusal means, and joins again.
func (c *classicMember) refused(a groupAnswer) {
	switch {
	case a.lost:
		c.refresh()
	case a.Code == cluster.CodeUnknownMember:
		c.w.cov.MembersFenced++
		c.lose()
		c.id = ""
	case a.Code == cluster.CodeIllegalGeneration:
		c.w.cov.MembersFenced++
		c.lose()
	case a.Code == cluster.CodeFencedInstance:
		c.w.cov.InstancesFenced++
		c.lose()
		c.fencedForGood = true
		c.crash()
		return
	case a.Code == cluster.CodeRebalanceInProgress:
	default:
		c.refresh()
	}
	if c.w.now-c.heard > c.group.session {
		c.lose()
	}
	if a.Code == cluster.CodeRebalanceInProgress && !a.lost {
		c.w.cov.Rebalances++
		c.join()
		return
	}
	current := c.begins(classicIdle)
	c.later(c.w.between(20*time.Millisecond, 200*time.Millisecond), func() {
		if current() {
			c.join()
		}
	})
}

func (c *classicMember) lose() {
	c.generation = group.NoGeneration
	c.dropAll()
}

// metadata is a consumer's subscription: the topic, and for a cooperative leader the generation and what is read.
func (c *classicMember) metadata() []byte {
	out := binary.BigEndian.AppendUint16(nil, 1)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = binary.BigEndian.AppendUint16(out, uint16(len(groupTopic)))
	out = append(out, groupTopic...)
	if !c.group.cooperative {
		return out
	}
	out = binary.BigEndian.AppendUint32(out, uint32(c.generation))
	return append(out, encodePartitions(c.partitions())...)
}

// subscribed lists the partitions of the topic as some broker has them.
func (c *classicMember) subscribed() []cluster.TopicPartition {
	image := c.w.brokers[c.w.rng.IntN(len(c.w.brokers))].image
	topic, ok := image.TopicByName(groupTopic)
	if !ok {
		return nil
	}
	var out []cluster.TopicPartition
	for i := range topic.Partitions {
		out = append(out, cluster.TopicPartition{Topic: topic.ID, Partition: i})
	}
	return out
}

// claim is what the metadata of a member say that it reads.
func claim(metadata []byte) (generation int32, owned []cluster.TopicPartition) {
	rest := metadata[2+4+2+len(groupTopic):]
	return int32(binary.BigEndian.Uint32(rest)), decodePartitions(rest[4:])
}

// assign gives every partition to a member. A cooperative leader gives nothing to anybody that another one still reads: that one gives it up first,
// and joins again. It takes nothing from a static member, which may be away: when that comes back it has nothing to give up, takes the place that it had without
// a new generation, and nobody would read what was taken from it until there is one, in Kafka as here.
func (c *classicMember) assign(members []group.JoinedMember) []group.Assignment {
	owner := map[cluster.TopicPartition]string{}
	newest := map[cluster.TopicPartition]int32{}
	static := map[string]bool{}
	for _, m := range members {
		if !c.group.cooperative {
			break
		}
		static[m.MemberID] = m.InstanceID != ""
		generation, owned := claim(m.Metadata)
		for _, tp := range owned {
			if at, ok := newest[tp]; !ok || generation > at {
				owner[tp], newest[tp] = m.MemberID, generation
			}
		}
	}
	order := slices.Clone(members)
	slices.SortFunc(order, func(a, b group.JoinedMember) int {
		if a.InstanceID != b.InstanceID {
			return strings.Compare(a.InstanceID, b.InstanceID)
		}
		return strings.Compare(a.MemberID, b.MemberID)
	})
	given := map[string][]cluster.TopicPartition{}
	for i, tp := range c.known {
		to := order[i%len(order)].MemberID
		has := owner[tp]
		if static[has] {
			to = has
		}
		if has == "" || has == to {
			given[to] = append(given[to], tp)
		}
	}
	var out []group.Assignment
	for _, m := range members {
		out = append(out, group.Assignment{MemberID: m.MemberID, Assignment: encodePartitions(given[m.MemberID])})
	}
	return out
}

// encodePartitions writes partitions as 20 bytes each.
func encodePartitions(tps []cluster.TopicPartition) []byte {
	out := []byte{}
	for _, tp := range tps {
		out = binary.BigEndian.AppendUint32(append(out, tp.Topic[:]...), uint32(tp.Partition))
	}
	return out
}

func decodePartitions(b []byte) []cluster.TopicPartition {
	var out []cluster.TopicPartition
	for ; len(b) >= 20; b = b[20:] {
		out = append(out, cluster.TopicPartition{Topic: cluster.TopicID(b[:16]), Partition: int32(binary.BigEndian.Uint32(b[16:]))})
	}
	return out
}
