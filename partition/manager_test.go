package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/lograte"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

var errDisk = syscall.EIO

func TestProduceAndRead(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a", "b"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{values: []string{"c"}}.bytes(t), AcksLeader), cluster.CodeNone, 2)
	k.checkProduced(k.produce(sent{values: []string{"d"}}.bytes(t), AcksNone), cluster.CodeNone, 3)
	k.checkProduced(k.produce(sent{values: []string{"e"}}.bytes(t), AcksISR), cluster.CodeNone, 4)
	k.checkValues("a", "b", "c", "d", "e")
	s := k.runner().Status()
	if s.Role != RoleLeader || s.HighWatermark != 5 || s.LogEnd != 5 || s.Flushed != 5 || s.SizeBytes == 0 || s.Waiting != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestProduce_IsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		batch []byte
		epoch record.LeaderEpoch
		code  cluster.Code
	}{
		"garbage":       {[]byte("no batch"), record.NoEpoch, cluster.CodeCorrupt},
		"too large":     {sent{values: []string{"a"}, padding: 2000}.bytes(t), record.NoEpoch, cluster.CodeTooLarge},
		"transactional": {sent{values: []string{"a"}, id: 5, txn: true}.bytes(t), record.NoEpoch, cluster.CodeTransactional},
		"future":        {sent{values: []string{"a"}, ts: 1_800_000_000_000}.bytes(t), record.NoEpoch, cluster.CodeInvalidTimestamp},
		"old epoch":     {sent{values: []string{"a"}}.bytes(t), 0, cluster.CodeFencedLeaderEpoch},
		"new epoch":     {sent{values: []string{"a"}}.bytes(t), 9, cluster.CodeUnknownLeaderEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, vfs.NewMem())
			r := k.topic(1, 1, cluster.ConfigEntry{Key: "max.message.bytes", Value: "1000"})
			answer := make(chan ProduceResult, 1)
			released := 0
			r.Produce(ProduceRequest{LeaderEpoch: c.epoch, Batch: c.batch, Deadline: k.clock.Now() + time.Minute, Release: func() { released++ }},
				NewCompletion(func(res ProduceResult) { answer <- res }))
			k.checkProduced(k.answer(answer), c.code, -1)
			if s := r.Status(); s.LogEnd != 0 || released != 1 {
				t.Errorf("log end %d, buffer released %d times", s.LogEnd, released)
			}
		})
	}
}

func TestLogAppendTime_ADuplicateHasTheTimeOfTheOriginal(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1, cluster.ConfigEntry{Key: "message.timestamp.type", Value: "LogAppendTime"})
	batch := sent{id: 7, values: []string{"a", "b"}, ts: 5}.bytes(t)
	first := k.produce(slices.Clone(batch), AcksISR)
	k.checkProduced(first, cluster.CodeNone, 0)
	k.clock.pass(time.Second)
	again := k.produce(slices.Clone(batch), AcksISR)
	k.checkProduced(again, cluster.CodeNone, 0)
	if first.AppendTimeMs <= 5 || again.AppendTimeMs != first.AppendTimeMs {
		t.Errorf("appended at %d, the duplicate says %d", first.AppendTimeMs, again.AppendTimeMs)
	}
}

