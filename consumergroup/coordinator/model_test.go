package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// modelLog is the metadata log as controller/state has it: a shard accepts exactly the next sequence of its present epoch.
type modelLog struct {
	index  uint64
	shards [cluster.ShardCount]modelShard
}

type modelShard struct {
	epoch   cluster.ShardEpoch
	next    int64
	states  map[string]cluster.GroupState
	offsets map[string]map[cluster.TopicPartition]cluster.CommittedOffset
}

func newModelLog() *modelLog {
	l := &modelLog{}
	for i := range l.shards {
		l.shards[i].states = map[string]cluster.GroupState{}
		l.shards[i].offsets = map[string]map[cluster.TopicPartition]cluster.CommittedOffset{}
	}
	return l
}

func (l *modelLog) apply(a cluster.GroupAppend) cluster.Result {
	l.index++
	result := cluster.Result{Index: l.index}
	for _, b := range a.Batches {
		s := &l.shards[b.Shard]
		item := cluster.ItemResult{}
		switch {
		case b.ShardEpoch != s.epoch:
			item.Code = cluster.CodeStaleShardEpoch
		case b.Sequence < s.next:
			item.Code = cluster.CodeDuplicateSequence
		case b.Sequence > s.next:
			item.Code = cluster.CodeOutOfOrderSequence
		default:
			s.next++
			for _, r := range b.Records {
				s.replay(r)
			}
		}
		item.NextSequence = s.next
		result.Items = append(result.Items, item)
	}
	return result
}

func (s *modelShard) replay(record cluster.GroupRecord) {
	switch r := record.(type) {
	case cluster.GroupState:
		s.states[r.Group] = r
	case cluster.GroupDeleted:
		delete(s.states, r.Group)
		delete(s.offsets, r.Group)
	case cluster.OffsetCommitted:
		if s.offsets[r.Group] == nil {
			s.offsets[r.Group] = map[cluster.TopicPartition]cluster.CommittedOffset{}
		}
		s.offsets[r.Group][r.Partition] = r.Committed
	case cluster.OffsetDeleted:
		delete(s.offsets[r.Group], r.Partition)
	}
}

