package consumergroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
)

var tp0 = cluster.TopicPartition{Topic: cluster.TopicID{1}}

func partition(n int32) cluster.TopicPartition {
	return cluster.TopicPartition{Topic: tp0.Topic, Partition: n}
}

// oneTopic is a cluster with the topic "t".
type oneTopic struct{ partitions int32 }

func (o oneTopic) Topic(id cluster.TopicID) (*cluster.Topic, bool) {
	return &cluster.Topic{ID: tp0.Topic, Name: "t", Partitions: o.partitions}, id == tp0.Topic && o.partitions > 0
}

func (o oneTopic) TopicByName(name string) (*cluster.Topic, bool) {
	return &cluster.Topic{ID: tp0.Topic, Name: "t", Partitions: o.partitions}, name == "t" && o.partitions > 0
}

// fakeLog is a metadata log in memory: one shard epoch, sequences checked, faults on demand.
type fakeLog struct {
	mu      sync.Mutex
	index   uint64
	next    [cluster.ShardCount]int64
	records [cluster.ShardCount][]cluster.GroupRecord
	appends int
	// loseAnswers makes Append commit and then not answer; loseAppends makes it not even commit.
	loseAnswers, loseAppends bool
	loads                    int
	delay                    time.Duration
}

func (f *fakeLog) Append(ctx context.Context, a cluster.GroupAppend) (cluster.Result, error) {
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	f.mu.Lock()
	f.appends++
	result := cluster.Result{}
	lose := f.loseAnswers
	if f.loseAppends {
		lose = true
	} else {
		result = f.apply(a)
	}
	f.mu.Unlock()
	if lose {
		<-ctx.Done()
		return cluster.Result{}, ctx.Err()
	}
	return result, nil
}

func (f *fakeLog) apply(a cluster.GroupAppend) cluster.Result {
	f.index++
	result := cluster.Result{Index: f.index}
	for _, b := range a.Batches {
		item := cluster.ItemResult{}
		if b.ShardEpoch != 1 || b.Sequence != f.next[b.Shard] {
			item.Code = cluster.CodeStaleShardEpoch
		} else {
			f.next[b.Shard]++
			f.records[b.Shard] = append(f.records[b.Shard], b.Records...)
		}
		result.Items = append(result.Items, item)
	}
	return result
}

func (f *fakeLog) Load(_ context.Context, shard cluster.ShardID, minIndex uint64) (ShardContent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	if f.index < minIndex {
		return ShardContent{}, errors.New("behind")
	}
	return ShardContent{Epoch: 1, NextSequence: f.next[shard], Records: slices.Values(slices.Clone(f.records[shard]))}, nil
}

