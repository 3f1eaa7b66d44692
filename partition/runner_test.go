package partition

import (
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
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/session"
	"github.com/moldau-log/moldau/segment"
)

func TestRunner_BrokenInvariantEndsThePartitionOnly(t *testing.T) {
	var out lockedBuilder
	k := newKit(t, vfs.NewMem())
	k.abandon()
	k.options.Log = slog.New(slog.NewTextHandler(&out, nil))
	k.start()
	r := k.topic(2, 1)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	waits := call(r, sent{values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Hour)
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 1 })
	r.put(message{kind: kindInput, other: &replication.Appended{End: 100}}, 0) // nobody has admitted that
	k.checkProduced(k.answer(waits), cluster.CodeStorage, 0)
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
	k.outputs.await(t, "report", func() bool { return len(k.outputs.offline) == 1 })
	var violation invariant.Violation
	if !errors.As(k.outputs.offline[0], &violation) {
		t.Errorf("reported %v", k.outputs.offline[0])
	}
	if s := r.Status(); s.Role != RoleOffline || s.Reason == "" {
		t.Errorf("status %+v", s)
	}
	if text := out.String(); !strings.Contains(text, "flight_record") || !strings.Contains(text, "produce request, offsets, acks: 0 1 0") {
		t.Errorf("the log does not tell the last inputs: %s", text)
	}
	fine, _ := k.manager.Get(other)
	k.checkProduced(k.answer(call(fine, sent{values: []string{"c"}}.bytes(t), AcksISR, k.clock.Now()+time.Hour)), cluster.CodeNone, 0)
}

// lockedBuilder is a strings.Builder for several goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestRunner_FullInboxMakesCallersWait(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.abandon()
	k.options.InboxSize = 4
	k.start()
	r := k.topic(1, 1)
	held, entered := make(chan struct{}), make(chan struct{})
	request := func() ProduceRequest {
		return ProduceRequest{LeaderEpoch: record.NoEpoch, Batch: sent{values: []string{"a"}}.bytes(t), Deadline: k.clock.Now() + time.Hour}
	}
	r.Produce(request(), NewCompletion(func(ProduceResult) { // a caller that breaks the rule and blocks the runner
		close(entered)
		<-held
	}))
	<-entered
	answers := make(chan ProduceResult, 16)
	for range 4 {
		r.Produce(request(), NewCompletion(func(res ProduceResult) { answers <- res }))
	}
	late := request()
	late.Deadline = k.clock.Now() // no time to wait
	r.Produce(late, NewCompletion(func(res ProduceResult) { answers <- res }))
	k.checkProduced(receive(t, answers), cluster.CodeOverloaded, -1)
	if k.manager.Data(testTP, 1, session.Data{}, func() {}) {
		t.Error("a full inbox takes data")
	}
	done := make(chan struct{})
	go func() {
		r.Produce(request(), NewCompletion(func(res ProduceResult) { answers <- res })) // waits for room
		close(done)
	}()
	close(held)
	<-done
	for range 5 {
		if res := receive(t, answers); res.Code != cluster.CodeNone {
			t.Errorf("answer %+v", res)
		}
	}
}

func TestRunner_RestsWhenNobodyUsesIt(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR)
	running := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.running
	}
	deadline := time.Now().Add(patience)
	for running() {
		r.put(message{kind: kindMaintain}, 0)
		r.Status() // a question is no use
		if time.Now().After(deadline) {
			t.Fatal("the goroutine goes on")
		}
	}
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

func TestRelaxedFlush_WaitsForItsTimeAndMarksTheLog(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	r := k.topic(1, 1, cluster.ConfigEntry{Key: "flush.interval.ms", Value: "1000"}, cluster.ConfigEntry{Key: "flush.policy", Value: "interval"})
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	if s := r.Status(); s.Flushed != 0 || s.HighWatermark != 1 {
		t.Errorf("status %+v", s)
	}
	k.clock.pass(time.Second)
	k.manager.deadlines.set(r, 1)
	k.awaitStatus("flush", func(s Status) bool { return s.Flushed == 1 })
	report := k.restart(disk.CrashClone())
	if len(report.Doubtful) != 1 || report.Unclean != 1 {
		t.Errorf("load report %+v", report)
	}
	// The next start reports it again, also after this one was stopped in order: nobody has been told yet.
	k.check(k.manager.Close(context.Background()))
	if report := k.start(); len(report.Doubtful) != 1 || report.Unclean != 0 {
		t.Errorf("load report %+v", report)
	}
	k.manager.Registered()
	// Under the strict policy again, the mark goes with the first flush of the whole log.
	k.put(testTP, 1, 1, 5)
	k.reconcile()
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.runner().Status() // a turn after the flush
	if report := k.restart(k.fs.(*vfs.Mem).CrashClone()); len(report.Doubtful) != 0 {
		t.Errorf("load report %+v", report)
	}
}

