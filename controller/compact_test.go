package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

func TestCase126_LargeEntriesAreCompactedByBytes(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0]
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	b.c.store.volume.limit = 1 << 20
	b.c.Start()
	formed(t, b)
	value := strings.Repeat("x", 256<<10)
	ctx := withPatience(t)
	for i := 0; ; i++ {
		b.setConfig("retention.ms", fmt.Sprint(i, value))
		snapshots, err := b.c.snaps.List()
		if err != nil {
			t.Fatal(err)
		}
		if first, err := b.c.store.FirstIndex(); err != nil || (len(snapshots) > 0 && first > 1) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the log was never cut")
		}
	}
	b.stop()
	b.start()
	b.until("the state", func(image *cluster.Image) bool { return strings.HasSuffix(b.config("retention.ms"), value) })
}

func TestTrailingEntriesFollowTheirSize(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]uint64{0: 8192, 100: 8192, 8 << 10: 2048, 512 << 10: trailingMin} {
		v := newLogVolume()
		v.add([]*raft.Log{{Data: make([]byte, size)}, {Data: make([]byte, size)}})
		if got := v.take(8192); got != want {
			t.Errorf("entries of %d bytes: %d stay, want %d", size, got, want)
		}
	}
}

func TestFullDiskReleasesTheReserve(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	formed(t, b)
	path := filepath.Join(b.cfg.Dir, reserveName)
	if info, err := os.Stat(path); err != nil || info.Size() != reserveSize || b.c.DiskShort() {
		t.Fatalf("no reserve: %v", err)
	}
	b.c.storeFailed(&StoreError{Path: b.c.store.path, Op: "append entries", Err: &os.PathError{Op: "write", Path: b.c.store.path, Err: syscall.ENOSPC}})
	var full *DiskFullError
	if err := b.failure(); !errors.As(err, &full) {
		t.Errorf("got %v, want a DiskFullError", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is still there: %v", err)
	}
	b.stop()
	b.start() // there is space again
	if _, err := os.Stat(path); err != nil || b.c.DiskShort() {
		t.Errorf("the reserve was not made again: %v", err)
	}
}

func TestCase128_RemovedVoterDoesNotDisturb(t *testing.T) {
	t.Parallel()
	network, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	removed := others(brokers, leader)[0]
	network.isolate(removed.cfg.Address)
	if err := leader.c.node.Load().raft.RemoveServer(removed.c.server, 0, time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	// Cut off, it stands for election again and again with its old configuration.
	ctx := withPatience(t)
	for removed.c.node.Load().raft.State() != raft.Candidate {
		waitAny(ctx, []<-chan struct{}{removed.c.leaderChanged(), after(20 * time.Millisecond)})
		if ctx.Err() != nil {
			t.Fatal("it never became a candidate")
		}
	}
	term := removed.c.Stats().Term
	network.heal(removed.cfg.Address)
	rest := others(brokers, removed)
	for i := range 50 { // about as long as three of its election timeouts
		rest[i%2].setConfig("retention.ms", fmt.Sprint(i))
		waitAny(ctx, []<-chan struct{}{after(30 * time.Millisecond)})
	}
	// Its pre-votes were refused, so it never raised its term, and asked nobody for a vote.
	if stats := removed.c.Stats(); stats.Term != term || removed.c.IsLeader() {
		t.Errorf("the removed voter came from term %d to %+v", term, stats)
	}
	if got := removed.config("retention.ms"); got != "" {
		t.Errorf("the removed voter was sent %q", got)
	}
}

// after closes a channel after d.
func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}