func (f *fakeLog) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fixture is a coordinator that leads every shard of a fake log.
type fixture struct {
	t          *testing.T
	c          *Coordinator
	log        *fakeLog
	leaseGone  atomic.Bool
	partitions atomic.Int32
	looks      atomic.Int64 // at the topics: the loop does that whenever it does anything
	members    atomic.Int64
	lag        *fakeLag
	meter      *meter.Set
	out        *bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, log: &fakeLog{}, lag: &fakeLag{}, meter: meter.NewSet(), out: &bytes.Buffer{}}
	f.partitions.Store(4)
	config := DefaultConfig()
	config.Broker = 3
	c, err := Open(config, Ports{
		Log: f.log,
		Topics: func() Topics {
			f.looks.Add(1)
			return oneTopic{f.partitions.Load()}
		},
		LeaseValid:  func() bool { return !f.leaseGone.Load() },
		NewMemberID: func() string { return fmt.Sprintf("member-%d", f.members.Add(1)) },
		Lag:         f.lag,
		Meter:       f.meter,
		Logger:      slog.New(slog.NewTextHandler(f.out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.c = c
	f.lead()
	return f
}

func (f *fixture) lead() {
	var led []ShardLead
	for id := range cluster.ShardID(cluster.ShardCount) {
		led = append(led, ShardLead{Shard: id, Epoch: 1})
	}
	f.c.ShardsChanged(led)
	synctest.Wait()
}

func (f *fixture) join(member string) HeartbeatResponse {
	f.t.Helper()
	r, err := f.c.Heartbeat(f.t.Context(), HeartbeatRequest{Group: "g", MemberID: member, Topics: []string{"t"}})
	f.want(err, cluster.CodeNone)
	return r
}

func (f *fixture) heartbeat(m HeartbeatResponse, owned ...cluster.TopicPartition) HeartbeatResponse {
	f.t.Helper()
	r, err := f.c.Heartbeat(f.t.Context(), HeartbeatRequest{Group: "g", MemberID: m.MemberID, Epoch: m.Epoch, Owned: owned, Seen: m.Version})
	f.want(err, cluster.CodeNone)
	return r
}

func (f *fixture) commit(group string, offset int64) error {
	codes, err := f.c.Commit(f.t.Context(), CommitRequest{Group: group, Epoch: NoMemberEpoch, Offsets: []CommitOffset{{Partition: tp0, Offset: offset}}})
	if err == nil && (len(codes) != 1 || codes[0] != cluster.CodeNone) {
		f.t.Errorf("codes %v", codes)
	}
	return err
}

func (f *fixture) committed(group string) int64 {
	f.t.Helper()
	offsets, err := f.c.FetchOffsets(f.t.Context(), FetchOffsetsRequest{Group: group, Epoch: NoMemberEpoch, Partitions: []cluster.TopicPartition{tp0}})
	f.want(err, cluster.CodeNone)
	if !offsets[0].Found {
		return -1
	}
	return int64(offsets[0].Committed.Offset)
}

func (f *fixture) want(err error, code cluster.Code) {
	f.t.Helper()
	var refusal *cluster.Error
	switch {
	case code == cluster.CodeNone && err != nil:
		f.t.Fatal(err)
	case code != cluster.CodeNone && (!errors.As(err, &refusal) || refusal.Code != code):
		f.t.Fatalf("got %v, want %s", err, code)
	}
}

// counted is a counter's value, over all its labels.
func (f *fixture) counted(name string) (sum float64) {
	for _, family := range f.meter.Snapshot() {
		for _, sample := range family.Samples {
			if family.Name == name {
				sum += sample.Value
			}
		}
	}
	return sum
}

// TestManyRemovedMembersWriteFewLines: members cost a client little, and those that it lets go by the hundred are counted, not all told.
func TestManyRemovedMembersWriteFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		const members = 3 * loggedLines
		for i := range members {
			f.join(fmt.Sprint("m", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := f.counted("moldau_group_members_removed_total"); n != members {
			t.Fatalf("%v members counted as removed, want %d", n, members)
		}
		if n := strings.Count(f.out.String(), "group member removed"); n != loggedLines {
			t.Errorf("%d removed members wrote %d lines, want %d", members, n, loggedLines)
		}
	})
}

func woken(wake <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestAGroupFromJoinToDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one := f.join("")
		if one.MemberID != "member-1" || one.Epoch != 1 || len(one.Assigned) != 4 {
			t.Fatalf("joined as %+v", one)
		}
		wake1, stop1 := f.c.Watch("g", one.MemberID)
		defer stop1()
		two := f.join("m2")
		wake2, stop2 := f.c.Watch("g", two.MemberID)
		defer stop2()
		if !woken(wake1) || woken(wake2) {
			t.Fatal("a join wakes the others, and only them")
		}
		one = f.heartbeat(one)
		if woken(wake2) {
			t.Fatal("woken before anything is free")
		}
		one = f.heartbeat(one, partition(0), partition(1))
		if one.Epoch != 2 || !woken(wake2) {
			t.Fatalf("epoch %d after the release, want 2, and m2 woken", one.Epoch)
		}
		if two = f.heartbeat(two); len(two.Assigned) != 2 {
			t.Fatalf("m2 got %v", two.Assigned)
		}
		codes, err := f.c.Commit(t.Context(), CommitRequest{Group: "g", MemberID: "m2", Epoch: 2, Offsets: []CommitOffset{{Partition: partition(2), Offset: 9}}})
		f.want(err, cluster.CodeNone)
		if codes[0] != cluster.CodeNone {
			t.Fatal(codes)
		}
		d, err := f.c.Describe(t.Context(), "g")
		f.want(err, cluster.CodeNone)
		if d.Coordinator != 3 || d.State.String() != "stable" || len(d.Members) != 2 || len(d.Offsets) != 1 {
			t.Fatalf("described as %+v", d)
		}
		f.want(f.c.Delete(t.Context(), "g"), cluster.CodeGroupNotEmpty)
		for _, m := range []string{one.MemberID, two.MemberID} {
			_, err := f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: m, Epoch: EpochLeave})
			f.want(err, cluster.CodeNone)
		}
		codes, err = f.c.ResetOffsets(t.Context(), ResetRequest{Group: "g", Offsets: []CommitOffset{{Partition: tp0, Offset: 1}}})
		f.want(err, cluster.CodeNone)
		codes2, err := f.c.DeleteOffsets(t.Context(), DeleteOffsetsRequest{Group: "g", Partitions: []cluster.TopicPartition{partition(2)}})
		f.want(err, cluster.CodeNone)
		if len(codes) != 1 || len(codes2) != 1 || f.committed("g") != 1 {
			t.Fatal("reset and deletion of offsets did not work")
		}
		list, err := f.c.List(t.Context())
		f.want(err, cluster.CodeNone)
		if len(list) != 1 || list[0].Group != "g" || list[0].Type != cluster.GroupNative {
			t.Fatalf("list %+v", list)
		}
		f.want(f.c.Delete(t.Context(), "g"), cluster.CodeNone)
		_, err = f.c.Describe(t.Context(), "g")
		f.want(err, cluster.CodeUnknownGroup)
	})
}

func TestSilentMemberIsFencedAndOthersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one, two := f.join("m1"), f.join("m2")
		one = f.heartbeat(one)
		one = f.heartbeat(one, partition(0), partition(1))
		wake1, stop := f.c.Watch("g", "m1")
		defer stop()
		wake2, stop := f.c.Watch("g", "m2")
		defer stop()
		time.Sleep(44 * time.Second)
		two = f.heartbeat(two)
		woken(wake1)
		woken(wake2)
		time.Sleep(time.Second)
		if !woken(wake1) || !woken(wake2) {
			t.Fatal("the end of a session wakes the member that goes and those that stay")
		}
		_, err := f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: "m1", Epoch: one.Epoch, Poll: true})
		f.want(err, cluster.CodeUnknownMember)
		if two = f.heartbeat(two); len(two.Assigned) != 4 {
			t.Fatalf("m2 has %v, want all", two.Assigned)
		}
		if !strings.Contains(f.out.String(), "reason=\"session timeout\"") {
			t.Fatalf("the log does not tell:\n%s", f.out)
		}
		if n := f.counted("moldau_group_members_removed_total"); n != 1 {
			t.Fatalf("%v members counted as removed, want 1", n)
		}
	})
}

// Case 84, seen from the coordinator: the commit is in the log, its answer is lost. The client learns that the outcome is unknown, and the offset
// is there.
func TestCase84_CommitWithLostAnswerIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.want(f.commit("g", 5), cluster.CodeNone)
		f.log.set(func() { f.log.loseAnswers = true })
		f.want(f.commit("g", 6), cluster.CodeTimedOut)
		f.log.set(func() { f.log.loseAnswers = false })
		synctest.Wait()
		if got := f.committed("g"); got != 6 {
			t.Fatalf("committed offset %d, want 6", got)
		}
		f.want(f.commit("g", 7), cluster.CodeNone)

		f.log.set(func() { f.log.loseAppends = true })
		unknown := make(chan error)
		go func() { unknown <- f.commit("g", 8) }()
		synctest.Wait()
		f.log.set(func() { f.log.loseAppends = false }) // the next append, which settles whether this one is in the log, gets through
		f.want(<-unknown, cluster.CodeTimedOut)
		synctest.Wait()
		if got := f.committed("g"); got != 7 {
			t.Fatalf("committed offset %d, want 7", got)
		}
	})
}

func TestCommitsThatComeTogetherTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.log.delay = 10 * time.Millisecond
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() { f.want(f.commit(fmt.Sprintf("g%d", i%50), int64(i)), cluster.CodeNone) })
		}
		wg.Wait()
		if f.log.appends > 3 || time.Since(start) > 30*time.Millisecond {
			t.Fatalf("500 commits took %d appends and %s", f.log.appends, time.Since(start))
		}
		if n := f.counted("moldau_group_records_total"); n != 500 {
			t.Fatalf("%v records counted, want 500", n)
		}
	})
}

func TestLeaseGapFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one := f.join("m1")
		time.Sleep(40 * time.Second)
		f.leaseGone.Store(true)
		f.want(f.commit("other", 1), cluster.CodeNoCoordinator)
		_, err := f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: "m1", Epoch: one.Epoch})
		f.want(err, cluster.CodeNoCoordinator)
		time.Sleep(time.Hour)
		f.leaseGone.Store(false)
		time.Sleep(40 * time.Second)
		f.heartbeat(one)
		time.Sleep(46 * time.Second)
		_, err = f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: "m1", Epoch: one.Epoch})
		f.want(err, cluster.CodeUnknownMember)
	})
}

func TestIdleCoordinatorSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		before := f.looks.Load()
		time.Sleep(30 * 24 * time.Hour)
		if n := f.looks.Load() - before; n != 0 {
			t.Fatalf("a coordinator without groups woke %d times in a month", n)
		}
		f.join("m1")
		_, err := f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: "m1", Epoch: EpochLeave})
		f.want(err, cluster.CodeNone)
		f.want(f.c.Delete(t.Context(), "g"), cluster.CodeNone)
		time.Sleep(time.Hour) // at most one deadline is left over
		before = f.looks.Load()
		time.Sleep(30 * 24 * time.Hour)
		if n := f.looks.Load() - before; n != 0 {
			t.Fatalf("a coordinator whose last group went woke %d times in a month", n)
		}
	})
}

func TestOffsetsExpireAfterTheGroupIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.want(f.commit("g", 5), cluster.CodeNone)
		time.Sleep(7*24*time.Hour - time.Minute)
		if got := f.committed("g"); got != 5 {
			t.Fatalf("committed offset %d, want 5", got)
		}
		time.Sleep(12 * time.Minute)
		if got := f.committed("g"); got != -1 {
			t.Fatalf("committed offset %d, want none", got)
		}
		if !strings.Contains(f.out.String(), "msg=\"group offsets expired\" group=g") {
			t.Fatalf("the log does not tell:\n%s", f.out)
		}
	})
}

// Case 57: partitions that are added are given to members, who are woken for it; a deleted topic takes its offsets along.
func TestCase57_NewPartitionsAreAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.want(f.commit("other", 5), cluster.CodeNone)
		one := f.join("m1")
		wake, stop := f.c.Watch("g", "m1")
		defer stop()
		f.partitions.Store(6)
		f.c.TopicsChanged()
		if !woken(wake) {
			t.Fatal("not woken")
		}
		if one = f.heartbeat(one); len(one.Assigned) != 6 {
			t.Fatalf("m1 has %v, want 6 partitions", one.Assigned)
		}
		f.partitions.Store(0)
		f.c.TopicsChanged()
		if !woken(wake) || f.committed("other") != -1 {
			t.Fatal("the deleted topic is still there")
		}
	})
}

func TestLosingTheShardWakesWatchersAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		one := f.join("m1")
		wake, stop := f.c.Watch("g", "m1")
		defer stop()
		f.c.ShardsChanged(nil)
		if !woken(wake) {
			t.Fatal("not woken")
		}
		_, err := f.c.Heartbeat(t.Context(), HeartbeatRequest{Group: "g", MemberID: "m1", Epoch: one.Epoch, Poll: true})
		f.want(err, cluster.CodeNotCoordinator)
	})
}

func TestCloseRefusesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.log.set(func() { f.log.loseAnswers = true })
		done := make(chan error, 1)
		go func() { done <- f.commit("g", 1) }()
		synctest.Wait()
		f.c.Close()
		f.want(<-done, cluster.CodeShuttingDown)
		f.want(f.commit("g", 1), cluster.CodeShuttingDown)
	})
}

func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.log.set(func() { f.log.loseAnswers = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.c.Commit(ctx, CommitRequest{Group: "g", Epoch: NoMemberEpoch, Offsets: []CommitOffset{{Partition: tp0, Offset: 1}}})
		f.want(err, cluster.CodeTimedOut)
	})
}

