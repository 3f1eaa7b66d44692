package coordinator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

func TestAnswersWaitForTheCommit(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	a := n.commit("g", 5)
	n.take()
	n.want(a, codeNoAnswer)
	read := n.ask("g", group.FetchOffsets{Group: "g", Epoch: -1})
	other := n.ask("g", group.Delete{Group: "g"})
	n.take()
	n.want(read, codeNoAnswer) // it would show an offset that is not committed
	n.want(other, codeNoAnswer)
	n.finish()
	n.want(a, cluster.CodeNone)
	n.want(read, cluster.CodeNone)
	if got := n.answers[read].Offsets; len(got) != 1 || got[0].Committed.Offset != 5 {
		t.Fatalf("read %v, want offset 5", got)
	}
	n.want(other, codeNoAnswer) // the deletion is in the next append
	n.finish()
	n.want(other, cluster.CodeNone)
	if n.core.Len() != 0 {
		t.Fatal("a group that holds nothing is kept")
	}
	read = n.ask("g", group.FetchOffsets{Group: "g", Epoch: -1})
	n.take()
	n.want(read, cluster.CodeNone) // nothing pends: at once
	if n.append != nil {
		t.Fatal("a read was appended")
	}
}

func TestOneAppendCarriesWhatGatheredForAllShards(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	groups := names(10)
	n.lead(groups...)
	first := n.commit(groups[0], 1)
	n.take()
	var rest []Ticket
	for i, name := range groups {
		rest = append(rest, n.commit(name, int64(i)), n.commit(name, int64(i+1)))
	}
	n.take()
	n.finish()
	n.want(first, cluster.CodeNone)
	if got := len(n.append.Batches); got != 10 {
		t.Fatalf("the second append has %d batches, want 10", got)
	}
	if b := n.append.Batches[0]; b.Sequence != 1 || len(b.Records) != 2 {
		t.Fatalf("first batch has sequence %d and %d records, want 1 and 2", b.Sequence, len(b.Records))
	}
	n.finish()
	for _, ticket := range rest {
		n.want(ticket, cluster.CodeNone)
	}
	if c := n.core.Counts(); c.Appends != 2 || c.Records != 21 || c.Committed != 11 {
		t.Fatalf("counts %+v", c)
	}
}

func TestOnlyTheNewestStateOfAGroupTravels(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	n.join("g", "m0")
	n.take()
	for i := range 20 {
		n.join("g", fmt.Sprintf("m%d", i+1))
	}
	n.commit("g", 1) // refused: the group has members
	n.take()
	n.finish()
	if got := n.append.Batches[0].Records; len(got) != 1 {
		t.Fatalf("%d records travel, want 1", len(got))
	}
	n.finish()
	if got := n.log.shards[cluster.ShardOf("g")].states["g"]; len(got.Members) != 21 || got.Epoch != 21 {
		t.Fatalf("the log has %d members in epoch %d, want 21 in 21", len(got.Members), got.Epoch)
	}
}

func TestAppendsAreCutAtTheirBound(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	big := group.Commit{Group: "g", Epoch: -1}
	for range 40 {
		big.Offsets = append(big.Offsets, group.CommitOffset{Partition: tp0, Metadata: strings.Repeat("x", 4000)})
	}
	var tickets []Ticket
	for range 10 {
		tickets = append(tickets, n.ask("g", big))
	}
	n.take()
	appends := 0
	for n.append != nil {
		size := 0
		for _, r := range n.append.Batches[0].Records {
			size += group.RecordSize(r)
		}
		if size > DefaultConfig().MaxAppendBytes {
			t.Fatalf("an append of %d bytes", size)
		}
		n.finish()
		appends++
	}
	for _, ticket := range tickets {
		n.want(ticket, cluster.CodeNone)
	}
	if appends != 4 {
		t.Fatalf("%d appends, want 4", appends)
	}
}

func TestTooMuchPendingIsRefused(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.core.config.MaxPendingRequests = 3
	n.lead("g")
	for i := range 3 {
		n.commit("g", int64(i))
	}
	n.take()
	over := n.commit("g", 9)
	n.take()
	n.want(over, cluster.CodeOverloaded)
	n.finish()
	again := n.commit("g", 9)
	n.take()
	n.finish()
	n.want(again, cluster.CodeNone)
	if n.core.pendingBytes != 0 || n.core.pendingRequests != 0 {
		t.Fatalf("%d bytes and %d requests are still counted", n.core.pendingBytes, n.core.pendingRequests)
	}
}

