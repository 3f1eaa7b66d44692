package consumergroup

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// waiting is a JoinGroup or SyncGroup under way.
type waiting[T any] struct {
	answer chan func() // fills the fields
	reply  T
	err    error
	done   bool
}

// start runs a request beside the test and waits until it is answered or everything waits.
func start[T any](request func() (T, error)) *waiting[T] {
	w := &waiting[T]{answer: make(chan func(), 1)}
	go func() {
		reply, err := request()
		w.answer <- func() { w.reply, w.err, w.done = reply, err, true }
	}()
	return w.look()
}

// look takes the answer, if it is there when everything waits.
func (w *waiting[T]) look() *waiting[T] {
	synctest.Wait()
	select {
	case fill := <-w.answer:
		fill()
	default:
	}
	return w
}

func classicJoin(client, member string) JoinRequest {
	return JoinRequest{
		Group: "g", MemberID: member, ClientID: client, SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute,
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: []byte(client)}}, RequireMemberID: true,
	}
}

func (f *fixture) startJoin(r JoinRequest) *waiting[JoinResponse] {
	return start(func() (JoinResponse, error) { return f.c.JoinGroup(f.t.Context(), r) })
}

func (f *fixture) startSync(member string, generation int32, assign ...Assignment) *waiting[SyncResponse] {
	return start(func() (SyncResponse, error) {
		return f.c.SyncGroup(f.t.Context(), SyncRequest{Group: "g", MemberID: member, Generation: generation, Assignments: assign})
	})
}

// classicMember has a client join in two steps; the second one waits.
func (f *fixture) classicMember(client string) (string, *waiting[JoinResponse]) {
	f.t.Helper()
	first := f.startJoin(classicJoin(client, ""))
	f.want(first.err, cluster.CodeNone)
	if !first.done || !first.reply.MemberIDRequired || !strings.HasPrefix(first.reply.MemberID, client+"-member-") {
		f.t.Fatalf("the first step ended with %+v", first)
	}
	return first.reply.MemberID, f.startJoin(classicJoin(client, first.reply.MemberID))
}

func TestAClassicGroupFromJoinToDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one, join1 := f.classicMember("c1")
		two, join2 := f.classicMember("c2")
		if join1.done || join2.done {
			t.Fatal("the first generation does not wait for members that come soon")
		}
		time.Sleep(DefaultConfig().Group.InitialRebalanceDelay)
		join1.look()
		join2.look()
		f.want(join1.err, cluster.CodeNone)
		f.want(join2.err, cluster.CodeNone)
		if !join1.done || !join2.done || join1.reply.Leader != one || len(join1.reply.Members) != 2 || join2.reply.Members != nil {
			t.Fatalf("joined as %+v and %+v", join1.reply, join2.reply)
		}
		if got := string(join1.reply.Members[1].Metadata); got != "c2" {
			t.Fatalf("metadata %q", got)
		}
		sync2 := f.startSync(two, 1)
		if sync2.done {
			t.Fatal("a sync does not wait for the leader")
		}
		sync1 := f.startSync(one, 1, Assignment{MemberID: one, Assignment: []byte("A")}, Assignment{MemberID: two, Assignment: []byte("B")})
		sync2.look()
		if string(sync1.reply.Assignment) != "A" || string(sync2.reply.Assignment) != "B" {
			t.Fatalf("assigned %+v and %+v", sync1, sync2)
		}
		f.want(f.c.ClassicHeartbeat(t.Context(), ClassicHeartbeatRequest{Group: "g", MemberID: one, Generation: 1}), cluster.CodeNone)
		codes, err := f.c.Commit(t.Context(), CommitRequest{Group: "g", MemberID: two, Epoch: 1, Offsets: []CommitOffset{{Partition: tp0, Offset: 5}}})
		f.want(err, cluster.CodeNone)
		if !slices.Equal(codes, []cluster.Code{cluster.CodeNone}) || f.committed("g") != 5 {
			t.Fatal(codes)
		}
		list, err := f.c.List(t.Context())
		f.want(err, cluster.CodeNone)
		if len(list) != 1 || list[0] != (Listing{Group: "g", Type: cluster.GroupClassic, State: StateStable, Members: 2, ProtocolType: "consumer"}) {
			t.Fatalf("list %+v", list)
		}
		d, err := f.c.Describe(t.Context(), "g")
		f.want(err, cluster.CodeNone)
		if d.Epoch != 1 || d.Assignor != "range" || d.ProtocolType != "consumer" || d.Leader != one || len(d.Members) != 2 {
			t.Fatalf("described as %+v", d.Description)
		}
		f.want(f.c.Delete(t.Context(), "g"), cluster.CodeGroupNotEmpty)
		codes, err = f.c.LeaveGroup(t.Context(), LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: one}, {MemberID: "x"}, {MemberID: two}}})
		f.want(err, cluster.CodeNone)
		if !slices.Equal(codes, []cluster.Code{cluster.CodeNone, cluster.CodeUnknownMember, cluster.CodeNone}) {
			t.Fatalf("left with %v", codes)
		}
		f.want(f.c.Delete(t.Context(), "g"), cluster.CodeNone)
	})
}

func TestASilentClassicMemberIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one, _ := f.classicMember("c1")
		two, _ := f.classicMember("c2")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		f.startSync(one, 1)
		time.Sleep(9 * time.Second)
		f.want(f.c.ClassicHeartbeat(t.Context(), ClassicHeartbeatRequest{Group: "g", MemberID: one, Generation: 1}), cluster.CodeNone)
		time.Sleep(time.Second)
		synctest.Wait()
		f.want(f.c.ClassicHeartbeat(t.Context(), ClassicHeartbeatRequest{Group: "g", MemberID: two, Generation: 1}), cluster.CodeUnknownMember)
		f.want(f.c.ClassicHeartbeat(t.Context(), ClassicHeartbeatRequest{Group: "g", MemberID: one, Generation: 1}), cluster.CodeRebalanceInProgress)
		if n := f.counted("moldau_group_members_removed_total"); n != 1 {
			t.Fatalf("%v members counted as removed, want 1", n)
		}
	})
}

// Classic clients do not know an unknown outcome of a join: they are sent to look for the coordinator.
func TestALostAnswerSendsClassicMembersLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one, _ := f.classicMember("c1")
		f.log.set(func() { f.log.loseAnswers = true })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		_, err := f.c.LeaveGroup(t.Context(), LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: one}}})
		f.want(err, cluster.CodeCoordinatorLoading) // it was queued behind the append in doubt
		f.log.set(func() { f.log.loseAnswers = false })
		synctest.Wait()
		sync := f.startSync(one, 1, Assignment{MemberID: one, Assignment: []byte("A")}) // the generation is in the log
		f.want(sync.err, cluster.CodeNone)
		f.log.set(func() { f.log.loseAppends = true })
		_, err = f.c.LeaveGroup(t.Context(), LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: one}}})
		f.want(err, cluster.CodeNoCoordinator)
	})
}

func TestWaitingClassicMembersAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		_, gone := f.classicMember("c1")
		f.c.ShardsChanged(nil)
		if !gone.look().done {
			t.Fatal("a join waits for a shard that was lost")
		}
		f.want(gone.err, cluster.CodeNotCoordinator)
		f.lead()

		ctx, cancel := context.WithCancel(t.Context())
		abandoned := start(func() (JoinResponse, error) {
			r := classicJoin("c2", "")
			r.RequireMemberID = false
			return f.c.JoinGroup(ctx, r)
		})
		cancel()
		f.want(abandoned.look().err, cluster.CodeNoCoordinator)
		_, closed := f.classicMember("c3")
		f.c.Close()
		f.want(closed.look().err, cluster.CodeShuttingDown)
	})
}

// The bytes of a request belong to the connection, which reuses them.
func TestClassicRequestsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		r := classicJoin("c1", "")
		r.RequireMemberID = false
		join := f.startJoin(r)
		copy(r.Protocols[0].Metadata, "xx")
		time.Sleep(3 * time.Second)
		join.look()
		if got := string(join.reply.Members[0].Metadata); got != "c1" {
			t.Fatalf("metadata %q, want c1", got)
		}
		buffer := []byte("A")
		f.startSync(join.reply.MemberID, 1, Assignment{MemberID: join.reply.MemberID, Assignment: buffer})
		buffer[0] = 'x'
		if sync := f.startSync(join.reply.MemberID, 1); string(sync.reply.Assignment) != "A" {
			t.Fatalf("assignment %q, want A", sync.reply.Assignment)
		}
	})
}

func TestNewClassicIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		for n, want := range []string{"i-member-1", "c-member-2", strings.Repeat("c", maxIDPrefix) + "-member-3"} {
			r := []JoinRequest{{ClientID: "c", InstanceID: "i"}, {ClientID: "c"}, {ClientID: strings.Repeat("c", 200)}}[n]
			if got := f.c.newClassicID(r); got != want {
				t.Errorf("id %q, want %q", got, want)
			}
		}
	})
}
