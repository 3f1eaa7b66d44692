package partition

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// watchedFS notes what is read and what is changed in each directory.
type watchedFS struct {
	vfs.FS
	mu   sync.Mutex // guards seen
	seen map[string]*visit
}

// visit is what was done in one directory.
type visit struct {
	logs    map[string]int64 // bytes read of each segment file, 0 for one that was only opened
	beside  int64            // bytes read of all other files
	changes []string         // writes, syncs, and changes of names
}

func watch(fs vfs.FS) *watchedFS { return &watchedFS{FS: fs, seen: map[string]*visit{}} }

// in runs f on the visit of a directory.
func (w *watchedFS) in(dir string, f func(v *visit)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[dir] == nil {
		w.seen[dir] = &visit{logs: map[string]int64{}}
	}
	f(w.seen[dir])
}

func (w *watchedFS) changed(what, file string) {
	w.in(path.Dir(file), func(v *visit) { v.changes = append(v.changes, what+" "+path.Base(file)) })
}

// Open implements vfs.FS.
func (w *watchedFS) Open(name string) (vfs.File, error) { return w.OpenFile(name, vfs.ReadOnly) }

// Create implements vfs.FS.
func (w *watchedFS) Create(name string) (vfs.File, error) { return w.OpenFile(name, vfs.Truncated) }

// OpenFile implements vfs.FS.
func (w *watchedFS) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	if flag != vfs.ReadOnly && flag != vfs.ReadWrite {
		w.changed("create", name)
	}
	f, err := w.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	w.noteRead(name, 0)
	return &watchedFile{f, w, name}, nil
}

func (w *watchedFS) noteRead(name string, n int) {
	w.in(path.Dir(name), func(v *visit) {
		if strings.HasSuffix(name, ".log") {
			v.logs[path.Base(name)] += int64(n)
		} else {
			v.beside += int64(n)
		}
	})
}

// Remove implements vfs.FS.
func (w *watchedFS) Remove(name string) error {
	w.changed("remove", name)
	return w.FS.Remove(name)
}

// Rename implements vfs.FS.
func (w *watchedFS) Rename(from, to string) error {
	w.changed("rename", to)
	return w.FS.Rename(from, to)
}

// SyncDir implements vfs.FS.
func (w *watchedFS) SyncDir(dir string) error {
	w.in(dir, func(v *visit) { v.changes = append(v.changes, "syncdir") })
	return w.FS.SyncDir(dir)
}

type watchedFile struct {
	vfs.File
	fs   *watchedFS
	name string
}

// ReadAt implements io.ReaderAt.
func (f *watchedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.fs.noteRead(f.name, n)
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *watchedFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.changed("write", f.name)
	return f.File.WriteAt(b, at)
}

// Write implements io.Writer.
func (f *watchedFile) Write(b []byte) (int, error) {
	f.fs.changed("write", f.name)
	return f.File.Write(b)
}

// Sync implements vfs.File.
func (f *watchedFile) Sync() error {
	f.fs.changed("sync", f.name)
	return f.File.Sync()
}

// manyPartitions makes a topic of n partitions, all led here.
func (k *kit) manyPartitions(n int) []cluster.TopicPartition {
	topic := cluster.TopicID{8}
	out := make([]cluster.TopicPartition, n)
	k.change(func(txn *cluster.Txn) {
		txn.PutTopic(&cluster.Topic{ID: topic, Name: "many", Partitions: int32(n), ReplicationFactor: 1, Configs: []cluster.ConfigEntry{smallSegments}})
		for i := range out {
			out[i] = cluster.TopicPartition{Topic: topic, Partition: int32(i)}
		}
	})
	k.lead(out, 1)
	return out
}

// lead begins a leader epoch of each partition.
func (k *kit) lead(partitions []cluster.TopicPartition, epoch record.LeaderEpoch) {
	k.change(func(txn *cluster.Txn) {
		for _, tp := range partitions {
			txn.PutPartition(tp, &cluster.Partition{
				Leader: 1, LeaderEpoch: epoch, PartitionEpoch: cluster.PartitionEpoch(epoch), Replicas: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{1},
				Directories: []cluster.DirectoryID{directoryOf(1)},
			})
		}
	})
	for k.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), k.image), k.epoch) {
	}
}