func TestGroupsOfOtherBrokersAreRefused(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	ticket := n.commit("g", 1)
	n.take()
	n.want(ticket, cluster.CodeNotCoordinator)
}

// Requests wait for a load that takes a moment; when its first attempt fails they are refused, and so is what comes before it succeeds.
func TestRequestsWaitForAQuickLoad(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	id := cluster.ShardOf("g")
	n.log.shards[id].epoch = 1
	n.core.ShardsChanged([]ShardLead{{id, 1}})
	a := n.commit("g", 1)
	n.take()
	n.want(a, codeNoAnswer)
	n.core.LoadFailed(n.loads[0])
	n.loads = nil
	b := n.commit("g", 1)
	n.take()
	n.want(a, cluster.CodeCoordinatorLoading)
	n.want(b, cluster.CodeCoordinatorLoading)
	n.load()
	n.core.ShardsChanged(nil)
	n.log.shards[id].epoch = 2
	n.core.ShardsChanged([]ShardLead{{id, 2}})
	a = n.commit("g", 1)
	n.take()
	n.load()
	n.finish()
	n.want(a, cluster.CodeNone)
	n.core.ShardsChanged([]ShardLead{{id, 3}})
	a = n.commit("g", 1)
	n.core.ShardsChanged(nil)
	n.take()
	n.want(a, cluster.CodeNotCoordinator)
	if n.core.pendingRequests != 0 {
		t.Fatalf("%d requests are still counted", n.core.pendingRequests)
	}
}

// Case 147: the answer of a batch is lost and it is applied after its successor was sent, before or after that successor. It is applied once, in
// order, and the offset never steps back behind an OK.
func TestCase147_ALostBatchNeverCommitsBehindItsSuccessor(t *testing.T) {
	for _, late := range []string{"before the load", "before it is settled", "before the successor", "after the successor", "never"} {
		t.Run(late, func(t *testing.T) {
			n := newNode(t, newModelLog(), 1)
			n.lead("g")
			a := n.commit("g", 10)
			n.take()
			queued := n.commit("g", 11)
			n.take()
			lost := n.lose()
			n.want(a, cluster.CodeTimedOut)
			n.want(queued, cluster.CodeCoordinatorLoading) // it was never sent: a plain retry is right
			at := func(when string) {
				if late == when {
					n.log.apply(lost)
				}
			}
			at("before the load")
			n.load()
			read := n.ask("g", group.FetchOffsets{Group: "g", Epoch: -1})
			n.take()
			at("before it is settled")
			n.settle()
			at("before the successor")
			if reply := n.answers[read]; reply.Code == cluster.CodeNone && len(reply.Offsets) != map[bool]int{true: 1}[late == "before the load"] {
				t.Errorf("read %v", reply.Offsets)
			}

			b := n.commit("g", 20)
			n.take()
			n.finish()
			n.want(b, cluster.CodeNone)
			at("after the successor")
			if got := n.log.offset("g"); got != 20 {
				t.Fatalf("the committed offset is %d, want 20", got)
			}
		})
	}
}

// After a doubt nothing is answered that a late batch could make wrong: what is told rests on what the log has, and will have. Nothing else of the group
// has to be committed for that, which in an idle group might never be.
func TestCase147_ALateBatchIsNeverMissed(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	joined := n.join("g", "m")
	n.take()
	n.finish()
	n.want(joined, cluster.CodeNone)
	n.now += time.Hour
	n.core.Tick(n.env()) // the member is silent
	n.take()
	lost := n.lose()
	n.load()
	beat := n.ask("g", group.Heartbeat{Group: "g", MemberID: "m", Epoch: 1})
	n.take()
	n.want(beat, codeNoAnswer)
	n.log.apply(lost)
	n.settle()
	n.want(beat, cluster.CodeCoordinatorLoading)
	again := n.ask("g", group.Heartbeat{Group: "g", MemberID: "m", Epoch: 1})
	n.take()
	n.want(again, cluster.CodeUnknownMember)
}

// A load that shows less than what is known to be accepted is asked for again: reads would step back.
func TestLoadFromBehindIsRepeated(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	old := n.log.content(cluster.ShardOf("g"))
	a := n.commit("g", 10)
	n.take()
	n.finish()
	n.want(a, cluster.CodeNone)
	b := n.commit("g", 20)
	n.take()
	n.lose()
	n.want(b, cluster.CodeTimedOut)
	l := n.loads[0]
	n.loads = nil
	if l.MinIndex != 1 {
		t.Fatalf("the load may start from entry %d, want 1", l.MinIndex)
	}
	n.core.Loaded(n.env(), l, old)
	n.take()
	if len(n.loads) != 1 || n.loads[0].Attempt != 1 {
		t.Fatalf("loads %v, want a second attempt", n.loads)
	}
	n.core.LoadFailed(n.loads[0])
	n.loads = nil
	n.take()
	n.settle()
	read := n.ask("g", group.FetchOffsets{Group: "g", Epoch: -1})
	n.take()
	if got := n.answers[read].Offsets; len(got) != 1 || got[0].Committed.Offset != 10 {
		t.Fatalf("read %v, want offset 10", got)
	}
}