func TestLogAppendTime_IsStamped(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1, cluster.ConfigEntry{Key: "message.timestamp.type", Value: "LogAppendTime"})
	res := k.produce(sent{values: []string{"a"}, ts: 5}.bytes(t), AcksISR)
	if res.AppendTimeMs != k.clock.WallMs() {
		t.Errorf("append time %d", res.AppendTimeMs)
	}
	read := k.runner().Read(ReadRequest{MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
	b, err := read.Slice.AppendTo(nil)
	k.check(err)
	read.Slice.Release()
	batch, err := record.Parse(b)
	k.check(err)
	k.check(batch.VerifyCRC())
	if !batch.LogAppendTime() || batch.MaxTimestamp() != k.clock.WallMs() {
		t.Errorf("batch has log append time %v, timestamp %d", batch.LogAppendTime(), batch.MaxTimestamp())
	}
}

func TestPowerCut_KeepsWhatWasAcknowledged(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}, id: 4, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksISR), cluster.CodeNone, 1)
	report := k.restart(disk.CrashClone())
	if report.Opened != 1 || report.Unclean != 1 || len(report.Damaged) != 0 {
		t.Errorf("load report %+v", report)
	}
	k.elect(1)
	k.checkValues("a", "b")
	// The producer state was rebuilt from the log: the retry of b is recognised.
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{values: []string{"c"}, id: 4, seq: 2}.bytes(t), AcksISR), cluster.CodeNone, 2)
	k.checkValues("a", "b", "c")
}

// What producers sent between the newest snapshot and the log start can be read nowhere any more after a power cut, so the snapshot says nothing about what
// comes next: a producer that goes on is not told of a gap.
func TestCase68_ASnapshotFromBelowTheLogStartIsNotGoneBy(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}, id: 4, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.check(k.manager.Close(context.Background())) // in order: it leaves a snapshot
	k.start()
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{values: []string{"x"}, id: 5, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 2)
	k.trimmed(2)
	k.reconcile()
	k.awaitStatus("trim", func(s Status) bool { return s.LogStart == 2 })
	k.restart(disk.CrashClone())
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"c"}, id: 4, seq: 2}.bytes(t), AcksISR), cluster.CodeNone, 3)
	k.checkProduced(k.produce(sent{values: []string{"c"}, id: 4, seq: 2}.bytes(t), AcksISR), cluster.CodeNone, 3)
	k.checkProduced(k.produce(sent{values: []string{"x"}, id: 5, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 2)
}

// A replica whose producer state could not be rebuilt after a cut is offline. What it remembers is a part, and must not be what the next start goes by, however
// orderly the stop: a retry would be stored twice.
func TestCase66_AHalfRebuiltStateIsNotKept(t *testing.T) {
	offline := false
	for nth := 1; nth <= 12; nth++ { // which read fails
		mem := vfs.NewMem()
		k := newKit(t, mem)
		k.topic(2, 1)
		k.checkProduced(k.produce(sent{values: []string{"a"}, id: 4, seq: 0}.bytes(t), AcksLeader), cluster.CodeNone, 0)
		k.check(k.manager.Close(context.Background())) // in order: it leaves a snapshot
		disk := vfs.NewInjector(mem, nil)
		k.restart(disk)
		k.elect(1)
		k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksLeader), cluster.CodeNone, 1)
		k.checkProduced(k.produce(sent{values: []string{"c"}, id: 4, seq: 2}.bytes(t), AcksLeader), cluster.CodeNone, 2)
		k.elect(2)
		k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) > 0 })
		disk.Add(vfs.Rule{Op: vfs.OpRead, Glob: "*.log", Nth: nth, Count: 1, Err: syscall.EIO})
		epoch := k.runner().Status().LeaderEpoch
		k.manager.Refused(testTP, epoch, divergedAt(epoch-1, 2))
		k.awaitStatus("truncation, or the end", func(s Status) bool { return s.LogEnd == 2 || s.Reason != "" })
		offline = offline || k.runner().Status().Reason != ""
		disk.Heal()
		k.check(k.manager.Close(context.Background()))
		k.start()
		k.elect(1)
		k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksLeader), cluster.CodeNone, 1)
		k.check(k.manager.Close(context.Background()))
	}
	if !offline {
		t.Error("no read failed")
	}
}

func TestCleanStop_ReopensWithoutRecovery(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	k.produce(sent{values: []string{"a"}, id: 4, seq: 0}.bytes(t), AcksISR)
	k.check(k.manager.Close(context.Background()))
	report := k.start()
	if report.Opened != 1 || report.Unclean != 0 {
		t.Errorf("load report %+v", report)
	}
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"a"}, id: 4, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkValues("a")
}