// fillEach produces count records to every partition, each in a segment of its own.
func (k *kit) fillEach(partitions []cluster.TopicPartition, count int) {
	k.t.Helper()
	batch := sent{values: []string{"v"}, padding: 900}.bytes(k.t)
	for range count {
		answers := make([]<-chan ProduceResult, len(partitions))
		for i, tp := range partitions {
			r, ok := k.manager.Get(tp)
			if !ok {
				k.t.Fatalf("no replica of %s", tp)
			}
			answers[i] = call(r, append([]byte(nil), batch...), AcksISR, k.clock.Now()+patience)
		}
		for _, answer := range answers {
			if res := k.answer(answer); res.Code != cluster.CodeNone {
				k.t.Fatalf("produce: %s", res.Code)
			}
		}
	}
}

// Case 126: what a start does for each of many partitions. After an orderly stop it reads what lies beside the log, opens no segment file and changes nothing on disk. After a
// crash it reads the segments above the recovery point, twice at most (once to recover, once for what producers have sent since their last snapshot), and none below it, however
// long the log is. BenchmarkCase126_Restart has the time of ten thousand.
func TestCase126_WhatAStartReadsOfEachPartition(t *testing.T) {
	const partitions, before, after = 100, 12, 2
	disk := vfs.NewMem()
	k := newKit(t, disk)
	all := k.manyPartitions(partitions)
	k.fillEach(all, before)
	k.check(k.manager.Close(context.Background()))

	clean := watch(disk)
	k.fs, k.options.FS = clean, clean
	report := k.start()
	if report.Opened != partitions || report.Unclean != 0 {
		t.Fatalf("after an orderly stop: %+v", report)
	}
	for _, tp := range all {
		clean.in("data/partitions/"+tp.String(), func(v *visit) {
			if len(v.logs) > 0 || len(v.changes) > 0 || v.beside == 0 || v.beside > 4<<10 {
				t.Errorf("after an orderly stop a start reads %v and %d bytes beside them, and changes %v", v.logs, v.beside, v.changes)
			}
		})
	}

	k.lead(all, 2) // as after the registration of the new life
	k.fillEach(all, after)
	unclean := watch(disk.CrashClone())
	report = k.restart(unclean)
	if report.Opened != partitions || report.Unclean != partitions {
		t.Fatalf("after a crash: %+v", report)
	}
	for _, tp := range all {
		unclean.in("data/partitions/"+tp.String(), func(v *visit) {
			var read int64
			for name, n := range v.logs {
				var base record.Offset
				if _, err := fmt.Sscanf(name, "%d.log", &base); err != nil || base < before-1 && n > 0 {
					t.Errorf("%d bytes of segment %s are read, which lies below the recovery point: %v", n, name, err)
				}
				read += n
			}
			if most := int64((after+1)*2) << 10; read == 0 || read > most {
				t.Errorf("after a crash %d bytes of log are read: %v; want at most %d", read, v.logs, most)
			}
		})
	}
}

// unsynced is the real file system without waiting for the disk, to set a benchmark up.
type unsynced struct{ vfs.OS }

// OpenFile implements vfs.FS.
func (u unsynced) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	f, err := u.OS.OpenFile(name, flag)
	return unsyncedFile{f}, err
}

// Create implements vfs.FS.
func (u unsynced) Create(name string) (vfs.File, error) { return u.OpenFile(name, vfs.Truncated) }

// SyncDir implements vfs.FS.
func (unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

// Sync implements vfs.File.
func (unsyncedFile) Sync() error { return nil }

// BenchmarkCase126_Restart is the recovery of ten thousand logs in real files, four segments of a kilobyte each: after an orderly stop, and after a crash. What is read is in the
// page cache.
func BenchmarkCase126_Restart(b *testing.B) {
	const partitions = 10_000
	for name, finish := range map[string]func(*kit){
		"clean": func(k *kit) { k.check(k.manager.Close(context.Background())) },
		"crash": (*kit).abandon,
	} {
		b.Run(name, func(b *testing.B) {
			k := newKitAt(b, unsynced{}, b.TempDir()+"/data")
			k.fillEach(k.manyPartitions(partitions), 4)
			finish(k)
			k.options.FS = vfs.OS{}
			for b.Loop() {
				report := k.start()
				b.StopTimer()
				if report.Opened != partitions || (report.Unclean > 0) != (name == "crash") {
					b.Fatalf("%+v", report)
				}
				finish(k)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/partitions, "us/partition")
		})
	}
}