// Case 83: the shard moves while members join. Retries at the new coordinator work, the epoch goes on rising, offsets stay.
func TestCase83_CoordinatorMovesDuringJoin(t *testing.T) {
	log := newModelLog()
	one, two := newNode(t, log, 1), newNode(t, log, 2)
	one.lead("g")
	one.commit("g", 7)
	one.take()
	one.finish()
	first := one.join("g", "m1")
	one.take()
	second := one.join("g", "m2")
	one.take()
	log.shards[cluster.ShardOf("g")].epoch++ // the controller moves the shard: the join in flight is too late
	one.finish()
	one.want(first, cluster.CodeNotCoordinator)
	one.want(second, cluster.CodeCoordinatorLoading)
	one.load() // newer than what it leads: it waits for the news
	third := one.join("g", "m1")
	one.take()
	one.want(third, cluster.CodeCoordinatorLoading)
	one.core.ShardsChanged(nil)
	third = one.join("g", "m1")
	one.take()
	one.want(third, cluster.CodeNotCoordinator)

	two.core.ShardsChanged([]ShardLead{{cluster.ShardOf("g"), 2}})
	two.take()
	two.load()
	a, b := two.join("g", "m1"), two.join("g", "m2")
	two.take()
	two.finish()
	two.want(a, cluster.CodeNone)
	two.want(b, cluster.CodeNone)
	if epoch := two.answers[b].Member.Epoch; epoch != 2 {
		t.Fatalf("m2 joined in epoch %d, want 2", epoch)
	}
	if got := log.offset("g"); got != 7 {
		t.Fatalf("the committed offset is %d, want 7", got)
	}
}

// Case 148: the coordinator dies while a group is stable. Nobody is unknown at the next one, and the epoch is the same; sessions are fresh.
func TestCase148_TakeOverKeepsTheGroup(t *testing.T) {
	log := newModelLog()
	one, two := newNode(t, log, 1), newNode(t, log, 2)
	one.lead("g")
	one.join("g", "m1")
	one.take()
	one.finish()

	two.now = time.Hour // another clock altogether
	two.lead("g")
	if len(two.fx.Removed) > 0 || two.append != nil {
		t.Fatal("the takeover changed the group")
	}
	if got, want := two.core.Deadline(), time.Hour+group.DefaultConfig().DefaultSession; got != want {
		t.Fatalf("the next deadline is %s, want %s", got, want)
	}
	hb := two.ask("g", group.Heartbeat{Group: "g", MemberID: "m1", Epoch: 1})
	two.take()
	two.want(hb, cluster.CodeNone)
	if m := two.answers[hb].Member; m.Epoch != 1 || len(m.Assigned) != 4 {
		t.Fatalf("m1 is told epoch %d and %d partitions, want 1 and 4", m.Epoch, len(m.Assigned))
	}
	two.now += group.DefaultConfig().DefaultSession
	two.core.Tick(two.env())
	two.take()
	two.finish()
	if len(two.fx.Removed) != 1 || two.core.Deadline() != group.Never {
		t.Fatalf("removed %v, next deadline %s; want m1 removed and no deadline", two.fx.Removed, two.core.Deadline())
	}
}

// A result that comes after the shard was lost, and even taken again, still answers who waits for it, and touches nothing new.
func TestResultOfAnEarlierLeadership(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	a := n.commit("g", 10)
	n.take()
	queued := n.commit("g", 11)
	result := n.log.apply(*n.append) // accepted, the result is under way
	n.append = nil
	n.core.ShardsChanged(nil)
	n.take()
	n.want(queued, cluster.CodeNotCoordinator)
	n.lead("g")
	n.core.Appended(n.env(), result, nil)
	n.take()
	n.want(a, cluster.CodeNone)
	b := n.commit("g", 20)
	n.take()
	n.finish()
	n.want(b, cluster.CodeNone)
	if got := n.log.offset("g"); got != 20 {
		t.Fatalf("the committed offset is %d, want 20", got)
	}
}

