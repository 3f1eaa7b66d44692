package controller

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// watchedSnapshots counts the snapshots that are read back, and may have no space for new ones.
type watchedSnapshots struct {
	raft.SnapshotStore
	mu     sync.Mutex // guards what follows
	opened []uint64   // indexes
	fault  error      // of what is written from now on
	where  sinkCall
	calls  map[sinkCall]int
}

// sinkCall is where a snapshot fails.
type sinkCall string

const (
	sinkCreate sinkCall = "create"
	sinkWrite  sinkCall = "write"
	sinkClose  sinkCall = "close"
	sinkCancel sinkCall = "cancel"
)

// restored counts the snapshots of later than an index that were read.
func (w *watchedSnapshots) restored(after uint64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, index := range w.opened {
		if index > after {
			n++
		}
	}
	return n
}

func (w *watchedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, source, err := w.SnapshotStore.Open(id)
	if err == nil {
		w.mu.Lock()
		w.opened = append(w.opened, meta.Index)
		w.mu.Unlock()
	}
	return meta, source, err
}

// fails gives the error of a call, and counts it.
func (w *watchedSnapshots) fails(call sinkCall) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[sinkCall]int{}
	}
	w.calls[call]++
	if w.fault != nil && w.where == call {
		return w.fault
	}
	return nil
}

func (w *watchedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	if err := w.fails(sinkCreate); err != nil {
		return nil, err
	}
	sink, err := w.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	return &watchedSink{sink, w}, nil
}

type watchedSink struct {
	raft.SnapshotSink
	store *watchedSnapshots
}

func (s *watchedSink) Write(p []byte) (int, error) {
	if err := s.store.fails(sinkWrite); err != nil { // a short write
		n, _ := s.SnapshotSink.Write(p[:len(p)/2])
		return n, err
	}
	return s.SnapshotSink.Write(p)
}

func (s *watchedSink) Close() error {
	if err := s.store.fails(sinkClose); err != nil {
		_ = s.SnapshotSink.Cancel() // as Raft's own does when it cannot finish
		return err
	}
	return s.SnapshotSink.Close()
}

func (s *watchedSink) Cancel() error {
	_ = s.store.fails(sinkCancel)
	return s.SnapshotSink.Cancel()
}

// A snapshot that cannot be written, wherever its disk fails it: the old one and the log stay, what was begun is removed, the broker goes on, and the next attempt
// succeeds when there is space.
func TestCase15_FullDiskWhileASnapshotIsWritten(t *testing.T) {
	t.Parallel()
	for _, where := range []sinkCall{sinkCreate, sinkWrite, sinkClose} {
		for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
			t.Run(fmt.Sprint(where, cause), func(t *testing.T) {
				_, brokers := testCluster(t, 1)
				b := brokers[0]
				b.cfg.TrailingLogs = 1
				if err := b.open(); err != nil {
					t.Fatal(err)
				}
				disk := &watchedSnapshots{SnapshotStore: b.c.snaps.inner}
				b.c.snaps.inner = disk
				b.c.Start()
				b.cfg.Cluster = formed(t, b)
				b.setConfig("retention.ms", "1")
				b.snapshot()
				before, err := b.c.snaps.newest()
				if err != nil {
					t.Fatal(err)
				}
				b.setConfig("retention.ms", "2")
				first, err := b.c.store.FirstIndex()
				if err != nil {
					t.Fatal(err)
				}
				disk.mu.Lock()
				disk.fault, disk.where = cause, where
				disk.mu.Unlock()
				if err := b.c.node.Load().raft.Snapshot().Error(); err == nil {
					t.Error("a snapshot was taken")
				}
				if now, err := b.c.store.FirstIndex(); err != nil || now != first {
					t.Errorf("the log began at %d and begins at %d (%v)", first, now, err)
				}
				entries, err := os.ReadDir(b.c.snaps.dir)
				if err != nil || len(entries) != 1 || entries[0].Name() != before.ID {
					t.Errorf("the snapshots are %v (%v), want %s alone", entries, err, before.ID)
				}
				b.setConfig("retention.ms", "3") // it goes on
				select {
				case err := <-b.failed:
					t.Errorf("the broker stopped: %v", err)
				default:
				}
				disk.mu.Lock()
				disk.fault = nil
				disk.mu.Unlock()
				b.snapshot()
				if after, err := b.c.snaps.newest(); err != nil || after.Index <= before.Index {
					t.Errorf("no newer snapshot: %+v, %v", after, err)
				}
				b.stop()
				b.start()
				b.until("everything", func(*cluster.Image) bool { return b.config("retention.ms") == "3" })
			})
		}
	}
}
