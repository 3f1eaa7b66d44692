package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// storeOp is a call of Raft's to its stores.
type storeOp string

const (
	opAppend storeOp = "append"
	opCut    storeOp = "cut"
	opRead   storeOp = "read"
	opTerm   storeOp = "term"
	opVote   storeOp = "vote"
)

// faultyStore fails calls by rule, before or after it has done what they ask for.
type faultyStore struct {
	boltStore
	mu    sync.Mutex // guards what follows
	fault fault
	armed bool
	calls int // that write, made after the first failure
	tried bool
}

// fault is one rule.
type fault struct {
	op    storeOp
	err   error
	after bool // it is done all the same: what a failed fsync leaves behind
	once  bool // the next call would succeed
}

// inject puts a faultyStore under an opened controller.
func (b *testBroker) inject() *faultyStore {
	f := &faultyStore{boltStore: b.c.store.inner}
	b.c.store.inner = f
	return f
}

func (f *faultyStore) arm(rule fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.armed, f.tried, f.calls = rule, true, false, 0
}

func (f *faultyStore) callsAfter() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *faultyStore) do(op storeOp, call func() error) error {
	f.mu.Lock()
	rule, fails := f.fault, f.armed && f.fault.op == op
	if f.tried && op != opRead {
		f.calls++
	}
	if fails {
		f.tried, f.armed = true, !rule.once
	}
	f.mu.Unlock()
	if !fails {
		return call()
	}
	if rule.after {
		if err := call(); err != nil {
			return err
		}
	}
	return rule.err
}

func (f *faultyStore) StoreLogs(entries []*raft.Log) error {
	return f.do(opAppend, func() error { return f.boltStore.StoreLogs(entries) })
}

func (f *faultyStore) DeleteRange(first, last uint64) error {
	return f.do(opCut, func() error { return f.boltStore.DeleteRange(first, last) })
}

func (f *faultyStore) GetLog(index uint64, entry *raft.Log) error {
	return f.do(opRead, func() error { return f.boltStore.GetLog(index, entry) })
}

func (f *faultyStore) SetUint64(key []byte, value uint64) error {
	op := opVote
	if string(key) == "CurrentTerm" {
		op = opTerm
	}
	return f.do(op, func() error { return f.boltStore.SetUint64(key, value) })
}

func (f *faultyStore) Set(key, value []byte) error {
	return f.do(opVote, func() error { return f.boltStore.Set(key, value) })
}

// startFaulty starts brokers whose stores can be made to fail, and whose leader does not change because the machine is busy.
func startFaulty(t *testing.T, brokers []*testBroker) map[*testBroker]*faultyStore {
	t.Helper()
	stores := map[*testBroker]*faultyStore{}
	for _, b := range brokers {
		b.cfg.RaftHeartbeat, b.cfg.RaftElection, b.cfg.RaftLease = time.Second, time.Second, time.Second
		if err := b.open(); err != nil {
			t.Fatal(err)
		}
		stores[b] = b.inject()
	}
	for _, b := range brokers {
		b.c.Start()
	}
	return stores
}

// checkStoreFailure looks at what a broker says when its store has failed.
func checkStoreFailure(t *testing.T, err, cause error) {
	t.Helper()
	var failure *StoreError
	if !errors.As(err, &failure) || !errors.Is(err, cause) {
		t.Fatalf("got %v, want a StoreError for %v", err, cause)
	}
	if !strings.Contains(err.Error(), storeFile) || failure.Remedy == "" {
		t.Errorf("the message names no file or remedy: %v", err)
	}
	var full *DiskFullError
	if got := errors.As(err, &full); got != errors.Is(cause, syscall.ENOSPC) {
		t.Errorf("told as a full disk: %v, for %v", got, cause)
	}
}

var errShortWrite = errors.New("short write")