// fakeLag answers with fixed watermarks and counts the questions.
type fakeLag struct {
	mu         sync.Mutex
	watermarks map[cluster.TopicPartition]int64
	asked      [][]cluster.TopicPartition
	fail       bool
}

func (f *fakeLag) HighWatermarks(_ context.Context, partitions []cluster.TopicPartition) (map[cluster.TopicPartition]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, partitions)
	if f.fail {
		return nil, errors.New("no leader answers")
	}
	return f.watermarks, nil
}

func TestLagIsAskedInOneRequestEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.c.Close()
		f.lag.watermarks = map[cluster.TopicPartition]int64{tp0: 100}
		f.want(f.commit("a", 40), cluster.CodeNone)
		f.want(f.commit("b", 120), cluster.CodeNone) // ahead of a watermark that is a little old
		_, err := f.c.Commit(t.Context(), CommitRequest{Group: "b", Epoch: NoMemberEpoch, Offsets: []CommitOffset{{Partition: partition(2), Offset: 1}}})
		f.want(err, cluster.CodeNone)

		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				d, err := f.c.Describe(t.Context(), "a")
				f.want(err, cluster.CodeNone)
				if d.Lag[tp0] != 60 {
					t.Errorf("lag %v, want 60", d.Lag)
				}
			})
		}
		wg.Wait()
		lags, err := f.c.Lags(t.Context())
		f.want(err, cluster.CodeNone)
		if _, known := lags[1].Lag[partition(2)]; len(lags) != 2 || lags[1].Group != "b" || lags[1].Lag[tp0] != 0 || known {
			t.Fatalf("lags %+v: want 0 where the commit is ahead, nothing where the leader did not answer", lags)
		}
		if len(f.lag.asked) != 1 || len(f.lag.asked[0]) != 2 {
			t.Fatalf("asked %v, want once for two partitions", f.lag.asked)
		}
		time.Sleep(5 * time.Second)
		f.lag.fail = true
		if lags, err = f.c.Lags(t.Context()); err != nil || len(lags[0].Lag) != 0 || len(f.lag.asked) != 2 {
			t.Fatalf("lags %+v, error %v, asked %d times; want none, nil, 2", lags, err, len(f.lag.asked))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"append timeout": func(c *Config) { c.AppendTimeout = 0 },
		"inbox":          func(c *Config) { c.Inbox = 0 },
		"session":        func(c *Config) { c.Group.MinSession = time.Hour },
		"rebalance":      func(c *Config) { c.Group.MinRebalance = 0 },
		"heartbeat":      func(c *Config) { c.Group.HeartbeatInterval = 0 },
		"members":        func(c *Config) { c.Group.MaxMembers = 0 },
		"batch":          func(c *Config) { c.Batch.MaxPendingBytes = 1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Open(DefaultConfig(), Ports{}); err == nil {
		t.Error("opened without ports")
	}
}

func BenchmarkCommit(b *testing.B) {
	log := &fakeLog{delay: time.Millisecond}
	c, err := Open(DefaultConfig(), Ports{
		Log:         log,
		Topics:      func() Topics { return oneTopic{4} },
		LeaseValid:  func() bool { return true },
		NewMemberID: func() string { return "m" },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var led []ShardLead
	for id := range cluster.ShardID(cluster.ShardCount) {
		led = append(led, ShardLead{Shard: id, Epoch: 1})
	}
	c.ShardsChanged(led)
	for list := 0; list < cluster.ShardCount; {
		log.set(func() { list = log.loads })
	}
	b.SetParallelism(500)
	b.ReportAllocs()
	b.ResetTimer()
	var failed atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for i := int64(0); pb.Next(); i++ {
			_, err := c.Commit(b.Context(), CommitRequest{Group: fmt.Sprintf("g%d", i%64), Epoch: NoMemberEpoch, Offsets: []CommitOffset{{Partition: tp0, Offset: i}}})
			if err != nil {
				failed.Add(1)
			}
		}
	})
	b.ReportMetric(float64(failed.Load()), "failed")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(b.N)/float64(log.appends), "commits/append")
}
