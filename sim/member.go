package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/record"
)

// Times of members.
const (
	commitPatience = 2 * time.Second // that a fenced commit waits for the member's new epoch
	commitPause    = 100 * time.Millisecond
)

// protocol is how a member keeps its place in the group.
type protocol interface {
	// start begins a life of the process; leave ends it in order.
	start()
	leave()
	// stopped is told that the process has ended.
	stopped()
	// identity is what a commit names: the member id and its epoch or generation.
	identity() (string, int32)
	// unsettled says what the member waits for, empty for nothing.
	unsettled() string
}

// member is one process that reads what its group gives it, and commits what it has read.
type member struct {
	groupClient
	number   int
	instance string // empty for a dynamic member
	id       string
	proto    protocol
	owned    []*holding // what is read, in order
	// committing says that a commit is under way, waiting who is next.
	committing bool
	waiting    []func()
	// fencedForGood says that another member took the instance id.
	fencedForGood bool
}

// holding is one partition that a member reads.
type holding struct {
	*consumer
	stored record.Offset // the newest position known to be committed, -1 for none
}

func (m *member) start() {
	if m.up {
		return
	}
	m.up, m.life, m.paused = true, m.life+1, 0
	m.owned, m.committing, m.waiting = nil, false, nil
	m.w.note("member starts", int64(m.number), int64(m.life))
	m.proto.start()
	m.later(m.w.between(50*time.Millisecond, 300*time.Millisecond), m.autoCommit)
}

// crash ends the process without a word.
func (m *member) crash() {
	m.w.note("member stops", int64(m.number), int64(m.life))
	m.dropAll()
	m.up = false
	m.proto.stopped()
}

// leave commits, says good-bye and ends the process.
func (m *member) leave() {
	m.w.note("member leaves", int64(m.number), int64(m.life))
	m.do(func() { m.commit(nil, func() { m.dropAll(); m.proto.leave() }) })
}

func (m *member) autoCommit() {
	m.later(m.w.between(100*time.Millisecond, 500*time.Millisecond), m.autoCommit)
	if !m.committing {
		m.commit(nil, func() {})
	}
}

func (m *member) holding(tp cluster.TopicPartition) *holding {
	for _, h := range m.owned {
		if h.tp == tp {
			return h
		}
	}
	return nil
}

// partitions lists what is read. It is never nil.
func (m *member) partitions() []cluster.TopicPartition {
	out := make([]cluster.TopicPartition, 0, len(m.owned))
	for _, h := range m.owned {
		out = append(out, h.tp)
	}
	return out
}

// begin reads partitions from their committed offsets; current says whether the member still wants that when they are known.
func (m *member) begin(coming []cluster.TopicPartition, current func() bool, done func()) {
	if !current() {
		return
	}
	check := m.w.groups.check
	floor := check.floors(m.group.name)
	m.ask(group.FetchOffsets{Group: m.group.name, Epoch: group.NoMemberEpoch, Partitions: coming}, groupTimeout, func(a groupAnswer) {
		if a.lost || a.Code != cluster.CodeNone {
			m.refresh()
			m.later(m.w.between(20*time.Millisecond, 200*time.Millisecond), func() { m.begin(coming, current, done) })
			return
		}
		check.fetched(m.group.name, floor, a.Offsets)
		if !current() {
			return
		}
		for _, o := range a.Offsets {
			m.read(o)
		}
		done()
	})
}

// read begins to read a partition.
func (m *member) read(from group.FetchedOffset) {
	h := &holding{stored: -1, consumer: &consumer{l: m.w.load, node: m.node, tp: from.Partition, lastEpoch: record.NoEpoch, to: m.w.load.route(from.Partition)}}
	if from.Found {
		h.position, h.stored, h.lastEpoch = from.Committed.Offset, from.Committed.Offset, from.Committed.LeaderEpoch
		h.losses = m.w.groups.check.lossesAt(from)
	}
	life := m.life
	h.held = func(again func()) bool {
		if m.w.now < m.paused && m.up && m.life == life {
			m.w.at(m.paused, again)
			return true
		}
		return m.life != life || m.holding(h.tp) != h
	}
	m.owned = append(m.owned, h)
	slices.SortFunc(m.owned, func(a, b *holding) int { return a.tp.Compare(b.tp) })
	m.w.note("reads", int64(m.number), m.w.key(h.tp), int64(h.position))
	h.fetch()
}

// drop stops reading partitions.
func (m *member) drop(going []cluster.TopicPartition) {
	m.owned = slices.DeleteFunc(slices.Clone(m.owned), func(h *holding) bool { return slices.Contains(going, h.tp) })
}

func (m *member) dropAll() { m.owned = nil }

// commit stores positions of partitions (nil: of all) where they moved, after what is under way.
func (m *member) commit(tps []cluster.TopicPartition, done func()) {
	if m.committing {
		m.waiting = append(m.waiting, func() { m.commit(tps, done) })
		return
	}
	m.committing = true
	m.tryCommit(tps, m.w.now+commitPatience, func() {
		m.committing = false
		done()
		if len(m.waiting) > 0 && !m.committing {
			next := m.waiting[0]
			m.waiting = m.waiting[1:]
			next()
		}
	})
}

// tryCommit makes one attempt. One that crosses a new epoch on its way is made again under that; one whose outcome is not known is made again with
// what is read by then (case 89).
func (m *member) tryCommit(tps []cluster.TopicPartition, until time.Duration, done func()) {
	w, check := m.w, m.w.groups.check
	in := group.Commit{Group: m.group.name, InstanceID: m.instance}
	in.MemberID, in.Epoch = m.proto.identity()
	if tps == nil {
		tps = m.partitions()
	}
	var holdings []*holding
	losses := map[cluster.TopicPartition]int{}
	number := check.nextCommit()
	for _, tp := range tps {
		if h := m.holding(tp); h != nil && h.position != h.stored && h.position > 0 {
			holdings, losses[tp] = append(holdings, h), h.losses
			in.Offsets = append(in.Offsets, group.CommitOffset{Partition: tp, Offset: int64(h.position), LeaderEpoch: int32(h.lastEpoch), Metadata: strconv.Itoa(number)})
		}
	}
	if len(in.Offsets) == 0 || in.Epoch <= 0 {
		done()
		return
	}
	check.sent(in, losses)
	m.ask(in, groupTimeout, func(a groupAnswer) {
		check.answered(number, a)
		switch {
		case a.lost || a.Code == cluster.CodeTimedOut:
			m.refresh()
		case a.Code == cluster.CodeNone:
			for i, h := range holdings {
				h.stored = record.Offset(in.Offsets[i].Offset)
			}
			done()
			return
		case a.Code == cluster.CodeFencedMemberEpoch, a.Code == cluster.CodeUnknownMember, a.Code == cluster.CodeFencedInstance,
			a.Code == cluster.CodeIllegalGeneration, a.Code == cluster.CodeRebalanceInProgress:
		default:
			m.refresh()
		}
		if w.now >= until {
			done()
			return
		}
		m.later(w.between(commitPause/2, commitPause*2), func() { m.tryCommit(tps, until, done) })
	})
}