func TestClosedManager_Refuses(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	k.check(k.manager.Close(context.Background()))
	k.checkProduced(k.answer(call(r, sent{values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)), cluster.CodeShuttingDown, -1)
	if s := r.Status(); s.Partition != testTP {
		t.Errorf("status of a closed runner: %+v", s)
	}
	var w Waiter
	if r.Wait(&w, 0, make(chan struct{}, 1)) {
		t.Error("a closed runner takes waiters")
	}
}

func TestCase9_FailedFsyncIsNeverRetriedAsSuccess(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	disk.Add(vfs.Rule{Op: vfs.OpSync, Glob: "*.log", Count: 1, Err: errDisk})
	res := k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR)
	k.checkProduced(res, cluster.CodeStorage, 1) // appended, fate unknown
	k.outputs.await(t, "report", func() bool { return len(k.outputs.offline) == 1 })
	if !errors.Is(k.outputs.offline[0], errDisk) {
		t.Errorf("reported %v", k.outputs.offline[0])
	}
	// The disk works again; the log stays offline all the same.
	k.checkProduced(k.produce(sent{values: []string{"c"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
	if _, code := k.manager.Leader(testTP); code != cluster.CodeStorage {
		t.Errorf("Leader: %s", code)
	}
	if s := k.runner().Status(); s.Role != RoleOffline || s.HighWatermark != 1 || s.Reason == "" {
		t.Errorf("status %+v", s)
	}
}

func TestCase12_FullDiskRefusesAndGoesOn(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}, id: 3, seq: 0}.bytes(t), AcksISR), cluster.CodeNone, 0)
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.log", Count: 1, Err: syscall.ENOSPC, Short: 30})
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 3, seq: 1}.bytes(t), AcksISR), cluster.CodeStorage, -1)
	// What follows it in flight does not slip in before it, and its retry is no duplicate.
	k.checkProduced(k.produce(sent{values: []string{"c"}, id: 3, seq: 2}.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 3, seq: 1}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{values: []string{"c"}, id: 3, seq: 2}.bytes(t), AcksISR), cluster.CodeNone, 2)
	k.checkValues("a", "b", "c")
}

// TestCase12_AFullDiskWritesFewLines: what is tried again and again on it does not fill the log too.
func TestCase12_AFullDiskWritesFewLines(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	var out bytes.Buffer // written by the partition's goroutine before it answers
	k := newKit(t, disk, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&out, nil)) })
	k.topic(1, 1)
	const refused = 200
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.log", Count: refused + 1, Err: syscall.ENOSPC})
	for range refused {
		k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
	}
	if n := strings.Count(out.String(), "append refused"); n == 0 || n > lograte.Lines {
		t.Errorf("%d appends that were refused wrote %d lines", refused, n)
	}
	k.clock.pass(lograte.Every)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
	if want := fmt.Sprintf("%s=%d", lograte.Suppressed, refused-lograte.Lines); !strings.Contains(out.String(), want) {
		t.Errorf("later the log does not say %s:\n%s", want, out.String())
	}
}

// TestCase12_AFollowerOnAFullDiskWritesFewLines: its leader sends again and again, for as long as it lasts.
func TestCase12_AFollowerOnAFullDiskWritesFewLines(t *testing.T) {
	disk := vfs.NewMem()
	var out lockedBuffer
	k := newKit(t, disk, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&out, nil)) })
	k.topic(2, 2)
	k.deliver(1, 0, 0, "a")
	k.outputs.await(t, "acks", func() bool { return slices.Contains(k.outputs.acks, Progress{LogEnd: 1, Flushed: 1}) })
	fill(disk)
	before := out.lines()
	const refused = 400
	for i := range refused {
		k.deliver(1, 1, 1, "b")
		if i%10 == 0 { // meanwhile there is news of others, and it is maintained
			k.register(2)
			k.manager.inventory.dirty = true // as when something was removed
			k.reconcile()
			k.runner().put(message{kind: kindMaintain}, 0)
		}
	}
	if s := k.runner().Status(); s.Role != RoleFollower || s.LogEnd != 1 {
		t.Fatalf("status %+v", s)
	}
	told := out.lines() - before
	if !strings.Contains(out.String(), "append refused") || told > 3*lograte.Lines {
		t.Errorf("%d appends that were refused wrote %d lines:\n%s", refused, told, out.String())
	}
	disk.SetCapacity(0)
	k.deliver(1, 1, 1, "b")
	k.outputs.await(t, "acks", func() bool { return slices.Contains(k.outputs.acks, Progress{LogEnd: 2, Flushed: 2}) })
}