// The log refuses a whole append: nothing of it was applied, and the shards are loaded again.
func TestRefusedAppend(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	a := n.commit("g", 10)
	n.take()
	n.append = nil
	n.core.Appended(n.env(), cluster.Result{Code: cluster.CodeStaleBrokerEpoch}, nil)
	n.take()
	n.want(a, cluster.CodeCoordinatorLoading)
	n.load()
	a = n.commit("g", 10)
	n.take()
	n.finish()
	n.want(a, cluster.CodeNone)
}

// Cases 89 and 147 at random: one client per group commits rising offsets one at a time, and tries again what it gets no OK for, with a newer
// offset. Answers are lost, lost batches are applied late or never, shards move between two brokers. After an OK the log never holds less.
func TestCase89_CommittedOffsetsNeverStepBehindAnOK(t *testing.T) {
	oks, unknown := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 89))
		log := newModelLog()
		nodes := []*node{newNode(t, log, 0), newNode(t, log, 1)}
		groups := names(3)
		leads := make([]int, len(groups))
		tell := func(which int) {
			var led []ShardLead
			for i, name := range groups {
				if leads[i] == which {
					id := cluster.ShardOf(name)
					led = append(led, ShardLead{id, log.shards[id].epoch})
				}
			}
			nodes[which].core.ShardsChanged(led)
			nodes[which].take()
		}
		tell(0)
		type pending struct {
			ticket Ticket
			node   int
			offset int64
		}
		acked, next := make([]int64, len(groups)), make([]int64, len(groups))
		open := make([]*pending, len(groups))
		var lost []cluster.GroupAppend
		for range 400 {
			i, w := r.IntN(len(groups)), r.IntN(2)
			n := nodes[w]
			switch r.IntN(8) {
			case 0, 1, 2: // the client of group i
				p := open[i]
				if p == nil {
					next[i]++
					open[i] = &pending{nodes[leads[i]].commit(groups[i], next[i]), leads[i], next[i]}
				} else if reply, ok := nodes[p.node].answers[p.ticket]; ok {
					if reply.Code == cluster.CodeNone {
						acked[i] = p.offset
						oks++
					}
					if reply.Code == cluster.CodeTimedOut {
						unknown++
					}
					open[i] = nil
				}
				nodes[leads[i]].take()
			case 3, 4:
				if n.append != nil {
					n.finish()
				}
			case 5:
				if n.append != nil {
					lost = append(lost, n.lose())
				}
			case 6:
				n.load()
				if len(lost) > 0 && r.IntN(2) == 0 {
					k := r.IntN(len(lost))
					log.apply(lost[k])
					lost = append(lost[:k], lost[k+1:]...)
				}
			case 7:
				if r.IntN(5) == 0 {
					leads[i] = 1 - leads[i]
					log.shards[cluster.ShardOf(groups[i])].epoch++
				}
				tell(0)
				tell(1)
			}
			for i, name := range groups {
				if got := log.offset(name); acked[i] > 0 && got < acked[i] {
					t.Fatalf("seed %d: %s has %d committed, %d was acknowledged", seed, name, got, acked[i])
				}
			}
		}
	}
	if oks < 1000 || unknown < 1000 {
		t.Fatalf("%d commits succeeded and %d timed out: the test shows nothing", oks, unknown)
	}
}

// An append that was never proposed is not in doubt: who waits may simply try again.
func TestAppendThatWasNeverProposed(t *testing.T) {
	n := newNode(t, newModelLog(), 1)
	n.lead("g")
	for err, want := range map[error]cluster.Code{
		fmt.Errorf("append: %w", cluster.Refuse(cluster.CodeNoController, "")): cluster.CodeCoordinatorLoading,
		cluster.Refuse(cluster.CodeTimedOut, ""):                               cluster.CodeTimedOut,
		errNoAnswer:                                                            cluster.CodeTimedOut,
	} {
		a := n.commit("g", 1)
		n.take()
		n.append = nil
		n.core.Appended(n.env(), cluster.Result{}, err)
		n.take()
		n.want(a, want)
		n.settle()
	}
}

func BenchmarkCommit(b *testing.B) {
	log := newModelLog()
	n := &node{t: &testing.T{}, core: New(1, DefaultConfig(), group.DefaultConfig()), log: log, answers: map[Ticket]group.Reply{}}
	groups := names(32)
	n.lead(groups...)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		n.commit(groups[i%len(groups)], int64(i))
		if i++; i%1000 == 0 {
			n.take()
			n.finish()
			clear(n.answers)
		}
	}
	b.ReportMetric(float64(n.core.Counts().Records)/float64(max(1, n.core.Counts().Appends)), "records/append")
}
