package partition

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// fill takes the last byte of a disk.
func fill(disk *vfs.Mem) { disk.SetCapacity(disk.Used()) }

// crashedRelaxed leaves one record in the local replica of two, written without a flush, and no room for the next start to note anything.
func crashedRelaxed(t *testing.T) (*kit, *vfs.Mem) {
	t.Helper()
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(2, 2, cluster.ConfigEntry{Key: "flush.policy", Value: "os"})
	k.isr(1, 2)
	k.elect(1)
	k.isr(1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksLeader), cluster.CodeNone, 0)
	k.abandon()
	fill(disk)
	return k, disk
}

// others puts n more topics of one replica into the metadata.
func (k *kit) others(n int) []cluster.TopicPartition {
	all := make([]cluster.TopicPartition, n)
	for i := range all {
		all[i] = cluster.TopicPartition{Topic: cluster.TopicID{100 + byte(i)}}
		k.put(all[i], 1, 1, 1)
	}
	return all
}

// TestCase13_ReplicasCreatedOnAFullDiskAreTriedAgain: they are offline while it lasts, and work when there is room, without a restart. The controller hears of both.
func TestCase13_ReplicasCreatedOnAFullDiskAreTriedAgain(t *testing.T) {
	disk := vfs.NewMem()
	var out bytes.Buffer // written by calls of this goroutine that wait
	k := newKit(t, disk, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&out, nil)); o.RecoveryWorkers = 1 })
	const more = createPass + 3
	all := append(k.others(more), testTP)
	fill(disk)
	k.topic(1, 1)
	for k.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), k.image), k.epoch) {
	}
	if s := k.runner().Status(); s.Role != RoleOffline || !strings.Contains(s.Reason, syscall.ENOSPC.Error()) {
		t.Fatalf("on a full disk: %+v", s)
	}
	if n := len(k.outputs.offline); n != len(all) || !segment.Full(k.outputs.offline[0]) {
		t.Fatalf("the controller is told of %d replicas that are offline, want %d: %v", n, len(all), k.outputs.offline)
	}
	before := out.Len()
	const tries = 100
	for range tries {
		k.manager.Retry()
	}
	if n := len(k.outputs.offline); n != len(all) || out.Len() != before || len(k.outputs.online) > 0 {
		t.Errorf("while the disk stays full, %d tries report %d replicas offline and %d online, and write %q", tries, n-len(all), len(k.outputs.online), out.String()[before:])
	}
	disk.SetCapacity(0)
	k.manager.Retry()
	if n := len(k.outputs.online); n != createPass {
		t.Errorf("the first try with room makes %d replicas, want %d: news must not wait for more", n, createPass)
	}
	k.manager.Retry()
	for _, tp := range all {
		r, _ := k.manager.Get(tp)
		if s := r.Status(); s.Role != RoleLeader {
			t.Errorf("%s after there was room: %+v", tp, s)
		}
	}
	if n := len(k.outputs.online); n != len(all) {
		t.Errorf("the controller is told of %d replicas that work, want %d", n, len(all))
	}
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	if report := k.restart(disk.CrashClone()); report.Opened != len(all) || len(report.Missing) > 0 {
		t.Errorf("after a power cut there is %+v", report)
	}
}

// TestCase13_EveryStepOfACreationMayFindTheDiskFull: also when the directory is there, and only the list of replicas has no room.
func TestCase13_EveryStepOfACreationMayFindTheDiskFull(t *testing.T) {
	for _, fails := range []vfs.Rule{
		{Op: vfs.OpMkdir, Glob: testTP.String(), Count: 2}, {Op: vfs.OpWrite, Glob: "partition.meta.tmp", Count: 2}, {Op: vfs.OpCreate, Glob: "*.log", Count: 2},
		{Op: vfs.OpWrite, Glob: inventoryFile + ".tmp", Count: 3}, // it is tried once more behind each change
	} {
		for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
			mem := vfs.NewMem()
			disk := vfs.NewInjector(mem, nil)
			k := newKit(t, disk)
			fails.Err = full
			disk.Add(fails)
			if r := k.topic(1, 1).Role(); r != RoleOffline {
				t.Fatalf("%v: role %v", fails, r)
			}
			k.manager.Retry()
			if r := k.runner().Role(); r != RoleOffline {
				t.Fatalf("%v: role %v after the disk was full again", fails, r)
			}
			k.manager.Retry()
			k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
			if report := k.restart(mem.CrashClone()); report.Opened != 1 || len(report.Missing) > 0 {
				t.Errorf("%v: after a power cut there is %+v", fails, report)
			}
		}
	}
}

