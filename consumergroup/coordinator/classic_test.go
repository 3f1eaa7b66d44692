package coordinator

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

const classicSession = 10 * time.Second

// joinClassic has a member join; without an id it becomes the one of its name.
func (n *node) joinClassic(name, id string) Ticket {
	n.t.Helper()
	return n.ask("g", group.Join{
		Group: "g", MemberID: id, NewMemberID: name, SessionTimeout: classicSession, RebalanceTimeout: classicSession,
		ProtocolType: "consumer", Protocols: []group.Protocol{{Name: "range"}},
	})
}

func (n *node) syncClassic(id string, generation int32, assign ...group.Assignment) Ticket {
	n.t.Helper()
	return n.ask("g", group.Sync{Group: "g", MemberID: id, Generation: generation, Assignments: assign})
}

// finishAll lets appends through until nothing is left to send.
func (n *node) finishAll() {
	n.t.Helper()
	for n.take(); n.append != nil; {
		n.finish()
	}
}

// classicNode leads a group whose first generation begins at once.
func classicNode(t *testing.T, log *modelLog, id cluster.BrokerID) *node {
	config := group.DefaultConfig()
	config.InitialRebalanceDelay = 0
	n := newNode(t, log, id)
	n.core = New(id, DefaultConfig(), config)
	return n
}

// stableClassic makes a group of m1, which leads, and m2 in generation 2.
func stableClassic(n *node) {
	n.t.Helper()
	n.lead("g")
	n.joinClassic("m1", "")
	n.finishAll()
	n.joinClassic("m2", "")
	n.joinClassic("m1", "m1")
	n.finishAll()
	n.syncClassic("m1", 2, group.Assignment{MemberID: "m1", Assignment: []byte("A")}, group.Assignment{MemberID: "m2", Assignment: []byte("B")})
	n.finishAll()
}

func (n *node) heartbeatClassic(id string, generation int32) Ticket {
	n.t.Helper()
	ticket := n.ask("g", group.ClassicHeartbeat{Group: "g", MemberID: id, Generation: generation})
	n.take()
	return ticket
}

func TestParkedAnswersWaitForTheCommit(t *testing.T) {
	n := classicNode(t, newModelLog(), 1)
	stableClassic(n)
	follower := n.joinClassic("m3", "")
	n.take()
	n.want(follower, codeNoAnswer)
	if n.append != nil {
		t.Fatal("a join that waits was appended")
	}
	m2 := n.joinClassic("", "m2")
	leader := n.joinClassic("", "m1")
	n.take()
	for _, ticket := range []Ticket{follower, m2, leader} {
		n.want(ticket, codeNoAnswer) // the generation is in flight
	}
	n.finish()
	for _, ticket := range []Ticket{follower, m2, leader} {
		n.want(ticket, cluster.CodeNone)
	}
	if j := n.answers[leader].Join; j.Generation != 3 || len(j.Members) != 3 {
		t.Fatalf("the leader joined as %+v", j)
	}
	sync := n.syncClassic("m3", 3)
	n.take()
	n.want(sync, codeNoAnswer)
	n.syncClassic("m1", 3, group.Assignment{MemberID: "m3", Assignment: []byte("C")})
	n.take()
	n.want(sync, codeNoAnswer)
	n.finish()
	n.want(sync, cluster.CodeNone)
	if got := string(n.answers[sync].Sync.Assignment); got != "C" {
		t.Fatalf("m3 was assigned %q, want C", got)
	}
}

// Case 148: the coordinator goes away under a stable classic group. It goes on in the same generation; no member sees UNKNOWN_MEMBER.
func TestCase148_TakeOverKeepsTheClassicGeneration(t *testing.T) {
	log := newModelLog()
	one, two := classicNode(t, log, 1), classicNode(t, log, 2)
	stableClassic(one)
	two.now = time.Hour
	two.lead("g")
	for _, id := range []string{"m1", "m2"} {
		two.want(two.heartbeatClassic(id, 2), cluster.CodeNone)
	}
	commit := two.ask("g", group.Commit{Group: "g", MemberID: "m2", Epoch: 2, Offsets: []group.CommitOffset{{Partition: tp0, Offset: 7}}})
	two.finishAll()
	two.want(commit, cluster.CodeNone)
	sync := two.syncClassic("m2", 2)
	two.take()
	if got := string(two.answers[sync].Sync.Assignment); got != "B" {
		t.Fatalf("m2 is assigned %q, want B", got)
	}
}