// lockedBuffer takes the lines of several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) lines() int { return strings.Count(b.String(), "\n") }

// The disk fails where the name of a new replica's directory is synced, and the process is started again. What is flushed from then on outlives a power cut.
func TestCase60_AHalfMadeDirectoryIsMadeDurable(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewInjector(mem, nil)
	k := newKit(t, disk)
	disk.Add(vfs.Rule{Op: vfs.OpSyncDir, Glob: partitionsDir, Count: 1, Err: syscall.EIO})
	k.topic(1, 1)
	if r := k.runner().Role(); r != RoleOffline {
		t.Fatalf("role %v after a failed creation", r)
	}
	k.restart(mem) // a kill: what was written is there, and is not durable
	k.put(testTP, 1, 1, 3)
	k.reconcile()
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	report := k.restart(mem.CrashClone())
	if report.Opened != 1 {
		t.Fatalf("after a power cut there is %+v", report)
	}
	k.put(testTP, 1, 1, 5)
	k.reconcile()
	k.checkValues("a")
}

// A log start that cannot be moved because the disk is full is moved when there is room again, although nothing else happens.
func TestCase12_DeletionWaitsForRoom(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	r := k.topic(1, 1)
	for i := range 3 {
		k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "log.meta.tmp", Count: 1, Err: syscall.ENOSPC})
	old, _ := k.image.Partition(testTP)
	trimmed := old.Clone()
	trimmed.LogStart, trimmed.PartitionEpoch = 2, trimmed.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, trimmed) })
	k.reconcile()
	if s := r.Status(); s.LogStart != 0 {
		t.Fatalf("the log starts at %d on a full disk", s.LogStart)
	}
	r.put(message{kind: kindMaintain}, 0)
	if s := r.Status(); s.LogStart != 2 {
		t.Errorf("the log starts at %d when there is room again", s.LogStart)
	}
}

func TestCase39_WatermarkStandsStillBelowMinISR(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	k.put(testTP, 3, 1, 2)
	old, _ := k.image.Partition(testTP)
	alone := old.Clone()
	alone.ISR, alone.PartitionEpoch = []cluster.BrokerID{1}, alone.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, alone) })
	k.reconcile()
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNotEnoughReplicas, -1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksLeader), cluster.CodeNone, 0)
	if s := k.runner().Status(); s.HighWatermark != 0 || s.LogEnd != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestCase142_NothingIsWrittenUnderAnEpochOfAnEarlierLife(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.restart(disk.CrashClone())
	// An image from before the registration of this life says that broker 1 leads; it is not acted upon.
	before := k.epoch
	k.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), k.image), before+100)
	if r := k.runner().Role(); r != RoleIdle {
		t.Fatalf("role %v before the registration", r)
	}
	// Even a registration that did not raise the leader epoch does not make it lead.
	k.reconcile()
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNotLeader, -1)
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
}

