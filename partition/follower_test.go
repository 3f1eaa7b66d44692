package partition

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// gatedSync holds syncs of log files while it is closed: before they reach the disk and, with after, once more before they return.
type gatedSync struct {
	vfs.FS
	after   bool
	closed  atomic.Bool
	entered chan struct{}
	mu      sync.Mutex
	open    chan struct{}
}

func (g *gatedSync) OpenFile(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := g.FS.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	return &gatedFile{File: f, gate: g}, nil
}

// release lets those go that wait now.
func (g *gatedSync) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = make(chan struct{})
}

type gatedFile struct {
	vfs.File
	gate *gatedSync
}

func (f *gatedFile) Sync() error {
	f.gate.pass()
	err := f.File.Sync()
	if f.gate.after {
		f.gate.pass()
	}
	return err
}

// pass waits at the gate while it is closed.
func (g *gatedSync) pass() {
	if g.closed.Load() {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		g.entered <- struct{}{}
		<-open
	}
}

func divergedAt(epoch record.LeaderEpoch, end record.Offset) session.Refused {
	return session.Refused{Code: cluster.CodeOffsetOutOfRange, Diverged: true, Divergence: cluster.EpochEnd{Epoch: epoch, End: end}}
}

// awaitStatus waits until ok holds of the status.
func (k *kit) awaitStatus(what string, ok func(Status) bool) {
	k.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok(k.runner().Status()) { // each Status is a turn of the runner
		if time.Now().After(deadline) {
			k.t.Fatalf("no %s: %+v", what, k.runner().Status())
		}
	}
}

// deliver hands a follower one batch of a leader.
func (k *kit) deliver(leaderEpoch record.LeaderEpoch, first, watermark record.Offset, values ...string) {
	k.t.Helper()
	k.deliverFrom(leaderEpoch, session.Data{First: first, HighWatermark: watermark}, first, values...)
}

// deliverFrom hands a follower a frame with one batch, which begins at base.
func (k *kit) deliverFrom(leaderEpoch record.LeaderEpoch, d session.Data, base record.Offset, values ...string) {
	k.t.Helper()
	b, err := record.Parse(sent{values: values}.bytes(k.t))
	k.check(err)
	b.Stamp(base, leaderEpoch)
	d.Bytes = b.Bytes()
	recycled := make(chan struct{})
	if !k.manager.Data(testTP, leaderEpoch, d, func() { close(recycled) }) {
		k.t.Fatal("data not taken")
	}
	select {
	case <-recycled:
	case <-time.After(patience):
		k.t.Fatal("buffer not given back")
	}
}

func TestFollower_CopiesAndLeads(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) == 1 })
	if at, ok := k.manager.Position(testTP, 1); !ok || at != (fetcher.Position{LastEpoch: record.NoEpoch}) {
		t.Errorf("position %+v, %v", at, ok)
	}
	if _, ok := k.manager.Position(testTP, 2); ok {
		t.Error("position under an epoch that is not followed")
	}
	k.deliver(1, 0, 0, "a", "b")
	k.deliver(1, 2, 2, "c")
	k.outputs.await(t, "acks", func() bool {
		return slices.Contains(k.outputs.acks, Progress{LogEnd: 3, Flushed: 3})
	})
	if at, ok := k.manager.Position(testTP, 1); !ok || at != (fetcher.Position{LogEnd: 3, Flushed: 3, LastEpoch: 1}) {
		t.Errorf("position %+v, %v", at, ok)
	}
	k.checkValues("a", "b") // a follower serves up to the watermark that it knows
	k.elect(1)
	if s := k.runner().Status(); s.Role != RoleLeader || s.LogEnd != 3 {
		t.Errorf("status %+v", s)
	}
}

// A reader that was at the watermark of the leader comes to a follower that has not got everything: because it was sent there, or because this broker led until it
// was restarted. Only the leader knows what is out of range.
func TestCase31_AFollowerThatIsBehindSendsNobodyAway(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	k.deliver(1, 0, 1, "a")
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 1 })
	read := func(at record.Offset) cluster.Code {
		return k.runner().Read(ReadRequest{Offset: at, MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true}).Code
	}
	if code := read(2); code != cluster.CodeOffsetNotAvailable {
		t.Errorf("a follower that ends at 1 is read at 2: %s", code)
	}
	k.elect(1)
	k.awaitStatus("leadership", func(s Status) bool { return s.Role == RoleLeader })
	if code := read(2); code != cluster.CodeOffsetOutOfRange {
		t.Errorf("a leader that ends at 1 is read at 2: %s", code)
	}
}

