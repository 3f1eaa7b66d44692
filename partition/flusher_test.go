package partition

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// gatedKit is a kit whose flushes wait at a gate, before and after they reach a disk that a test may cut the power of.
func gatedKit(t *testing.T, snapshotBytes int) (*kit, *gatedSync, *vfs.Mem) {
	disk := vfs.NewMem()
	gate := &gatedSync{FS: disk, after: true, entered: make(chan struct{}, 16), open: make(chan struct{})}
	k := newKit(t, gate, func(o *Options) { o.SnapshotBytes = snapshotBytes })
	t.Cleanup(func() { // before the manager is closed
		gate.closed.Store(false)
		gate.release()
	})
	return k, gate, disk
}

// onDisk lets the flush that begins reach the disk, where it ends as far as the disk goes, and nothing that is written from then on.
func (g *gatedSync) onDisk() {
	<-g.entered
	g.release()
	<-g.entered
}

// snapshots lists the producer snapshots that a disk has of the test partition.
func (k *kit) snapshots(disk vfs.FS) []string {
	k.t.Helper()
	names, err := disk.ReadDir(filepath.Join("data", partitionsDir, testTP.String()))
	k.check(err)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".snapshot") })
}

// Group commit: a flush acknowledges what was appended before it began. What comes while it is under way waits for the next one, whatever the disk has of it.
func TestFlush_CoversWhatWasAppendedBeforeItBegan(t *testing.T) {
	k, gate, disk := gatedKit(t, 0)
	r := k.topic(1, 1)
	gate.closed.Store(true)
	first := call(r, sent{values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	gate.onDisk() // the flush of a is under way
	later := call(r, sent{values: []string{"b"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	last := call(r, sent{values: []string{"c"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 3 })
	gate.release()
	<-gate.entered // it has ended, and the flush of b and c begins
	k.checkProduced(k.answer(first), cluster.CodeNone, 0)
	if s := r.Status(); s.Flushed != 1 || s.HighWatermark != 1 || s.Waiting != 2 {
		t.Errorf("after the flush of a, %d is flushed, the watermark is %d, and %d wait", s.Flushed, s.HighWatermark, s.Waiting)
	}
	cut := disk.CrashClone()
	gate.release()
	<-gate.entered
	gate.release()
	k.checkProduced(k.answer(later), cluster.CodeNone, 1)
	k.checkProduced(k.answer(last), cluster.CodeNone, 2)
	if len(gate.entered) != 0 {
		t.Error("b and c were not flushed together")
	}
	gate.closed.Store(false)
	k.restart(cut)
	k.elect(1)
	k.checkValues("a")
}

// A snapshot tells of what its flush has made durable, and of nothing that was appended meanwhile: after a power cut that is gone, and a retry of it is no duplicate.
func TestCase66_ASnapshotKnowsOnlyWhatWasFlushed(t *testing.T) {
	k, gate, disk := gatedKit(t, 1)
	r := k.topic(1, 1)
	gate.closed.Store(true)
	_ = call(r, sent{id: 4, seq: 0, values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	gate.onDisk() // the flush of a is under way
	_ = call(r, sent{id: 4, seq: 1, values: []string{"b"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	gate.release()
	<-gate.entered // it has ended, with a snapshot, and the flush of b begins
	cut := disk.CrashClone()
	if have := k.snapshots(cut); len(have) != 1 || !strings.HasPrefix(have[0], "00000000000000000001.") {
		t.Fatalf("snapshots %q, want one at 1", have)
	}
	gate.closed.Store(false)
	gate.release()
	k.restart(cut)
	k.elect(1)
	k.checkValues("a")
	k.checkProduced(k.produce(sent{id: 4, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{id: 4, seq: 2, values: []string{"c"}}.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.checkProduced(k.produce(sent{id: 4, seq: 1, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

// A flush that began before a truncation leaves no snapshot behind it: the log has grown to the same length, with records of others.
func TestCase144_NoSnapshotFromBeforeATruncation(t *testing.T) {
	lost := sent{id: 4, seq: 0, values: []string{"a", "b"}, padding: 500}.bytes(t)
	k, gate, disk := gatedKit(t, len(lost)) // what comes later is less, so that no later snapshot takes the place of this one
	r := k.topic(2, 1)
	gate.closed.Store(true)
	answer := call(r, slices.Clone(lost), AcksISR, k.clock.Now()+time.Minute)
	<-gate.entered // the flush of a and b is under way
	k.elect(2)
	k.checkProduced(k.answer(answer), cluster.CodeNotLeader, 0)
	k.outputs.await(t, "subscription", func() bool { return len(k.outputs.subscribe) > 0 })
	gate.closed.Store(false) // the syncs of the truncation itself go on
	k.manager.Refused(testTP, 2, divergedAt(0, 0))
	k.awaitStatus("truncation", func(s Status) bool { return s.LogEnd == 0 })
	k.deliver(2, 0, 2, "x", "y")
	k.awaitStatus("append", func(s Status) bool { return s.LogEnd == 2 })
	gate.release() // the old flush ends, and the next one comes
	k.awaitStatus("flush", func(s Status) bool { return s.Flushed == 2 })
	k.restart(disk.CrashClone())
	k.elect(1)
	k.isr(1)
	k.checkProduced(k.produce(slices.Clone(lost), AcksISR), cluster.CodeNone, 2)
	k.checkValues("x", "y", "a", "b")
}

// Between the newest snapshot and the end of the log the records themselves tell what producers have sent.
func TestCase66_ARetryOfABatchBehindTheSnapshot(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	batch := func(seq record.Sequence, value string) []byte {
		return sent{id: 4, seq: seq, values: []string{value}}.bytes(t)
	}
	k.checkProduced(k.produce(batch(0, "a"), AcksISR), cluster.CodeNone, 0)
	k.check(k.manager.Close(context.Background())) // in order: it leaves a snapshot
	k.start()
	k.elect(1)
	k.checkProduced(k.produce(batch(1, "b"), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{id: 5, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeNone, 2)
	cut := disk.CrashClone()
	if have := k.snapshots(cut); len(have) != 1 || !strings.HasPrefix(have[0], "00000000000000000001.") {
		t.Fatalf("snapshots %q, want one at 1", have)
	}
	k.restart(cut)
	k.elect(1)
	k.checkProduced(k.produce(batch(1, "b"), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{id: 5, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeNone, 2)
	k.checkProduced(k.produce(batch(0, "a"), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(batch(2, "c"), AcksISR), cluster.CodeNone, 3)
	k.checkValues("a", "b", "x", "c")
}