func TestCase144_FlushUnderWayDuringATruncation(t *testing.T) {
	disk := vfs.NewMem()
	gate := &gatedSync{FS: disk, entered: make(chan struct{}, 16), open: make(chan struct{})}
	k := newKit(t, gate)
	k.topic(2, 1)
	gate.closed.Store(true)
	answer := call(k.runner(), sent{values: []string{"a", "b"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	<-gate.entered // the flush of a and b is under way
	k.elect(2)
	k.checkProduced(k.answer(answer), cluster.CodeNotLeader, 0)
	k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) > 0 })
	gate.closed.Store(false) // the syncs of the truncation itself go on
	k.manager.Refused(testTP, 2, divergedAt(0, 0))
	k.awaitStatus("truncation", func(s Status) bool { return s.LogEnd == 0 })
	gate.closed.Store(true)
	k.deliver(2, 0, 2, "x", "y")
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	gate.release() // the old flush ends
	<-gate.entered // and the next one begins
	if s := k.runner().Status(); s.Flushed != 0 {
		t.Errorf("an old flush marks %d as flushed", s.Flushed)
	}
	gate.closed.Store(false)
	gate.release()
	k.awaitStatus("flush", func(s Status) bool { return s.Flushed == 2 })
}

func TestCase149_TombstoneRemovesAndUnknownIsParked(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR)
	k.restart(disk.CrashClone())
	// The broker has missed what happened: topic 7 was deleted with a tombstone, topic 8 is simply not known.
	mark := cluster.Tombstone{Partition: testTP, Directory: testDirectory}
	k.change(func(txn *cluster.Txn) {
		for _, tp := range []cluster.TopicPartition{testTP, other} {
			topic, _ := k.image.Topic(tp.Topic)
			txn.DeletePartition(tp)
			txn.DeleteTopic(topic)
		}
		txn.PutTombstone(mark)
	})
	k.reconcile()
	if !slices.Equal(k.outputs.removed, []cluster.Tombstone{mark}) {
		t.Errorf("removed %v", k.outputs.removed)
	}
	if len(k.outputs.parked) != 1 || filepath.Base(k.outputs.parked[0]) != other.String() {
		t.Errorf("parked %v", k.outputs.parked)
	}
	names, err := k.fs.ReadDir("data/partitions")
	k.check(err)
	if !slices.Equal(names, []string{other.String()}) {
		t.Errorf("directories left: %v", names)
	}
	if n := len(k.manager.sorted()); n != 0 {
		t.Errorf("%d runners left", n)
	}
}

func TestReconcile_TouchesOnlyWhatChanged(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	k.put(testTP, 1, 1, 2)
	planner, here := k.manager.planner, (*local)(k.manager)
	p := planner.plan(cluster.Diff(planner.last, k.image), false, here)
	if len(p.Create) != 0 || len(p.Tell) != 1 || p.Tell[0] != testTP || len(p.Remove) != 0 || len(p.Park) != 0 {
		t.Errorf("plan %+v", p)
	}
	k.reconcile()
	k.register(2) // no replica of ours lives there
	if p := planner.plan(cluster.Diff(planner.last, k.image), false, here); len(p.Tell) != 0 {
		t.Errorf("plan %+v", p)
	}
}

func TestRetention_MovesTheLogStart(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1, cluster.ConfigEntry{Key: "retention.bytes", Value: "2000"}, cluster.ConfigEntry{Key: "segment.bytes", Value: "1024"})
	for range 10 {
		k.produce(sent{values: []string{"a"}, padding: 900}.bytes(t), AcksISR)
	}
	k.runner().put(message{kind: kindMaintain}, 0)
	k.awaitStatus("retention", func(s Status) bool { return s.LogStart > 0 })
	read := k.runner().Read(ReadRequest{MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
	if read.Code != cluster.CodeOffsetOutOfRange {
		t.Errorf("read below the start: %s", read.Code)
	}
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 10)
}