// DeleteRecords may end inside a batch, which the leader keeps whole. A replica that has nothing, or only what was deleted, must be able to begin there.
func TestFollower_BeginsInsideABatch(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) == 1 })
	k.manager.Refused(testTP, 1, session.Refused{Code: cluster.CodeOffsetOutOfRange, LeaderEpoch: 1, LogStart: 5})
	k.awaitStatus("reset", func(s Status) bool { return s.LogStart == 5 && s.LogEnd == 5 })
	k.deliverFrom(1, session.Data{First: 5, HighWatermark: 6, LogStart: 5}, 3, "a", "b", "c", "d")
	k.awaitStatus("the batch around its log start", func(s Status) bool { return s.LogStart == 5 && s.LogEnd == 7 && s.Flushed == 7 && s.HighWatermark == 6 })
	k.deliver(1, 7, 8, "e")
	k.awaitStatus("the next one", func(s Status) bool { return s.LogEnd == 8 && s.HighWatermark == 8 })
	report := k.restart(k.fs)
	if report.Opened != 1 || len(report.Damaged) != 0 {
		t.Errorf("load report %+v", report)
	}
	if s := k.runner().Status(); s.LogStart != 5 || s.LogEnd != 8 {
		t.Errorf("after a restart: %+v", s)
	}
}

func TestFollower_SkipsWhatItHas(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	k.deliver(1, 0, 0, "a")
	one, _ := record.Parse(sent{values: []string{"a"}}.bytes(t))
	one.Stamp(0, 1)
	two, _ := record.Parse(sent{values: []string{"b"}}.bytes(t))
	two.Stamp(1, 1)
	both := append(slices.Clone(one.Bytes()), two.Bytes()...)
	k.manager.Data(testTP, 1, session.Data{First: 0, HighWatermark: 2, Bytes: both}, func() {})
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	k.checkValues("a", "b")
	// A gap is not filled with what comes after it: the follower asks again.
	before := len(k.outputs.subscribe)
	k.deliver(1, 5, 6, "z")
	k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) > before })
	if s := k.runner().Status(); s.LogEnd != 2 {
		t.Errorf("log end %d", s.LogEnd)
	}
}

func TestCase63_BadBatchIsNotAppended(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	b, _ := record.Parse(sent{values: []string{"a"}}.bytes(t))
	b.Stamp(0, 1)
	b.Bytes()[b.Size()-1] ^= 1
	done := make(chan struct{})
	k.manager.Data(testTP, 1, session.Data{First: 0, HighWatermark: 1, Bytes: b.Bytes()}, func() { close(done) })
	<-done
	if s := k.runner().Status(); s.LogEnd != 0 || s.Role != RoleFollower {
		t.Errorf("status %+v", s)
	}
	if n := k.manager.env.meters.corrupt.Value(); n != 1 {
		t.Errorf("counted %d bad deliveries", n)
	}
	k.deliver(1, 0, 1, "a") // a good copy is taken
	k.checkValues("a")
}

// TestCase63_ABatchWithARottenOffsetIsNotAppended: a base offset lies outside the checksum, and a leader may hand out one that has rotted since it was checked.
func TestCase63_ABatchWithARottenOffsetIsNotAppended(t *testing.T) {
	batch := func(base record.Offset, value string) []byte {
		b, err := record.Parse(sent{values: []string{value}}.bytes(t))
		if err != nil {
			t.Fatal(err)
		}
		b.Stamp(base, 1)
		return b.Bytes()
	}
	for name, bytes := range map[string][]byte{
		"the first":  batch(32768, "a"),
		"the second": append(batch(0, "a"), batch(32769, "b")...),
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, vfs.NewMem())
			k.topic(2, 2)
			done := make(chan struct{})
			k.manager.Data(testTP, 1, session.Data{First: 0, HighWatermark: 2, Bytes: bytes}, func() { close(done) })
			<-done
			if s := k.runner().Status(); s.LogEnd != 0 || s.Role != RoleFollower {
				t.Errorf("status %+v", s)
			}
			if n := k.manager.env.meters.corrupt.Value(); n != 1 {
				t.Errorf("counted %d bad deliveries", n)
			}
			k.deliver(1, 0, 2, "a", "b")
			k.checkValues("a", "b")
		})
	}
}

// fakeSink is a follower's sender.
type fakeSink struct {
	accepted chan fetcher.Reader
	wakes    chan struct{}
	refused  chan session.Refused
}