// An append that fails at the leader: the process stops with a message, its proposer is told that the outcome is unknown, whether the entry is on the disk or not, and
// nothing that was acknowledged is lost.
func TestStoreErrors_AppendAtTheLeader(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC, errShortWrite} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(cause, after), func(t *testing.T) {
				t.Parallel()
				_, brokers := testCluster(t, 3)
				stores := startFaulty(t, brokers)
				id := formed(t, brokers...)
				leader := leaderOf(t, brokers...)
				leader.setConfig("retention.ms", "1")
				stores[leader].arm(fault{op: opAppend, err: cause, after: after, once: true})
				_, err := leader.c.Propose(withPatience(t), configCommand("retention.ms", "2"))
				var refusal *cluster.Error
				if !errors.As(err, &refusal) || refusal.Code != cluster.CodeTimedOut {
					t.Errorf("the proposer is told %v", err)
				}
				checkStoreFailure(t, leader.failure(), cause)
				if leader.c.IsLeader() {
					t.Error("it leads on")
				}
				rest := others(brokers, leader)
				leaderOf(t, rest...)
				acked := rest[0].setConfig("segment.ms", "3").Index
				leader.stop()
				if n := stores[leader].callsAfter(); n != 0 {
					t.Errorf("the store was written to %d times after it had failed", n)
				}
				leader.cfg.Cluster = id
				leader.start()
				for _, b := range brokers {
					if err := b.c.WaitApplied(withPatience(t), acked); err != nil {
						t.Fatal(err)
					}
					if b.config("segment.ms") != "3" || b.config("retention.ms") != leader.config("retention.ms") || b.config("retention.ms") == "" {
						t.Errorf("broker %d has %q and %q", b.cfg.Broker, b.config("segment.ms"), b.config("retention.ms"))
					}
				}
			})
		}
	}
}

func configCommand(key, value string) cluster.AlterConfigs {
	return cluster.AlterConfigs{
		Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Ops: []cluster.ConfigOp{{Key: key, Value: value}},
	}
}

// An append that fails at a follower: that follower stops, the others go on. When it fails at both, nothing is acknowledged that only the leader has, not even when a
// second attempt at the followers would succeed.
func TestStoreErrors_AppendAtFollowers(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	stores := startFaulty(t, brokers)
	id := formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	rest := others(brokers, leader)
	stores[rest[0]].arm(fault{op: opAppend, err: syscall.EIO, once: true})
	leader.setConfig("retention.ms", "1")
	checkStoreFailure(t, rest[0].failure(), syscall.EIO)
	stores[rest[1]].arm(fault{op: opAppend, err: syscall.EIO, once: true})
	_, err := leader.c.Propose(withPatience(t), configCommand("retention.ms", "2"))
	var refusal *cluster.Error
	if !errors.As(err, &refusal) || refusal.Code != cluster.CodeTimedOut {
		t.Errorf("with no follower that stores it, the proposer is told %v", err)
	}
	checkStoreFailure(t, rest[1].failure(), syscall.EIO)
	if got := leader.config("retention.ms"); got != "1" {
		t.Errorf("retention.ms is %q", got)
	}
	for _, b := range rest {
		b.stop()
		if n := stores[b].callsAfter(); n != 0 {
			t.Errorf("the store of broker %d was written to %d times after it had failed", b.cfg.Broker, n)
		}
		b.cfg.Cluster = id
		b.start()
	}
	rest[0].setConfig("segment.ms", "3")
	for _, b := range brokers {
		b.until("what was acknowledged", func(*cluster.Image) bool { return b.config("segment.ms") == "3" && b.config("retention.ms") != "" })
	}
}

