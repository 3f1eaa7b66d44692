package sim

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// groupKinds are the ways in which members keep their place.
var groupKinds = []struct {
	name                 string
	classic, cooperative bool
}{{"native", false, false}, {"eager", true, false}, {"cooperative", true, true}}

// checkGroups plays a scenario with one group of three members, the first of them static, in a cluster without faults; the group has come to rest when
// it begins, and has to come to rest after it.
func checkGroups(t *testing.T, session time.Duration, scenario func(*testing.T, *World, *simGroup)) {
	t.Helper()
	for _, kind := range groupKinds {
		for seed := range uint64(3) {
			t.Run(kind.name, func(t *testing.T) {
				w := newWorld(Options{Seed: seed, Trace: true, Without: Names()})
				sg := &simGroup{w: w, name: "readers", classic: kind.classic, cooperative: kind.cooperative, requireID: seed%2 == 0,
					session: session, rebalance: 2 * time.Second, every: time.Hour}
				w.groups.list, w.groups.retention = nil, time.Hour
				w.setUp()
				w.groups.list = []*simGroup{sg}
				w.groups.observe(sg)
				for i := range 3 {
					instance := ""
					if i == 0 {
						instance = "static"
					}
					sg.newMember(instance).start()
				}
				w.runUntil(w.now+2*time.Second, w.check.failed)
				w.load.stopping = true
				rest := func(when string) {
					w.runUntil(w.now+20*time.Second, w.settled)
					if w.check.failed() || !w.settled() {
						t.Fatalf("seed %d %s: %s%s", seed, when, w.check.violation, w.unsettled())
					}
				}
				rest("before")
				scenario(t, w, sg)
				w.groups.looked = ""
				rest("after")
			})
		}
	}
}

func (sg *simGroup) epoch() int32 {
	at, _ := sg.w.meta.state.Groups().Group(sg.name)
	return at.Epoch
}

func (sg *simGroup) coordinator() *broker {
	return sg.w.brokers[sg.w.meta.state.Image().Shard(cluster.ShardOf(sg.name)).Leader]
}

// TestCase148_StableGroupOutlivesItsCoordinator kills the coordinator of a group at rest: another one goes on in the same generation, and no member
// hears that it is unknown. The session is longer than it takes to notice that a broker is gone, and that a connection is.
func TestCase148_StableGroupOutlivesItsCoordinator(t *testing.T) {
	checkGroups(t, 6*time.Second, func(t *testing.T, w *World, sg *simGroup) {
		epoch, before, b := sg.epoch(), w.cov, sg.coordinator()
		b.crash()
		w.runUntil(w.now+2*sg.session, w.check.failed)
		if w.cov.Takeovers == before.Takeovers || sg.coordinator() == b {
			t.Error("nobody took over")
		}
		if sg.epoch() != epoch || w.cov.MembersFenced != before.MembersFenced || w.cov.SessionsEnded != before.SessionsEnded {
			t.Errorf("epoch %d became %d; fenced members %d, ended sessions %d", epoch, sg.epoch(), w.cov.MembersFenced-before.MembersFenced,
				w.cov.SessionsEnded-before.SessionsEnded)
		}
		b.start()
	})
}

// TestCase84_CommittedOffsetsOutliveEverything cuts the power of all brokers and moves the controller: what was acknowledged as committed is what the
// next one to ask is told.
func TestCase84_CommittedOffsetsOutliveEverything(t *testing.T) {
	checkGroups(t, minSessionTime, func(t *testing.T, w *World, sg *simGroup) {
		floors := w.groups.check.floors(sg.name)
		read := w.cov.OffsetReads
		w.moveController()
		w.powerCutOfAll()
		w.runUntil(w.now+8*time.Second, w.check.failed)
		if w.cov.OffsetReads == read || len(floors) == 0 {
			t.Errorf("%d reads of %d committed offsets", w.cov.OffsetReads-read, len(floors))
		}
	})
}

// TestCase82_MemberStoppedPastItsSession stops a dynamic member for longer than its session: it is fenced, and joins again.
func TestCase82_MemberStoppedPastItsSession(t *testing.T) {
	checkGroups(t, minSessionTime, func(t *testing.T, w *World, sg *simGroup) {
		epoch, before := sg.epoch(), w.cov
		sg.members[1].paused = w.now + 2*sg.session
		w.runUntil(w.now+5*sg.session, w.check.failed)
		if w.cov.MembersFenced == before.MembersFenced || sg.epoch() <= epoch {
			t.Errorf("%d members were fenced, epoch %d became %d", w.cov.MembersFenced-before.MembersFenced, epoch, sg.epoch())
		}
	})
}

// TestCase91_TheOlderOfTwoIsFenced starts a second member with the instance id of another: the older one ends.
func TestCase91_TheOlderOfTwoIsFenced(t *testing.T) {
	checkGroups(t, minSessionTime, func(t *testing.T, w *World, sg *simGroup) {
		older, before := sg.members[0], w.cov
		sg.newMember(older.instance).start()
		w.runUntil(w.now+5*sg.session, w.check.failed)
		if older.up || !older.fencedForGood || w.cov.InstancesFenced != before.InstancesFenced+1 {
			t.Errorf("the older member goes on: up %t, instances fenced %d", older.up, w.cov.InstancesFenced-before.InstancesFenced)
		}
	})
}

// TestCase90_DeletedWithTheirTopicAndNotWithMembers asks for the deletion of a group with members, and then deletes the topic that it reads: the group
// stays, and its offsets go in the step in which the topic does, as the checker of the log sees to.
func TestCase90_DeletedWithTheirTopicAndNotWithMembers(t *testing.T) {
	checkGroups(t, minSessionTime, func(t *testing.T, w *World, sg *simGroup) {
		admin := newGroupClient(sg)
		admin.up, admin.coordinator = true, sg.coordinator()
		code := cluster.CodeNone
		admin.ask(group.Delete{Group: sg.name}, groupTimeout, func(a groupAnswer) { code = a.Code })
		w.runUntil(w.now+time.Second, w.check.failed)
		if code != cluster.CodeGroupNotEmpty {
			t.Errorf("the deletion of a group with members is answered %s", code)
		}
		topic, _ := w.meta.state.Image().TopicByName(groupTopic)
		w.meta.propose(cluster.DeleteTopic{ID: topic.ID}, nil)
		w.runUntil(w.now+3*time.Second, w.check.failed)
		for tp := range w.meta.state.Groups().Offsets(sg.name) {
			t.Errorf("an offset is left of %v", tp)
		}
		for _, m := range sg.members {
			if !m.up {
				t.Errorf("member %s has gone with the topic", m.id)
			}
		}
	})
}