func newSink() *fakeSink {
	return &fakeSink{accepted: make(chan fetcher.Reader, 1), wakes: make(chan struct{}, 1), refused: make(chan session.Refused, 4)}
}

func (s *fakeSink) Accepted(_ session.SubscriptionID, r fetcher.Reader) { s.accepted <- r }
func (s *fakeSink) Refused(r session.Refused)                           { s.refused <- r }
func (s *fakeSink) Wake(session.SubscriptionID) {
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

func TestLeader_ServesAFollowerAndCommits(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(2, 1)
	follower, _ := k.image.Broker(2)
	sink := newSink()
	k.manager.Subscribe(2, follower.Epoch, session.Subscribe{ID: 7, Partition: testTP, LeaderEpoch: 1, LastEpoch: record.NoEpoch}, sink)
	reader := receive(t, sink.accepted)
	answer := call(r, sent{values: []string{"a", "b"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	for { // wakes may come for nothing
		receive(t, sink.wakes)
		got, end, watermark, _, err := reader.ReadReplica(0, 1<<20)
		k.check(err)
		if got == nil {
			continue
		}
		if end != 2 || watermark != 0 {
			t.Errorf("read %d bytes to %d, watermark %d", got.Len(), end, watermark)
		}
		got.Release()
		break
	}
	k.manager.Ack(2, follower.Epoch, testTP, 1, session.Ack{ID: 7, LogEnd: 2, Flushed: 0})
	k.awaitStatus("ack", func(s Status) bool { return s.Followers[0].LogEnd == 2 })
	if len(answer) != 0 {
		t.Error("answered although the follower has not flushed")
	}
	k.manager.Ack(2, follower.Epoch, testTP, 1, session.Ack{ID: 7, LogEnd: 2, Flushed: 2})
	k.checkProduced(k.answer(answer), cluster.CodeNone, 0)
	k.checkValues("a", "b")

	k.elect(2)
	if refused := receive(t, sink.refused); refused.Code != cluster.CodeNotLeader || refused.ID != 7 {
		t.Errorf("refused %+v", refused)
	}
	if _, _, _, _, err := reader.ReadReplica(0, 1); err == nil {
		t.Error("a reader of an ended leadership still reads")
	}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// dataOf is a delivery of one stamped batch.
func dataOf(b record.Batch, watermark record.Offset) session.Data {
	return session.Data{First: b.BaseOffset(), HighWatermark: watermark, Bytes: b.Bytes()}
}

// What a leader wrote and nobody copied is gone when its successor's log begins at or above its end, although nothing has to be cut off: no record is left to
// compare. Its producer has to be told so too: an answer from memory would acknowledge what is in no log.
func TestCase27_SequencesOfRecordsThatNobodyElseHasAreForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		restarts bool
		trimmed  record.Offset // the log start by the metadata, which the successor has not heard of yet
		start    record.Offset // of the successor's log
	}{
		"at its end":                         {start: 3},
		"at its end, after a restart":        {start: 3, restarts: true},
		"above its end":                      {start: 5},
		"at its end, by the metadata":        {trimmed: 3},
		"at its end, by it, after a restart": {trimmed: 3, restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, vfs.NewMem())
			k.topic(2, 1)
			lost := sent{values: []string{"a", "b", "c"}, id: 4}.bytes(t)
			if res := k.produce(slices.Clone(lost), AcksLeader); res.Code != cluster.CodeNone {
				t.Fatalf("produced: %s", res.Code)
			}
			if c.restarts {
				k.check(k.manager.Close(context.Background())) // in order: it leaves a snapshot of what producers sent
				k.start()
			}
			k.trimmed(c.trimmed)
			k.elect(2)
			k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) > 0 })
			if c.start > 3 {
				k.manager.Refused(testTP, 2, session.Refused{Code: cluster.CodeOffsetOutOfRange, LeaderEpoch: 2, LogStart: c.start})
				k.awaitStatus("reset", func(s Status) bool { return s.LogStart == c.start })
			}
			end := max(c.start, c.trimmed)
			k.deliverFrom(2, session.Data{First: end, HighWatermark: end, LogStart: c.start}, end, "x")
			k.awaitStatus("copy", func(s Status) bool { return s.LogStart == end && s.LogEnd == end+1 })
			k.elect(1)
			k.checkProduced(k.produce(slices.Clone(lost), AcksLeader), cluster.CodeNone, end+1)
		})
	}
}
