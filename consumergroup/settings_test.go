package consumergroup

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// configure changes the settings of a running coordinator.
func (f *fixture) configure(change func(*Settings)) {
	s := DefaultConfig().Settings()
	change(&s)
	f.c.Configure(s)
	synctest.Wait()
}

func TestSettingsCountWhileGroupsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.configure(func(s *Settings) { s.InitialRebalanceDelay = 0 })
		one, join := f.classicMember("c1")
		if !join.done {
			t.Fatal("the first generation waits, without a delay")
		}
		f.configure(func(s *Settings) {
			s.InitialRebalanceDelay, s.MinSession, s.MaxSession, s.MaxMembers, s.MaxOffsetMetadata = 0, 6*time.Second, 20*time.Second, 1, 3
		})
		for timeout, want := range map[time.Duration]cluster.Code{
			5999 * time.Millisecond: cluster.CodeInvalidSessionTimeout, 20_001 * time.Millisecond: cluster.CodeInvalidSessionTimeout, 20 * time.Second: cluster.CodeGroupFull,
		} {
			r := classicJoin("c2", "")
			r.SessionTimeout, r.RequireMemberID = timeout, false
			f.want(f.startJoin(r).err, want)
		}
		for metadata, want := range map[string]cluster.Code{"abc": cluster.CodeNone, "abcd": cluster.CodeOffsetMetadataTooLarge} {
			f.startSync(one, 1, Assignment{MemberID: one, Assignment: []byte("A")})
			codes, err := f.c.Commit(t.Context(), CommitRequest{Group: "g", MemberID: one, Epoch: 1, Offsets: []CommitOffset{{Partition: tp0, Offset: 5, Metadata: metadata}}})
			f.want(err, cluster.CodeNone)
			if codes[0] != want {
				t.Errorf("metadata %q: %v, want %v", metadata, codes[0], want)
			}
		}
	})
}

// Case 85, through a classic group: a group that reads an idle topic keeps its offsets for as long as it has members; retention counts from when it became empty,
// and the log tells. Retention is lowered while the group lives.
func TestCase85_OffsetsOfAnActiveGroupStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.configure(func(s *Settings) { s.InitialRebalanceDelay, s.OffsetsRetention = 0, 2*time.Hour })
		r := classicJoin("c1", "")
		r.SessionTimeout, r.RequireMemberID = 30*time.Minute, false
		join := f.startJoin(r)
		f.want(join.err, cluster.CodeNone)
		member := join.reply.MemberID
		f.startSync(member, 1, Assignment{MemberID: member, Assignment: []byte("A")})
		_, err := f.c.Commit(t.Context(), CommitRequest{Group: "g", MemberID: member, Epoch: 1, Offsets: []CommitOffset{{Partition: tp0, Offset: 5}}})
		f.want(err, cluster.CodeNone)
		for range 30 { // ten hours without a record or a commit
			time.Sleep(20 * time.Minute)
			f.want(f.c.ClassicHeartbeat(t.Context(), ClassicHeartbeatRequest{Group: "g", MemberID: member, Generation: 1}), cluster.CodeNone)
		}
		if got := f.committed("g"); got != 5 {
			t.Fatalf("the offset of an active group is %d, want 5", got)
		}
		_, err = f.c.LeaveGroup(t.Context(), LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: member}}})
		f.want(err, cluster.CodeNone)
		time.Sleep(2*time.Hour - time.Minute)
		if got := f.committed("g"); got != 5 {
			t.Fatalf("the offset is %d before the end of its retention", got)
		}
		time.Sleep(time.Minute + DefaultConfig().ExpireInterval)
		got := f.committed("g")
		synctest.Wait() // the log is written after the answer
		if got != -1 || !strings.Contains(f.out.String(), "msg=\"group offsets expired\" group=g offsets=1 group_deleted=true retention=2h0m0s") {
			t.Fatalf("the offset is %d after it, and the log says\n%s", got, f.out)
		}
	})
}