// A log that recovery could not open for want of room, here of the note that its end was cut, is opened when there is some.
func TestCase13_ALogThatHadNoRoomToRecoverIsOpenedLater(t *testing.T) {
	k, disk := crashedRelaxed(t)
	report := k.start()
	if len(report.Damaged) != 1 || len(report.Failed) != 0 || report.Opened != 0 { // what it lacks is known, so it may not keep its place
		t.Fatalf("load report %+v", report)
	}
	k.elect(2)
	k.manager.Retry()
	if r := k.runner().Role(); r != RoleOffline {
		t.Fatalf("role %v on a full disk", r)
	}
	disk.SetCapacity(0)
	k.manager.Retry()
	if s := k.runner().Status(); s.Role != RoleFollower || s.LogEnd != 1 {
		t.Errorf("with room again: %+v", s)
	}
}

// A registration may take longer than the pause between two tries. Until the metadata has spoken nothing is known of what waits, and nothing of it is forgotten.
func TestCase13_NothingIsTriedAgainBeforeTheRegistration(t *testing.T) {
	k, disk := crashedRelaxed(t)
	k.start()
	k.manager.Retry()
	k.elect(2)
	disk.SetCapacity(0)
	k.manager.Retry()
	if s := k.runner().Status(); s.Role != RoleFollower || s.LogEnd != 1 {
		t.Errorf("with room again: %+v", s)
	}
}

// What failed for another reason stays as it is, and so does what nobody wants any more.
func TestCase13_OnlyWantOfRoomIsTriedAgain(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "partition.meta.tmp", Count: 1, Err: syscall.EIO})
	k.topic(1, 1)
	k.manager.Retry()
	if s := k.runner().Status(); s.Role != RoleOffline || len(k.outputs.online) > 0 {
		t.Errorf("after an I/O error: %+v", s)
	}
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "partition.meta.tmp", Count: 1, Err: syscall.ENOSPC})
	gone := k.others(1)[0]
	k.reconcile()
	topic, _ := k.image.Topic(gone.Topic)
	k.change(func(txn *cluster.Txn) {
		txn.DeletePartition(gone)
		txn.DeleteTopic(topic)
		txn.PutTombstone(cluster.Tombstone{Partition: gone, Directory: testDirectory})
	})
	k.reconcile()
	k.manager.Retry()
	if _, ok := k.manager.Get(gone); ok || k.there(testDir+gone.String()) {
		t.Error("a replica was made of a topic that is deleted")
	}
}

// TestCase13_AReplicaThatIsGoneIsNotOffline: the controller lets nobody into an ISR who has told it that the log failed. A replica that is moved away, and back
// later, is another one.
func TestCase13_AReplicaThatIsGoneIsNotOffline(t *testing.T) {
	for name, tombstone := range map[string]bool{"removed": true, "parked": false} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewInjector(vfs.NewMem(), nil)
			k := newKit(t, disk)
			k.topic(1, 1)
			whole := k.others(1)[0]
			k.reconcile()
			disk.Add(vfs.Rule{Op: vfs.OpSync, Glob: "*.log", Count: 1, Err: syscall.EIO})
			k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeStorage, 0)
			if r := k.runner().Role(); r != RoleOffline {
				t.Fatalf("role %v after a failed fsync", r)
			}
			k.change(func(txn *cluster.Txn) {
				for _, tp := range []cluster.TopicPartition{testTP, whole} {
					txn.DeletePartition(tp)
					if tombstone {
						txn.PutTombstone(cluster.Tombstone{Partition: tp, Directory: testDirectory})
					}
				}
			})
			k.reconcile()
			if _, ok := k.manager.Get(testTP); ok {
				t.Fatal("the replica is still there")
			}
			if !slices.Equal(k.outputs.online, []cluster.TopicPartition{testTP}) {
				t.Errorf("taken back for %v, want only the one that had failed", k.outputs.online)
			}
		})
	}
}

// A replica that finds the disk broken when there is room again stays offline, and says why.
func TestCase13_ADiskThatBreaksMeanwhile(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "partition.meta.tmp", Count: 1, Err: syscall.ENOSPC})
	k.topic(1, 1)
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "partition.meta.tmp", Count: 1, Err: syscall.EIO})
	k.manager.Retry()
	k.manager.Retry()
	if s := k.runner().Status(); s.Role != RoleOffline || !strings.Contains(s.Reason, syscall.EIO.Error()) {
		t.Errorf("status %+v", s)
	}
	if n := len(k.outputs.offline); n != 2 || !errors.Is(k.outputs.offline[1], syscall.EIO) {
		t.Errorf("the controller is told %v", k.outputs.offline)
	}
}
