package partition

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
)

const testDir = "data/partitions/"

// held leads the test partition of n replicas with one record in it, closed in good order.
func held(t *testing.T, n int) (*kit, *vfs.Mem) {
	t.Helper()
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(n, 1)
	k.isr(1)
	k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.check(k.manager.Close(context.Background()))
	return k, disk
}

// state changes the test partition's state and tells the manager.
func (k *kit) state(change func(*cluster.Partition)) {
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	change(p)
	p.LeaderEpoch++
	p.PartitionEpoch++
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
}

func (k *kit) there(path string) bool {
	_, err := k.fs.Stat(path)
	return err == nil
}

// A partition's directory, or all of them, is moved away while its broker is stopped.
func TestCase40_AMissingDirectoryIsReportedAndNotReplaced(t *testing.T) {
	for name, path := range map[string]string{"one": testDir + testTP.String(), "all": strings.TrimSuffix(testDir, "/")} {
		t.Run(name, func(t *testing.T) {
			k, disk := held(t, 1)
			k.check(disk.Rename(path, "data/elsewhere"))
			report := k.start()
			if !slices.Equal(report.Missing, []cluster.TopicPartition{testTP}) || report.Opened != 0 {
				t.Fatalf("load report %+v", report)
			}
			k.elect(1)
			if s := k.runner().Status(); s.Role != RoleOffline || s.Topic != "t7" || s.Reason != ErrMissing.Error() {
				t.Errorf("status %+v", s)
			}
			k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeStorage, -1)
			if len(k.outputs.offline) != 1 || !errors.Is(k.outputs.offline[0], ErrMissing) {
				t.Errorf("the controller, who has made it the leader, is told %v", k.outputs.offline)
			}
			if k.there(testDir + testTP.String()) {
				t.Error("an empty log was put in the place of the missing one")
			}
			if again := k.restart(disk.CrashClone()); !slices.Equal(again.Missing, report.Missing) {
				t.Errorf("the next start finds %+v", again)
			}
			// It is found elsewhere, and put back.
			k.check(k.manager.Close(context.Background()))
			k.check(k.fs.(*vfs.Mem).RemoveAll(path))
			k.check(k.fs.(*vfs.Mem).Rename("data/elsewhere", path))
			if report := k.start(); report.Opened != 1 || len(report.Missing) != 0 {
				t.Fatalf("load report %+v", report)
			}
			k.elect(1)
			k.checkValues("a")
		})
	}
}

func TestCase40_AMissingReplicaIsCopiedAnewWhenNobodyCountsOnIt(t *testing.T) {
	for name, c := range map[string]struct {
		state func(*cluster.Partition)
		anew  bool
	}{
		"in the ISR":             {func(p *cluster.Partition) { p.Leader, p.ISR = 2, []cluster.BrokerID{1, 2} }, false},
		"in the ELR":             {func(p *cluster.Partition) { p.Leader, p.ISR, p.ELR = 2, []cluster.BrokerID{2}, []cluster.BrokerID{1} }, false},
		"nobody leads":           {func(p *cluster.Partition) { p.Leader, p.ISR = cluster.NoBroker, nil }, false},
		"another leads":          {func(p *cluster.Partition) { p.Leader, p.ISR = 2, []cluster.BrokerID{2} }, true},
		"leads":                  {func(p *cluster.Partition) { p.Leader, p.ISR = 1, []cluster.BrokerID{1} }, false},
		"elected without a copy": {func(p *cluster.Partition) { p.Leader, p.ISR, p.UncleanLast = 1, []cluster.BrokerID{1}, true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			k, disk := held(t, 2)
			k.check(disk.RemoveAll(testDir + testTP.String()))
			k.start()
			k.state(func(p *cluster.Partition) { p.Leader, p.ISR = cluster.NoBroker, nil })
			k.state(c.state)
			s := k.runner().Status()
			if (s.Role != RoleOffline) != c.anew || k.there(testDir+testTP.String()) != c.anew {
				t.Errorf("status %+v", s)
			}
			want := []cluster.TopicPartition{testTP}
			if c.anew {
				want = nil
			}
			if report := k.restart(disk.CrashClone()); !slices.Equal(report.Missing, want) {
				t.Errorf("the next start finds %+v", report)
			}
		})
	}
}