// Nothing tells a log whose flushed end is gone from one that ended there, but what the other replicas have: so every start says how far each log goes.
func TestCase60_AStartTellsHowFarTheLogsGo(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	for _, value := range []string{"a", "b"} {
		k.checkProduced(k.produce(sent{values: []string{value}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(value[0]-'a'))
	}
	whole, cut := disk.CrashClone(), disk.CrashClone()
	path := filepath.Join("data", partitionsDir, testTP.String(), "00000000000000000000.log")
	info, err := cut.Stat(path)
	k.check(err)
	k.check(cut.Shorten(path, info.Size-1))
	check := func(report LoadReport, end record.Offset) {
		t.Helper()
		want := []cluster.ReplicaLog{{Partition: testTP, Log: cluster.LogPosition{LastEpoch: 1, LogEnd: end}}}
		if !slices.Equal(report.Logs, want) || len(report.Doubtful)+len(report.Damaged) != 0 {
			t.Errorf("load report %+v, want logs %+v", report, want)
		}
	}
	check(k.restart(whole), 2)
	check(k.restart(cut), 1)
}

// The last batch was flushed, log.meta does not know of it yet, and it has rotted: the replica opens without it and is reported, so that it leaves the ISR.
func TestCase5_ARottenEndIsReported(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	for _, value := range []string{"a", "b"} {
		k.checkProduced(k.produce(sent{values: []string{value}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(value[0]-'a'))
	}
	cut := disk.CrashClone()
	path := filepath.Join("data", partitionsDir, testTP.String(), "00000000000000000000.log")
	info, err := cut.Stat(path)
	k.check(err)
	k.check(cut.Flip(path, info.Size-1, 1))
	check := func(report LoadReport, doubtful ...cluster.TopicPartition) {
		t.Helper()
		if !slices.Equal(report.Doubtful, doubtful) || len(report.Damaged) != 0 || report.Opened != 1 {
			t.Errorf("load report %+v", report)
		}
	}
	check(k.restart(cut), testTP)
	disk = cut.CrashClone() // the process ends before it has told anybody
	check(k.restart(disk), testTP)
	k.check(k.manager.Close(context.Background())) // so does this one, in order
	check(k.start(), testTP)
	k.manager.Registered()
	k.put(testTP, 2, 2, 2) // another replica has it, and fills it up
	k.reconcile()
	check(k.restart(disk.CrashClone()))
	if k.runner().LostEnd() {
		t.Error("it still counts as lost")
	}
}

// An error of the disk in the same start changes nothing about it: the replica does not keep its place as one of which nothing is known. Where the error comes before the end is
// looked at, and passes, nobody was told when it is: so the replica waits for the next start.
func TestCase5_ARottenEndIsReportedAlsoWhenTheStartFails(t *testing.T) {
	for name, rule := range map[string]vfs.Rule{
		"noting it": {Op: vfs.OpWrite, Glob: "*doubtful*", Count: 1, Err: syscall.EIO},
		"before":    {Op: vfs.OpRead, Glob: "log.meta", Count: 1, Err: syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			k := newKit(t, disk)
			k.topic(1, 1)
			for i, value := range []string{"a", "b"} {
				k.checkProduced(k.produce(sent{values: []string{value}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(i))
			}
			cut := disk.CrashClone()
			path := filepath.Join("data", partitionsDir, testTP.String(), "00000000000000000000.log")
			info, err := cut.Stat(path)
			k.check(err)
			k.check(cut.Flip(path, info.Size-1, 1))
			k.abandon()
			failing := vfs.NewInjector(cut, nil)
			failing.Add(rule)
			k.fs, k.options.FS = failing, failing
			one := []cluster.TopicPartition{testTP}
			report := k.start()
			known := rule.Err == syscall.EIO
			if known != slices.Equal(report.Damaged, one) || known == slices.Equal(report.Failed, one) || report.Opened != 0 {
				t.Fatalf("load report %+v", report)
			}
			k.manager.Registered()
			k.put(testTP, 1, 1, 2)
			k.reconcile()
			k.manager.Retry()
			if s := k.runner().Status(); s.Role != RoleOffline || len(k.outputs.online) > 0 {
				t.Errorf("after another try: %+v", s)
			}
			if report := k.restart(cut.CrashClone()); !slices.Equal(report.Doubtful, one) {
				t.Errorf("the next start reports %+v", report)
			}
		})
	}
}

// The same, and there is no other replica: the partition goes on without what was cut off, and says so in every life until an operator takes the note of it away. A client that has read
// further learns where the logs part.
func TestCase5_ARottenEndOfTheOnlyReplicaIsTold(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	for _, value := range []string{"a", "b"} {
		k.checkProduced(k.produce(sent{values: []string{value}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(value[0]-'a'))
	}
	disk = disk.CrashClone()
	dir := filepath.Join("data", partitionsDir, testTP.String())
	info, err := disk.Stat(filepath.Join(dir, "00000000000000000000.log"))
	k.check(err)
	k.check(disk.Flip(filepath.Join(dir, "00000000000000000000.log"), info.Size-1, 1))
	for life := range 3 {
		report := k.restart(disk)
		if !slices.Equal(report.Rotten, []cluster.TopicPartition{testTP}) {
			t.Fatalf("life %d: %+v", life, report)
		}
		k.manager.Registered()
		k.elect(1)
		k.awaitStatus("leadership", func(s Status) bool { return s.Role == RoleLeader })
		if !k.runner().LostEnd() {
			t.Errorf("life %d says nothing", life)
		}
		res := k.runner().Read(ReadRequest{Offset: 2, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: 1})
		if !res.Diverged || res.Divergence != (cluster.EpochEnd{Epoch: 1, End: 1}) {
			t.Errorf("life %d: who has read both is told %+v", life, res)
		}
		disk = disk.CrashClone()
	}
	k.checkProduced(k.produce(sent{values: []string{"c"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.abandon()
	disk = k.fs.(*vfs.Mem).CrashClone()
	k.check(disk.Remove(segment.DoubtFile(dir)))
	k.check(disk.SyncDir(dir))
	if report := k.restart(disk); len(report.Doubtful) != 0 || k.runner().LostEnd() {
		t.Errorf("after the note was taken away: %+v", report)
	}
}

func TestTruncation_TakesProducerStateBack(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(2, 1)
	_ = call(r, sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Hour)
	_ = call(r, sent{id: 9, seq: 1, values: []string{"b"}}.bytes(t), AcksISR, k.clock.Now()+time.Hour)
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	k.elect(2)
	k.manager.Refused(testTP, 2, divergedAt(1, 1)) // b is not the new leader's
	k.awaitStatus("truncation", func(s Status) bool { return s.LogEnd == 1 })
	k.elect(1)
	k.isr(1)
	k.checkProduced(k.produce(sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{id: 9, seq: 1, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

func TestReconcile_DirectoryOfAnotherDiskIsNotTouched(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.put(testTP, 1, 1, 1)
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	p.Directories = []cluster.DirectoryID{{42}}
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
	if _, ok := k.manager.Get(testTP); ok {
		t.Error("a replica was made that the metadata places on another disk")
	}
}

func TestLoad_ReportsDamageAndStrangers(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	for i := range 3 {
		k.produce(sent{values: []string{fmt.Sprint(i)}}.bytes(t), AcksISR)
	}
	k.check(disk.MkdirAll("data/partitions/lost+found"))
	after := disk.CrashClone()
	path := "data/partitions/" + testTP.String() + "/00000000000000000000.log"
	f, err := after.OpenFile(path, vfs.ReadWrite)
	k.check(err)
	_, err = f.WriteAt([]byte{0xff}, 70) // in the first of three batches
	k.check(err)
	k.check(f.Sync())
	k.check(f.Close())
	k.check(after.MkdirAll("data/partitions/lost+found"))
	report := k.restart(after)
	if len(report.Damaged) != 1 || report.Damaged[0] != testTP || len(report.Strange) != 1 {
		t.Errorf("load report %+v", report)
	}
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
}

// isr sets the in-sync set.
func (k *kit) isr(members ...cluster.BrokerID) {
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	p.ISR, p.PartitionEpoch = members, p.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
}