// A vote or a term that cannot be written, by the candidate or by who is asked for a vote: it stops, with its message and without a panic of the library, and its
// vote does not count.
func TestStoreErrors_VoteAndTerm(t *testing.T) {
	t.Parallel()
	for _, op := range []storeOp{opVote, opTerm} {
		for _, who := range []string{"candidate", "voter"} {
			t.Run(string(op)+" of the "+who, func(t *testing.T) {
				t.Parallel()
				_, brokers := testCluster(t, 3)
				stores := startFaulty(t, brokers)
				id := formed(t, brokers...)
				leader := leaderOf(t, brokers...)
				leader.setConfig("retention.ms", "1")
				rest := others(brokers, leader)
				broken, other := rest[0], rest[1]
				stores[broken].arm(fault{op: op, err: syscall.EIO, once: true})
				leader.stop()
				stands := broken
				if who == "voter" {
					stands = other
				}
				stands.c.node.Load().trans.electNow()
				checkStoreFailure(t, broken.failure(), syscall.EIO)
				if broken.c.IsLeader() || other.c.IsLeader() {
					t.Error("one of two became leader with a vote that was not stored")
				}
				broken.stop()
				if n := stores[broken].callsAfter(); n != 0 {
					t.Errorf("the store was written to %d times after it had failed", n)
				}
				broken.cfg.Cluster = id
				broken.start()
				broken.setConfig("segment.ms", "2")
				broken.until("what was acknowledged", func(*cluster.Image) bool { return broken.config("retention.ms") == "1" })
			})
		}
	}
}

// What fails once has failed for good: a write that succeeds after one that did not proves nothing.
func TestStoreErrors_TheFirstIsTheLast(t *testing.T) {
	told := 0
	s, err := openLogStore(t.TempDir(), func(error) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	f := &faultyStore{boltStore: s.inner}
	s.inner = f
	f.arm(fault{op: opAppend, err: syscall.EIO, once: true})
	entry := &raft.Log{Index: 1, Term: 1, Type: raft.LogNoop}
	for range 2 {
		checkStoreFailure(t, s.StoreLog(entry), syscall.EIO)
	}
	checkStoreFailure(t, s.SetUint64([]byte("CurrentTerm"), 2), syscall.EIO)
	if last, err := s.LastIndex(); last != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("last index %d, %v", last, err)
	}
	if f.callsAfter() != 0 || told != 1 {
		t.Errorf("%d calls after the failure, which was told %d times", f.callsAfter(), told)
	}
}

// A read of the log that fails when a follower is to be sent entries, or applies them.
func TestStoreErrors_Read(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	stores := startFaulty(t, brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	follower := others(brokers, leader)[0]
	stores[follower].arm(fault{op: opRead, err: syscall.EIO, once: true})
	leader.setConfig("retention.ms", "1")
	checkStoreFailure(t, follower.failure(), syscall.EIO)
	leader.setConfig("retention.ms", "2")
	if got := follower.config("retention.ms"); got != "" {
		t.Errorf("an entry that could not be read was applied as %q", got)
	}
}

// A log that cannot be cut behind a snapshot.
func TestStoreErrors_Cut(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0]
	b.cfg.TrailingLogs = 1
	stores := startFaulty(t, brokers)
	id := formed(t, b)
	for i := range 10 {
		b.setConfig("retention.ms", fmt.Sprint(i))
	}
	stores[b].arm(fault{op: opCut, err: syscall.EIO, once: true})
	ctx, cancel := context.WithCancel(withPatience(t))
	defer cancel()
	go func() { _ = await(ctx, b.c.node.Load().raft.Snapshot()) }() // it has no answer: its goroutine has ended
	checkStoreFailure(t, b.failure(), syscall.EIO)
	b.stop()
	b.cfg.Cluster = id
	b.start()
	b.until("everything", func(*cluster.Image) bool { return b.config("retention.ms") == "9" })
}

// Raft leaves proposals without an answer that it was given while it stopped: Close must not wait for them.
func TestCloseUnderProposals(t *testing.T) {
	t.Parallel()
	for range 5 {
		_, brokers := testCluster(t, 1)
		b := brokers[0].start()
		formed(t, b)
		c := b.c
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for {
					if _, err := c.Propose(t.Context(), configCommand("retention.ms", "1")); err != nil {
						return
					}
				}
			})
		}
		b.until("a proposal", func(*cluster.Image) bool { return b.config("retention.ms") == "1" })
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.stop()
		}()
		select {
		case <-closed:
		case <-withPatience(t).Done():
			t.Fatalf("Close hangs: %+v", c.Stats())
		}
		group.Wait()
	}
}