// All brokers lose power right after a topic was created: nothing was acknowledged, so an empty replica is complete, whatever had reached the disk.
func TestCase60_PowerCutInACreation(t *testing.T) {
	for _, fails := range []vfs.Rule{
		{Op: vfs.OpSyncDir, Glob: "partitions"}, {Op: vfs.OpRename, Glob: "partition.meta.tmp"},
		{Op: vfs.OpSync, Glob: inventoryFile + ".tmp"}, {Op: vfs.OpRename, Glob: inventoryFile + ".tmp"}, {Op: vfs.OpSyncDir, Glob: "data"},
	} {
		mem := vfs.NewMem()
		disk := vfs.NewInjector(mem, nil)
		k := newKit(t, disk)
		fails.Err = syscall.EIO
		disk.Add(fails)
		k.topic(1, 1)
		if s := k.runner().Status(); s.Role != RoleOffline { // it stops there
			t.Fatalf("%v: status %+v", fails, s)
		}
		if report := k.restart(mem.CrashClone()); len(report.Missing) != 0 {
			t.Errorf("%v: load report %+v", fails, report)
		}
		k.elect(1)
		k.checkProduced(k.produce(sent{values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	}
}

// What metadata takes away is not missed.
func TestInventory_ForgetsWhatIsRemoved(t *testing.T) {
	k, disk := held(t, 1)
	k.check(disk.RemoveAll(testDir + testTP.String()))
	k.start()
	topic, _ := k.image.Topic(testTopic)
	k.change(func(txn *cluster.Txn) { txn.DeletePartition(testTP); txn.DeleteTopic(topic) })
	k.reconcile()
	if len(k.outputs.parked) != 0 || len(k.manager.sorted()) != 0 {
		t.Errorf("parked %v, %d replicas are left", k.outputs.parked, len(k.manager.sorted()))
	}
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	k.put(other, 1, 1, 1)
	k.reconcile()
	topic, _ = k.image.Topic(other.Topic)
	k.change(func(txn *cluster.Txn) {
		txn.DeletePartition(other)
		txn.DeleteTopic(topic)
		txn.PutTombstone(cluster.Tombstone{Partition: other, Directory: testDirectory})
	})
	k.reconcile()
	if report := k.restart(disk.CrashClone()); len(report.Missing) != 0 || report.Opened != 0 {
		t.Errorf("load report %+v", report)
	}
}

// A data directory of a version that kept no list has one after its first start, and an operator who takes a line away accepts the loss.
func TestInventory_BeginsAndEndsWithALine(t *testing.T) {
	k, disk := held(t, 1)
	list := filepath.Join("data", inventoryFile)
	k.check(disk.Remove(list))
	if report := k.start(); report.Opened != 1 {
		t.Fatalf("load report %+v", report)
	}
	text, err := vfs.ReadFile(disk, list, 1<<10)
	k.check(err)
	if want := inventoryHeader + "\n" + testTP.String() + " t7\n"; string(text) != want {
		t.Errorf("list %q, want %q", text, want)
	}
	k.check(k.manager.Close(context.Background()))
	k.check(disk.RemoveAll(testDir + testTP.String()))
	k.check(vfs.WriteFileAtomic(disk, "data", list, []byte(inventoryHeader+"\nno replica\n")))
	if report := k.start(); len(report.Missing) != 0 {
		t.Fatalf("load report %+v", report)
	}
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
}

// TestInventory_ThatCannotBeReadIsRefusedWithTheRemedy: the message names the file, what is wrong and what to do, and nothing is changed.
func TestInventory_ThatCannotBeReadIsRefusedWithTheRemedy(t *testing.T) {
	list := filepath.Join("data", inventoryFile)
	for text, says := range map[string]string{
		"": remedyInventory, "moldau-replicas": remedyInventory, "moldau-replicas 1 \n": remedyInventory, "\x00\x00\x00\n": remedyInventory, "moldau-replicas 0\n": remedyInventory,
		strings.Repeat("x", 1<<10): remedyInventory, "moldau-replicas 2\n": "use the version that wrote it",
	} {
		k, disk := held(t, 1)
		k.check(vfs.WriteFileAtomic(disk, "data", list, []byte(text)))
		m, err := NewManager(k.options)
		k.check(err)
		_, err = m.Load(context.Background())
		k.check(m.Close(context.Background()))
		if err == nil || !strings.Contains(err.Error(), list) || !strings.Contains(err.Error(), says) || len(err.Error()) > 600 {
			t.Errorf("%.20q: %v", text, err)
		}
		if after, err := vfs.ReadFile(disk, list, 1<<20); err != nil || string(after) != text {
			t.Errorf("%.20q: the file was changed to %q, %v", text, after, err)
		}
		// In whichever way it is damaged, without it the broker starts with what is there.
		k.check(disk.Remove(list))
		if report := k.start(); report.Opened != 1 || len(report.Missing) != 0 {
			t.Errorf("%.20q: load report %+v", text, report)
		}
	}
}

// TestIdentity_ThatIsDamagedIsToldWithTheRemedy: the replica counts as missing, the log says what to do, and with the file of another replica it is back.
func TestIdentity_ThatIsDamagedIsToldWithTheRemedy(t *testing.T) {
	k, disk := held(t, 1)
	dir := testDir + testTP.String()
	file := filepath.Join(dir, "partition.meta")
	good, err := vfs.ReadFile(disk, file, 1<<10)
	k.check(err)
	k.check(vfs.WriteFileAtomic(disk, dir, file, good[:10]))
	var out bytes.Buffer
	k.options.Log = slog.New(slog.NewTextHandler(&out, nil))
	if report := k.start(); !slices.Equal(report.Missing, []cluster.TopicPartition{testTP}) || len(report.Strange) != 1 {
		t.Errorf("load report %+v", report)
	}
	k.check(k.manager.Close(context.Background()))
	if text := out.String(); !strings.Contains(text, "partition.meta of "+dir) || !strings.Contains(text, "docs/operations.md") {
		t.Errorf("the log does not say what is wrong and what to do: %s", text)
	}
	k.check(vfs.WriteFileAtomic(disk, dir, file, good))
	if report := k.start(); report.Opened != 1 || len(report.Missing) != 0 {
		t.Errorf("load report %+v", report)
	}
	k.elect(1)
	k.checkValues("a")
}

// TestCase11_AnIdentityThatTheDiskDoesNotGive: the name says whose the directory is, and an error of the disk says nothing against what is in it. Such a replica is one that could
// not be opened, and not one that is missing, whether the list of replicas knows it or has yet to be written.
func TestCase11_AnIdentityThatTheDiskDoesNotGive(t *testing.T) {
	for name, listed := range map[string]bool{"listed": true, "not listed": false} {
		t.Run(name, func(t *testing.T) {
			k, mem := held(t, 1)
			if !listed {
				k.check(mem.Remove(filepath.Join("data", inventoryFile)))
			}
			for _, fails := range []vfs.Rule{
				{Op: vfs.OpOpen, Glob: "partition.meta", Count: 1, Err: syscall.EMFILE}, {Op: vfs.OpRead, Glob: "partition.meta", Count: 1, Err: syscall.EIO},
			} {
				disk := vfs.NewInjector(mem, nil)
				disk.Add(fails)
				k.fs, k.options.FS = disk, disk
				report := k.start()
				if !slices.Equal(report.Failed, []cluster.TopicPartition{testTP}) || len(report.Missing)+len(report.Damaged)+len(report.Strange)+report.Opened != 0 {
					t.Fatalf("%v: load report %+v", fails, report)
				}
				if want := []cluster.ReplicaLog{{Partition: testTP, Log: cluster.UnknownLog}}; !slices.Equal(report.Logs, want) {
					t.Errorf("%v: the registration tells %+v, want %+v", fails, report.Logs, want)
				}
				k.elect(1)
				k.manager.Retry()
				if s := k.runner().Status(); s.Role != RoleOffline || !strings.Contains(s.Reason, fails.Err.Error()) || listed && s.Topic != "t7" {
					t.Errorf("%v: status %+v", fails, s)
				}
				k.check(k.manager.Close(context.Background()))
			}
			if report := k.start(); report.Opened != 1 || len(report.Missing)+len(report.Failed) != 0 {
				t.Fatalf("with a disk that works: load report %+v", report)
			}
			k.elect(1)
			k.checkValues("a")
			k.check(k.manager.Close(context.Background()))
			k.check(mem.RemoveAll(testDir + testTP.String()))
			if report := k.start(); !slices.Equal(report.Missing, []cluster.TopicPartition{testTP}) {
				t.Errorf("without the directory: load report %+v", report)
			}
		})
	}
}

// The directory of a replica that is not open is removed also where an earlier deletion of it has failed half-way.
func TestRemoval_OverALeftover(t *testing.T) {
	mem := vfs.NewMem()
	for _, name := range []string{testTP.String(), testTP.String() + deletedSuffix} {
		if err := mem.MkdirAll(testDir + name + "/kept"); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeDir(mem, filepath.Clean(testDir), testTP); err != nil {
		t.Errorf("remove: %v", err)
	}
	if names, err := mem.ReadDir(testDir); err != nil || len(names) != 0 {
		t.Errorf("directories left: %v, %v", names, err)
	}
}
