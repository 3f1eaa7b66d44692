package partition

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
	"github.com/moldau-log/moldau/segment"
)

// logFiles lists the segment files of a replica, oldest first.
func logFiles(t *testing.T, fs vfs.FS, tp cluster.TopicPartition) []string {
	t.Helper()
	dir := "data/partitions/" + tp.String()
	names, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			out = append(out, dir+"/"+name)
		}
	}
	slices.Sort(out)
	return out
}

// smallSegments makes a topic whose batches of 900 bytes get a segment each.
var smallSegments = cluster.ConfigEntry{Key: "segment.bytes", Value: "1024"}

// fill produces the values 0 to n-1, each in a segment of its own where segments are small.
func (k *kit) fill(n int) (values []string) {
	k.t.Helper()
	for i := range n {
		values = append(values, fmt.Sprint(i))
		k.checkProduced(k.produce(sent{values: values[i:], padding: 900}.bytes(k.t), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	return values
}

// damagedTown is three brokers with the same records, of which broker 2 has one in an old segment that its disk has changed. Broker 2 leads.
func damagedTown(t *testing.T) (w *town, values []string, bad record.Offset) {
	t.Helper()
	w = newTown(t, 3)
	w.configure(smallSegments)
	const records = 12
	leader := w.awaitLeader(1, 0)
	for i := range records {
		values = append(values, fmt.Sprint(i))
		answer := <-call(leader, sent{values: values[i:], padding: 900}.bytes(t), AcksISR, leader.manager.options.Clock.Now()+patience)
		if answer.Code != cluster.CodeNone {
			t.Fatalf("record %d: %s", i, answer.Code)
		}
	}
	w.converge(records)
	w.stopAnd(2, func(disk *vfs.Mem) {
		files := logFiles(t, disk, testTP)
		if len(files) < records {
			t.Fatalf("%d segments", len(files))
		}
		bad = 4
		flip(t, disk, files[bad], 500)
	})
	w.edit(func(p *cluster.Partition) bool {
		p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1
		return true
	})
	return w, values, bad
}

// flip changes one byte of a file behind everybody's back.
func flip(t *testing.T, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.OpenFile(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 1
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// configure changes the topic's configuration.
func (w *town) configure(entries ...cluster.ConfigEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, _ := w.image.Topic(testTopic)
	topic := *old
	topic.Configs = entries
	w.change(func(txn *cluster.Txn) { txn.PutTopic(&topic) })
}

// stopAnd stops a broker in good order, lets its disk be changed, and starts it again: opening it reads no batch.
func (w *town) stopAnd(id cluster.BrokerID, damage func(disk *vfs.Mem)) {
	w.mu.Lock()
	n := w.nodes[id]
	delete(w.nodes, id)
	w.mu.Unlock()
	n.dead.Store(true)
	n.fetcher.Close()
	if err := n.manager.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	damage(n.disk)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.change(func(txn *cluster.Txn) {
		txn.PutBroker(&cluster.Broker{ID: id, Epoch: cluster.BrokerEpoch(w.index + 1), Directory: cluster.DirectoryID{byte(id)}})
	})
	w.nodes[id] = w.start(id, cluster.BrokerEpoch(w.index), n.disk)
}

// replaceOffline is what the controller does about a failed replica: out of the ISR, and if it led, another member leads.
func (w *town) replaceOffline(reports chan<- error) {
	w.offline = func(n *townNode, reason error) {
		w.edit(func(p *cluster.Partition) bool {
			p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(b cluster.BrokerID) bool { return b == n.id })
			if p.Leader == n.id {
				p.Leader, p.LeaderEpoch = p.ISR[0], p.LeaderEpoch+1
			}
			return true
		})
		reports <- reason
	}
}

// awaitLeader waits until a broker leads and its leadership is settled as far as reads go: everything is below its watermark.
func (w *town) awaitLeader(id cluster.BrokerID, watermark record.Offset) *Runner {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		if r, ok := w.nodes[id].manager.Get(testTP); ok {
			if s := r.Status(); s.Role == RoleLeader && s.HighWatermark >= watermark {
				return r
			}
		}
		if time.Now().After(deadline) {
			r, _ := w.nodes[id].manager.Get(testTP)
			w.t.Fatalf("broker %d does not lead: %+v", id, r.Status())
		}
	}
}

func TestCase3_DamagedLeaderIsReplacedAndNothingIsLost(t *testing.T) {
	w, values, bad := damagedTown(t)
	reports := make(chan error, 1)
	w.replaceOffline(reports)
	r := w.awaitLeader(2, record.Offset(len(values)))
	at := func(r *Runner, o record.Offset) ReadResult {
		return r.Read(ReadRequest{Offset: o, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
	}
	behind := at(r, bad+1)
	if behind.Code != cluster.CodeNone || behind.Slice.Len() == 0 {
		t.Errorf("behind the damage: %s: %v", behind.Code, behind.Err)
	}
	behind.Slice.Release()
	if res := at(r, bad); res.Code != cluster.CodeCorrupt || res.Slice.Len() != 0 {
		t.Fatalf("the damaged batch: %s, %d bytes", res.Code, res.Slice.Len())
	}
	if reason := receive(t, reports); !errors.Is(reason, segment.ErrDamaged) {
		t.Errorf("reported %v", reason)
	}
	next := w.awaitLeader(1, record.Offset(len(values)))
	if got := w.read(next); !slices.Equal(got, values) {
		t.Errorf("the new leader serves %d of %d records", len(got), len(values))
	}
	answer := <-call(next, sent{values: []string{"after"}}.bytes(t), AcksISR, next.manager.options.Clock.Now()+patience)
	if answer.Code != cluster.CodeNone || answer.BaseOffset != record.Offset(len(values)) {
		t.Errorf("after it: %s at %d", answer.Code, answer.BaseOffset)
	}
}

// The batch before the last valid one is corrupt (5), or a segment in the middle is gone (22): the replica stays offline and is reported, nothing is cut from it
// and nothing of it is served, and the broker's other partitions are opened.
func TestCase5And22_DamagedReplicaIsReportedAndNotServed(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, disk *vfs.Mem){
		"5: last but one batch": func(t *testing.T, disk *vfs.Mem) {
			files := logFiles(t, disk, testTP)
			flip(t, disk, files[len(files)-1], int64(len(sent{values: []string{"small"}}.bytes(t)))+70) // the second of the last segment's three batches
		},
		"22: middle segment": func(t *testing.T, disk *vfs.Mem) {
			if err := disk.Remove(logFiles(t, disk, testTP)[2]); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			k := newKit(t, disk)
			k.topic(1, 1, smallSegments)
			k.fill(5)
			for i := range 3 { // the recovery point lies behind the first
				k.checkProduced(k.produce(sent{values: []string{"small"}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(5+i))
			}
			other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
			k.put(other, 1, 1, 1)
			k.reconcile()
			left := disk.CrashClone()
			damage(t, left)
			before := logFiles(t, left, testTP)
			report := k.restart(left)
			if report.Opened != 1 || !slices.Equal(report.Damaged, []cluster.TopicPartition{testTP}) {
				t.Fatalf("load report %+v", report)
			}
			k.reconcile()
			k.elect(1)
			if _, code := k.manager.Leader(testTP); code != cluster.CodeStorage {
				t.Errorf("its leader: %s", code)
			}
			for at := range record.Offset(8) {
				if res := k.read(at); res.Code == cluster.CodeNone {
					t.Errorf("read at %d gives %d bytes", at, res.Slice.Len())
				}
			}
			if after := logFiles(t, left, testTP); !slices.Equal(before, after) {
				t.Errorf("the files were %v and are %v", before, after)
			}
			if s, ok := k.manager.Get(other); !ok || s.Status().Role == RoleOffline {
				t.Error("the other partition is offline")
			}
		})
	}
}

func TestCase9_FailedFsyncThenTheReplicaRejoinsWithEverything(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewInjector(mem, nil)
	k := newKit(t, disk)
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	disk.Add(vfs.Rule{Op: vfs.OpSync, Glob: "*.log", Count: 1, Err: errDisk})
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeStorage, 1)
	k.outputs.await(t, "report", func() bool { return len(k.outputs.offline) == 1 })
	// A process that starts again reads the disk, not what the page cache said: the record that was not acknowledged is gone, or whole.
	if report := k.restart(mem.CrashClone()); report.Opened != 1 || len(report.Damaged) != 0 {
		t.Fatalf("load report %+v", report)
	}
	k.elect(1)
	k.checkValues("a")
	k.checkProduced(k.produce(sent{values: []string{"c"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "c")
}

// A bad block in an old segment: that read gets a storage error, as often as it is tried, and nothing else is touched.
func TestCase11_ReadErrorStaysWithItsRead(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewInjector(mem, nil)
	k := newKit(t, disk)
	k.topic(1, 1, smallSegments)
	values := k.fill(5)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	k.restart(mem.CrashClone()) // no file is open, and nothing is known to be whole
	mem, _ = k.fs.(*vfs.Mem)
	disk = vfs.NewInjector(mem, nil)
	k.restart(disk)
	k.elect(1)
	k.awaitStatus("leadership", func(s Status) bool { return s.Role == RoleLeader })
	disk.Add(vfs.Rule{Op: vfs.OpRead, Glob: path.Base(logFiles(t, mem, testTP)[2]), Err: syscall.EIO})
	for range 3 {
		if res := k.read(2); res.Code != cluster.CodeStorage || !errors.Is(res.Err, syscall.EIO) {
			t.Fatalf("read of the bad block: %s: %v", res.Code, res.Err)
		}
	}
	for _, at := range []record.Offset{0, 1, 3, 4} {
		res := k.read(at)
		if res.Code != cluster.CodeNone || res.Slice.Len() == 0 {
			t.Errorf("read at %d: %s: %v", at, res.Code, res.Err)
		}
		res.Slice.Release()
	}
	k.checkProduced(k.produce(sent{values: []string{"5"}, padding: 900}.bytes(t), AcksISR), cluster.CodeNone, 5)
	if s, ok := k.manager.Get(other); !ok || s.Status().Role == RoleOffline || len(k.outputs.offline) != 0 {
		t.Errorf("reported offline: %v", k.outputs.offline)
	}
	disk.Heal() // it was the cable
	k.checkValues(append(values, "5")...)
}

// stalledDisk holds the syncs of one directory's log files.
type stalledDisk struct {
	vfs.FS
	dir     string
	closed  atomic.Bool
	entered chan struct{} // capacity 1: a sync waits
	open    chan struct{} // closed: it may go on
}

func (d *stalledDisk) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	if err != nil || !strings.Contains(name, d.dir) || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &stalledFile{File: f, disk: d}, nil
}

type stalledFile struct {
	vfs.File
	disk *stalledDisk
}

func (f *stalledFile) Sync() error {
	if f.disk.closed.Load() {
		select {
		case f.disk.entered <- struct{}{}:
		default:
		}
		<-f.disk.open
	}
	return f.File.Sync()
}

// While the leader's fsync hangs, its followers are served what it has written, the broker's other partitions go on, and the waiting produce is answered at its
// deadline with an unknown outcome.
func TestCase26_AHangingFsyncHoldsUpNobodyElse(t *testing.T) {
	disk := &stalledDisk{FS: vfs.NewMem(), dir: testTP.String(), entered: make(chan struct{}, 1), open: make(chan struct{})}
	k := newKit(t, disk)
	r := k.topic(2, 1)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	follower, _ := k.image.Broker(2)
	sink := newSink()
	k.manager.Subscribe(2, follower.Epoch, session.Subscribe{ID: 7, Partition: testTP, LeaderEpoch: 1, LastEpoch: record.NoEpoch}, sink)
	reader := receive(t, sink.accepted)

	disk.closed.Store(true)
	answer := call(r, sent{values: []string{"a"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	receive(t, disk.entered)
	for { // the follower gets what is not flushed yet; wakes may come for nothing
		receive(t, sink.wakes)
		got, end, _, _, err := reader.ReadReplica(0, 1<<20)
		k.check(err)
		if got != nil {
			got.Release()
			if end != 1 {
				t.Errorf("the follower is served up to %d", end)
			}
			break
		}
	}
	k.manager.Ack(2, follower.Epoch, testTP, 1, session.Ack{ID: 7, LogEnd: 1, Flushed: 1})
	k.awaitStatus("ack", func(s Status) bool { return s.Followers[0].Flushed == 1 })
	neighbour, ok := k.manager.Get(other)
	if !ok {
		t.Fatal("no other partition")
	}
	k.checkProduced(k.answer(call(neighbour, sent{values: []string{"n"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)), cluster.CodeNone, 0)
	if s := r.Status(); s.HighWatermark != 0 || len(answer) != 0 {
		t.Errorf("acknowledged before the leader's own flush: %+v", s)
	}
	k.clock.pass(time.Minute)
	k.manager.deadlines.set(r, 1)
	k.checkProduced(k.answer(answer), cluster.CodeTimedOut, 0)
	if len(k.outputs.alters) != 0 {
		t.Errorf("the ISR is to change: %+v", k.outputs.alters)
	}
	close(disk.open)
	k.awaitStatus("flush", func(s Status) bool { return s.HighWatermark == 1 })
	k.checkValues("a")
}

// TestCase11_AStartThatCannotRebuildProducersReportsIt: the log opens, and what its producers have sent cannot be read. The replica is offline, and the controller must
// hear of it: it would be elected, and serve nothing.
func TestCase11_AStartThatCannotRebuildProducersReportsIt(t *testing.T) {
	k, mem := held(t, 2)
	dir := testDir + testTP.String()
	names, err := mem.ReadDir(dir)
	k.check(err)
	for _, name := range names {
		if strings.HasSuffix(name, ".snapshot") {
			k.check(mem.Remove(path.Join(dir, name)))
		}
	}
	disk := vfs.NewInjector(mem, nil)
	disk.Add(vfs.Rule{Op: vfs.OpRead, Glob: "*.log", Err: syscall.EIO})
	k.fs, k.options.FS = disk, disk
	report := k.start()
	if !slices.Equal(report.Failed, []cluster.TopicPartition{testTP}) || len(report.Damaged) != 0 || report.Opened != 0 || len(report.Logs) != 1 || report.Logs[0].Log.Known() {
		t.Errorf("load report %+v", report)
	}
	k.elect(1)
	if s := k.runner().Status(); s.Role != RoleOffline || !strings.Contains(s.Reason, syscall.EIO.Error()) {
		t.Errorf("status %+v", s)
	}
	disk.Heal()
	if report := k.restart(disk); report.Opened != 1 || len(report.Logs) != 1 || !report.Logs[0].Log.Known() {
		t.Errorf("after a restart %+v", report)
	}
	k.elect(1)
	k.checkValues("a")
}