// A leader that was deposed and has not heard of it lacks what its successor has: it must not tell a producer that its sequence is wrong, which ends it.
func TestCase46_ALeaderWithoutALeaseCallsNoSequenceWrong(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}, id: 4}.bytes(t), AcksISR), cluster.CodeNone, 0)
	later := sent{values: []string{"c"}, id: 4, seq: 2}
	k.checkProduced(k.produce(later.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.clock.pass(2 * time.Hour) // the lease of the kit is an hour
	k.checkProduced(k.produce(later.bytes(t), AcksISR), cluster.CodeNotLeader, -1)
	k.checkProduced(k.produce(sent{values: []string{"b"}, id: 4, seq: 1}.bytes(t), AcksISR), cluster.CodeNone, 1) // the in-sync set decides for itself
}

// What is left of a batch in which DeleteRecords ended must not come again by a retry, whoever restarted meanwhile.
func TestCase66_ARetryOfABatchAroundTheLogStart(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a", "b", "c"}, id: 4}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.trim(2)
	k.restart(disk.CrashClone())
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"a", "b", "c"}, id: 4}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{values: []string{"d"}, id: 4, seq: 3}.bytes(t), AcksISR), cluster.CodeNone, 3)
}

// A retry of what was acknowledged and deleted since is a repeat also after a crash: as far as this replica remembered its producer, so does the next start (case 66).
func TestCase66_DeletedBatchesAreRememberedOverACrash(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	first, second := sent{values: []string{"a"}, id: 4}, sent{values: []string{"b"}, id: 4, seq: 1}
	other := sent{values: []string{"c"}, id: 5}
	for i, s := range []sent{first, second, other} {
		k.checkProduced(k.produce(s.bytes(t), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	k.trim(2)
	for _, to := range []record.Offset{2, 3} { // some of it is left, and nothing
		if to > 2 {
			k.trim(to)
		}
		disk = disk.CrashClone()
		k.restart(disk)
		k.elect(1)
		k.checkProduced(k.produce(first.bytes(t), AcksISR), cluster.CodeNone, 0)
		k.checkProduced(k.produce(second.bytes(t), AcksISR), cluster.CodeNone, 1)
		k.checkProduced(k.produce(other.bytes(t), AcksISR), cluster.CodeNone, 2)
		k.checkProduced(k.produce(sent{values: []string{"e"}, id: 4, seq: 3}.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	}
	k.checkProduced(k.produce(sent{values: []string{"d"}, id: 4, seq: 2}.bytes(t), AcksISR), cluster.CodeNone, 3)
}

// What a deposed leader has below a log start that was committed without it is not what was deleted: it does not remember the producers of that over a crash (case 66).
func TestCase66_UncommittedBatchesBelowALogStartAreForgotten(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(2, 1)
	b := sent{values: []string{"a"}, id: 4}
	k.checkProduced(k.produce(b.bytes(t), AcksLeader), cluster.CodeNone, 0) // the other replica never gets it
	k.elect(2)
	k.trim(1)
	disk = disk.CrashClone()
	k.restart(disk)
	k.elect(1)
	k.checkProduced(k.produce(b.bytes(t), AcksLeader), cluster.CodeNone, 1)
}

// trim commits a log start and waits until the replica has it.
func (k *kit) trim(to record.Offset) {
	k.t.Helper()
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	p.LogStart, p.PartitionEpoch = to, p.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
	k.awaitStatus("deletion", func(s Status) bool { return s.LogStart == to })
}

func TestDeleteRecords_MovesTheLogStart(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	for _, v := range []string{"a", "b", "c"} {
		k.produce(sent{values: []string{v}}.bytes(t), AcksISR)
	}
	k.trim(2)
	k.checkValues("c")
}

func TestWait_WakesForTheWatermark(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	wake := make(chan struct{}, 1)
	var w Waiter
	if !r.Wait(&w, 0, wake) {
		t.Fatal("not registered")
	}
	k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR)
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatal("no wake")
	}
	if !r.Wait(&w, 0, wake) { // it is above already
		t.Fatal("not registered")
	}
	<-wake
	if !r.Wait(&w, 1, wake) {
		t.Fatal("not registered")
	}
	w.Cancel()
	k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR)
	if len(wake) != 0 {
		t.Error("woken after Cancel")
	}
}

func TestListOffset(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	for i, v := range []string{"a", "b", "c"} {
		k.produce(sent{values: []string{v}, ts: int64(100 * (i + 1))}.bytes(t), AcksISR)
	}
	check := func(kind ListKind, ts int64, want record.Offset, code cluster.Code) {
		t.Helper()
		res, err := r.ListOffset(t.Context(), ListRequest{Kind: kind, TimestampMs: ts, LeaderEpoch: record.NoEpoch})
		if err != nil || res.Code != code || res.Offset != want {
			t.Errorf("kind %d at %d: %+v, %v, want offset %d", kind, ts, res, err, want)
		}
	}
	check(ListEarliest, 0, 0, cluster.CodeNone)
	check(ListLatest, 0, 3, cluster.CodeNone)
	check(ListTimestamp, 150, 1, cluster.CodeNone)
	check(ListTimestamp, 400, -1, cluster.CodeNone)
	check(ListMaxTimestamp, 0, 2, cluster.CodeNone)
	// Case 145: without the controller's word "latest" has no answer.
	k.clock.pass(2 * time.Hour)
	check(ListLatest, 0, -1, cluster.CodeOffsetNotAvailable)
	check(ListEarliest, 0, 0, cluster.CodeNone)
	if end := r.EpochEnd(record.NoEpoch, 1); end.Code != cluster.CodeNone || end.Epoch != 1 || end.End != 3 {
		t.Errorf("epoch end %+v", end)
	}
}

// A search by time that its request does not wait for any more says so, and not that the disk has failed (case 108).
func TestCase108_ASearchThatNobodyWaitsForIsRefused(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	k.produce(sent{values: []string{"a"}, ts: 100}.bytes(t), AcksISR)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range []ListKind{ListTimestamp, ListMaxTimestamp} {
		if res, err := r.ListOffset(ctx, ListRequest{Kind: kind, LeaderEpoch: record.NoEpoch}); !errors.Is(err, context.Canceled) || res.Code != cluster.CodeTimedOut || res.Offset != -1 {
			t.Errorf("kind %d: %+v, %v", kind, res, err)
		}
	}
}

func TestCase31_ReadAboveTheWatermarkIsEmpty(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(2, 1)
	call(r, sent{values: []string{"a", "b"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	read := func(at record.Offset) ReadResult {
		return r.Read(ReadRequest{Offset: at, MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
	}
	for at := range record.Offset(3) {
		if res := read(at); res.Code != cluster.CodeNone || res.Slice.Len() != 0 {
			t.Errorf("read at %d: %s, %d bytes", at, res.Code, res.Slice.Len())
		}
	}
	if res := read(3); res.Code != cluster.CodeOffsetOutOfRange {
		t.Errorf("read above the end: %s", res.Code)
	}
	res := r.Read(ReadRequest{Offset: 5, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: 1})
	if !res.Diverged || res.Divergence != (cluster.EpochEnd{Epoch: 1, End: 2}) {
		t.Errorf("a client whose log was cut is told %+v", res)
	}
	res = r.Read(ReadRequest{Offset: 1, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: 9})
	if res.Code != cluster.CodeUnknownLeaderEpoch {
		t.Errorf("a client that has read records of a later leader, which this one has not heard of, is told %+v", res)
	}
	k.manager.lease.Store(0) // a leader that has lost touch with the controller may have a successor that has gone on
	if res := read(3); res.Code != cluster.CodeOffsetNotAvailable {
		t.Errorf("read above the end without the controller's word: %s", res.Code)
	}
}

func TestDeadline_AnswersWhatWaits(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(2, 1)
	answer := call(r, sent{values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Second)
	k.awaitStatus("append", func(s Status) bool { return s.Waiting == 1 })
	k.clock.pass(time.Second)
	k.manager.deadlines.set(r, 1) // the manager's timer lives by the clock of the machine; look now
	k.checkProduced(k.answer(answer), cluster.CodeTimedOut, 0)
}