// Case 83: the coordinator moves while members join. Who waits is told at once, and joins the group at the new one; what the old one has in
// flight is refused.
func TestCase83_CoordinatorMovesWhileClassicMembersJoin(t *testing.T) {
	log := newModelLog()
	one, two := classicNode(t, log, 1), classicNode(t, log, 2)
	stableClassic(one)
	newcomer := one.joinClassic("m3", "")
	one.take()
	one.want(newcomer, codeNoAnswer)
	two.lead("g")
	one.core.ShardsChanged(nil)
	one.take()
	one.want(newcomer, cluster.CodeNotCoordinator)

	newcomer = two.joinClassic("m3", "")
	two.joinClassic("", "m2")
	leader := two.joinClassic("", "m1")
	two.finishAll()
	two.want(newcomer, cluster.CodeNone)
	if j := two.answers[leader].Join; j.Generation != 3 || j.Leader != "m1" {
		t.Fatalf("joined as %+v, want generation 3 with leader m1", j)
	}

	// The other way round, with the generation in flight: it is not committed under the older epoch.
	two.syncClassic("m1", 3)
	two.finishAll()
	m1 := two.joinClassic("", "m1")
	m2 := two.joinClassic("", "m2")
	two.take()
	m3 := two.joinClassic("", "m3")
	two.take()
	if two.append == nil {
		t.Fatal("no generation in flight")
	}
	one.lead("g")
	two.finish()
	for _, ticket := range []Ticket{m1, m2, m3} {
		two.want(ticket, cluster.CodeNotCoordinator)
	}
	one.want(one.heartbeatClassic("m1", 3), cluster.CodeNone)
}

// Nobody knows what became of the generation: who waits is told, and the group goes on from what is in the log, whichever it is.
func TestDoubtAboutAGenerationRefusesWhoWaits(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		n := classicNode(t, newModelLog(), 1)
		stableClassic(n)
		joins := []Ticket{n.joinClassic("m3", ""), n.joinClassic("", "m2"), n.joinClassic("", "m1")}
		n.take()
		late := n.joinClassic("m4", "") // waits in the machine for a generation that nobody will know of
		a := *n.append
		if arrives {
			n.log.apply(a)
		}
		n.lose()
		for _, ticket := range joins {
			n.want(ticket, cluster.CodeTimedOut)
		}
		n.want(late, cluster.CodeCoordinatorLoading)
		n.settle()
		generation := int32(2)
		if arrives {
			generation = 3
		}
		n.want(n.heartbeatClassic("m1", generation), cluster.CodeNone)
		again := []Ticket{n.joinClassic("", "m1"), n.joinClassic("", "m2")}
		n.finishAll()
		if arrives { // nobody has an assignment: joins are answered again
			n.want(again[0], cluster.CodeNone)
			continue
		}
		n.want(again[1], cluster.CodeNone)
		if j := n.answers[again[0]].Join; j == nil || j.Generation != 3 {
			t.Fatalf("m1 joined as %+v, want generation 3", j)
		}
	}
}

func TestAnIDThatWasHandedOutIsForgottenInTime(t *testing.T) {
	n := classicNode(t, newModelLog(), 1)
	n.lead("g")
	ticket := n.ask("g", group.Join{
		Group: "g", NewMemberID: "m1", RequireMemberID: true, SessionTimeout: classicSession, ProtocolType: "consumer",
		Protocols: []group.Protocol{{Name: "range"}},
	})
	n.take()
	n.want(ticket, cluster.CodeNone)
	if n.core.Len() != 1 || n.core.Deadline() != classicSession {
		t.Fatalf("%d groups, deadline %s", n.core.Len(), n.core.Deadline())
	}
	n.core.Groups(func(g *group.Group) { t.Fatalf("group %s is listed", g.Name()) })
	n.now = classicSession
	n.core.Tick(n.env())
	if n.core.Len() != 0 || n.core.Deadline() != group.Never {
		t.Fatalf("%d groups, deadline %s", n.core.Len(), n.core.Deadline())
	}
}