func (l *modelLog) content(id cluster.ShardID) ShardContent {
	s := &l.shards[id]
	var records []cluster.GroupRecord
	for _, name := range slices.Sorted(maps.Keys(s.states)) {
		records = append(records, s.states[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.offsets)) {
		for _, tp := range slices.SortedFunc(maps.Keys(s.offsets[name]), cluster.TopicPartition.Compare) {
			records = append(records, cluster.OffsetCommitted{Group: name, Partition: tp, Committed: s.offsets[name][tp]})
		}
	}
	return ShardContent{Epoch: s.epoch, NextSequence: s.next, Records: slices.Values(records)}
}

func (l *modelLog) offset(name string) int64 {
	c, ok := l.shards[cluster.ShardOf(name)].offsets[name][tp0]
	if !ok {
		return -1
	}
	return int64(c.Offset)
}

// oneTopic is a cluster with one topic, "t", of four partitions.
type oneTopic struct{}

var tp0 = cluster.TopicPartition{Topic: cluster.TopicID{1}}

func (oneTopic) Topic(id cluster.TopicID) (*cluster.Topic, bool) {
	return &cluster.Topic{ID: id, Name: "t", Partitions: 4}, id == tp0.Topic
}

func (oneTopic) TopicByName(name string) (*cluster.Topic, bool) {
	return &cluster.Topic{ID: tp0.Topic, Name: "t", Partitions: 4}, name == "t"
}

// node is one broker's coordinator with its surroundings.
type node struct {
	t       *testing.T
	core    *Coordinator
	log     *modelLog
	now     time.Duration
	tickets Ticket
	answers map[Ticket]group.Reply
	// append is what was given out and not yet answered.
	append *cluster.GroupAppend
	loads  []Load
	fx     Effects // the last ones
}

var errNoAnswer = errors.New("no answer")

func newNode(t *testing.T, log *modelLog, id cluster.BrokerID) *node {
	return &node{t: t, core: New(id, DefaultConfig(), group.DefaultConfig()), log: log, answers: map[Ticket]group.Reply{}}
}

func (n *node) env() group.Env {
	return group.Env{Now: n.now, NowMs: n.now.Milliseconds(), Topics: oneTopic{}}
}

// take collects effects.
func (n *node) take() {
	n.t.Helper()
	n.fx = n.core.Take()
	for _, a := range n.fx.Answers {
		if _, twice := n.answers[a.Ticket]; twice {
			n.t.Fatalf("ticket %d was answered twice", a.Ticket)
		}
		n.answers[a.Ticket] = a.Reply
	}
	if n.fx.Append != nil {
		if n.append != nil {
			n.t.Fatal("two appends in flight")
		}
		n.append = n.fx.Append
		n.checkAppend(*n.append)
	}
	n.loads = append(n.loads, n.fx.Loads...)
}

// checkAppend demands one batch per shard, and none empty but for one that settles a doubt.
func (n *node) checkAppend(a cluster.GroupAppend) {
	n.t.Helper()
	seen := map[cluster.ShardID]bool{}
	for _, b := range a.Batches {
		if seen[b.Shard] || (len(b.Records) == 0) != (n.core.shards[b.Shard].content != nil) {
			n.t.Fatalf("shard %d has a second or an empty batch", b.Shard)
		}
		seen[b.Shard] = true
	}
}

// load lets all loads finish.
func (n *node) load() {
	n.t.Helper()
	for len(n.loads) > 0 {
		l := n.loads[0]
		n.loads = n.loads[1:]
		n.core.Loaded(n.env(), l, n.log.content(l.Shard))
		n.take()
	}
}

// settle lets all loads finish, and the appends that settle their doubts.
func (n *node) settle() {
	n.t.Helper()
	n.load()
	for n.append != nil && len(n.append.Batches[0].Records) == 0 {
		n.finish()
		n.load()
	}
}

// lead makes the node lead a group's shard in a new epoch.
func (n *node) lead(names ...string) {
	n.t.Helper()
	var led []ShardLead
	for _, name := range names {
		id := cluster.ShardOf(name)
		n.log.shards[id].epoch++
		led = append(led, ShardLead{id, n.log.shards[id].epoch})
	}
	n.core.ShardsChanged(led)
	n.take()
	n.load()
}

func (n *node) ask(name string, in group.Input) Ticket {
	n.t.Helper()
	n.tickets++
	n.core.Handle(n.env(), n.tickets, name, in)
	return n.tickets
}

// commit asks for a simple commit of one offset.
func (n *node) commit(name string, offset int64) Ticket {
	n.t.Helper()
	return n.ask(name, group.Commit{Group: name, Epoch: group.NoMemberEpoch, Offsets: []group.CommitOffset{{Partition: tp0, Offset: offset}}})
}

func (n *node) join(name, member string) Ticket {
	n.t.Helper()
	return n.ask(name, group.Heartbeat{Group: name, MemberID: member, Topics: []string{"t"}})
}

// finish applies the append in flight and hands its result over.
func (n *node) finish() {
	n.t.Helper()
	if n.append == nil {
		n.t.Fatal("no append in flight")
	}
	result := n.log.apply(*n.append)
	n.append = nil
	n.core.Appended(n.env(), result, nil)
	n.take()
}

// lose answers the append in flight with "unknown" and returns it: it may still be applied, any time.
func (n *node) lose() cluster.GroupAppend {
	n.t.Helper()
	a := *n.append
	n.append = nil
	n.core.Appended(n.env(), cluster.Result{}, errNoAnswer)
	n.take()
	return a
}

// want fails unless the ticket was answered with the code; codeNoAnswer demands that it was not answered.
func (n *node) want(ticket Ticket, code cluster.Code) {
	n.t.Helper()
	reply, ok := n.answers[ticket]
	switch {
	case code == codeNoAnswer && ok:
		n.t.Fatalf("ticket %d was answered with %s, too early", ticket, reply.Code)
	case code != codeNoAnswer && !ok:
		n.t.Fatalf("ticket %d was not answered, want %s", ticket, code)
	case code != codeNoAnswer && reply.Code != code:
		n.t.Fatalf("ticket %d was answered with %s (%s), want %s", ticket, reply.Code, reply.Message, code)
	}
}

const codeNoAnswer cluster.Code = -1

// names gives group ids in different shards.
func names(n int) []string {
	var out []string
	taken := map[cluster.ShardID]bool{}
	for i := 0; len(out) < n; i++ {
		name := fmt.Sprintf("group-%d", i)
		if id := cluster.ShardOf(name); !taken[id] {
			taken[id] = true
			out = append(out, name)
		}
	}
	return out
}
