package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// classicInput reads one input for a classic group, sensible or not.
func (t *tape) classicInput(g *Group) Input {
	member := fmt.Sprint("m", t.next(5))
	if n := len(g.classic.roster); n > 0 && t.next(2) == 0 {
		member = g.classic.roster[t.next(n)].m.ID
	}
	generation := g.state.Epoch + []int32{0, 0, 0, -1, 1}[t.next(5)]
	instance := []string{"", "", "i1", "i2"}[t.next(4)]
	if p := g.classic.member(member); p != nil && t.next(4) > 0 {
		instance = p.m.InstanceID
	}
	switch t.next(8) {
	case 0, 1, 2:
		j := Join{
			Group: "g", MemberID: member, InstanceID: instance, NewMemberID: fmt.Sprint("m", t.next(8)),
			SessionTimeout:   []time.Duration{5 * time.Second, 20 * time.Second, 0}[t.next(3)],
			RebalanceTimeout: []time.Duration{0, 10 * time.Second}[t.next(2)],
			ProtocolType:     []string{"consumer", "consumer", "connect"}[t.next(3)],
			Protocols:        [][]Protocol{{{"range", metadataOf("a")}}, {{"rr", nil}, {"range", []byte{0, 1, 0, 0, 0, 9}}}, {{"rr", nil}}}[t.next(3)],
			RequireMemberID:  t.next(2) == 0, CanSkipAssignment: t.next(2) == 0,
		}
		if t.next(2) == 0 {
			j.MemberID = ""
		}
		return j
	case 3:
		return Sync{Group: "g", MemberID: member, InstanceID: instance, Generation: generation, Assignments: []Assignment{{member, []byte(member)}}}
	case 4:
		return ClassicHeartbeat{Group: "g", MemberID: member, InstanceID: instance, Generation: generation}
	case 5:
		return Commit{Group: "g", MemberID: member, InstanceID: instance, Epoch: generation, Offsets: t.offsets()}
	case 6:
		return Leave{Group: "g", Members: []LeavingMember{{MemberID: member, InstanceID: instance}, {InstanceID: instance}}}
	}
	return t.input(g)
}

// FuzzClassicInputs: no input, classic or native, breaks an invariant; a refusal records nothing; every request is answered once; the records
// alone rebuild the group.
func FuzzClassicInputs(f *testing.F) {
	f.Add([]byte("join m1, join m2, rebalance, sync, leave"))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 6, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &classicRig{rig: newRig(t)}
		r.topics = fakeTopics{"a": 3, "b": 4}
		waiting := map[uint64]bool{}
		step := func(input Input) {
			env := r.env()
			env.Waiter = uint64(len(r.asked)) + 1
			r.asked = append(r.asked, "")
			waiting[env.Waiter] = true
			out := r.stepIn(env, input)
			if !out.Parked {
				out.Completed = append(out.Completed, Completion{env.Waiter, out.Reply})
				if out.Reply.Code != cluster.CodeNone && len(out.Records) > 0 {
					t.Fatalf("refused with %s and recorded %v", out.Reply.Code, out.Records)
				}
			}
			for _, done := range out.Completed {
				if !waiting[done.Waiter] {
					t.Fatalf("request %d is answered, and was answered before", done.Waiter)
				}
				delete(waiting, done.Waiter)
			}
			checkInvariants(t, r.group)
			checkClassic(t, r.group)
			r.out.Reset()
		}
		const longest = 600 // longer ones only make each run slower
		for in := tape(data[:min(len(data), longest)]); len(in) > 0; {
			r.group.config.InitialRebalanceDelay = time.Duration(in.next(2)) * time.Second
			r.now += time.Duration(in.next(4)) * time.Second
			step(in.classicInput(r.group))
			if step(Tick{}); r.group.Deadline() <= r.now {
				t.Fatalf("after a look at the time, which is %s, the group wants another at %s", r.now, r.group.Deadline())
			}
		}
		for _, w := range r.group.Abandon() {
			delete(waiting, w)
		}
		if len(waiting) > 0 {
			t.Fatalf("%d requests are never answered", len(waiting))
		}
		before := r.group.state
		r.takeOver()
		checkClassic(t, r.group)
		if after := r.group.state; before.Type == cluster.GroupClassic && (after.Epoch != before.Epoch || len(after.Members) != len(before.Members)) {
			t.Fatalf("the records do not rebuild the group: generation %d, %d members became %d, %d",
				before.Epoch, len(before.Members), after.Epoch, len(after.Members))
		}
	})
}
