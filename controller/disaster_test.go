package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

func TestCase121_FollowerBehindTheCutLogGetsASnapshot(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	for _, b := range brokers {
		b.cfg.SnapshotThreshold, b.cfg.TrailingLogs, b.cfg.SnapshotInterval = 20, 5, 10*time.Millisecond
	}
	startAll(brokers)
	id := formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	away := others(brokers, leader)[0]
	gone := away.c.Applied()
	away.stop()
	for i := range 100 {
		leader.setConfig("retention.ms", fmt.Sprint(i))
	}
	leader = leaderOf(t, others(brokers, away)...)
	if err := leader.c.node.Load().raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		t.Fatal(err)
	}
	first, err := leader.c.store.FirstIndex()
	if err != nil || first <= gone {
		t.Fatalf("the leader's log begins at %d (%v); the test needs it to begin after %d", first, err, gone)
	}
	away.cfg.Cluster = id
	if err := away.open(); err != nil {
		t.Fatal(err)
	}
	installs := &watchedSnapshots{SnapshotStore: away.c.snaps.inner}
	away.c.snaps.inner = installs
	away.c.Start()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // write load meanwhile
		for i := 1000; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = leader.c.Propose(context.Background(), cluster.AlterConfigs{
					Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault},
					Ops:      []cluster.ConfigOp{{Key: "segment.ms", Value: fmt.Sprint(i)}},
				})
			}
		}
	}()
	away.until("the changes made while it was away", func(*cluster.Image) bool {
		return away.config("retention.ms") == "99" && away.config("segment.ms") != ""
	})
	// Once, when nothing holds the machine up; a loop of installations that each come too late would have no end.
	if n := installs.restored(gone); n < 1 || n > 3 {
		t.Errorf("a snapshot was installed %d times", n)
	}
}

func TestCase123_DamagedRaftFileIsRefusedClearly(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"cut to a page": func(path string) error { return os.Truncate(path, 4096) },
		"cut in half": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"removed": os.Remove,
		"garbage": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Repeat([]byte{0xA5}, int(info.Size())), 0o600)
		},
		"garbage after the meta pages": func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i := 2 * 4096; i < len(raw); i++ {
				raw[i] = 0xA5
			}
			return os.WriteFile(path, raw, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, brokers := testCluster(t, 1)
			b := brokers[0].start()
			b.cfg.Cluster = formed(t, b)
			for i := range 50 {
				b.setConfig("retention.ms", fmt.Sprint(i))
			}
			b.stop()
			if err := damage(filepath.Join(b.cfg.Dir, storeFile)); err != nil {
				t.Fatal(err)
			}
			err := b.open()
			if err == nil { // what only shows when the file is used
				b.c.Start()
				err = b.failure()
			}
			var failure *StoreError
			if !errors.As(err, &failure) {
				t.Fatalf("got %v, want a StoreError", err)
			}
			if !strings.Contains(err.Error(), storeFile) || failure.Remedy == "" {
				t.Errorf("the message names no file or remedy: %v", err)
			}
		})
	}
}

func TestCase123_TheOthersGoOn(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	id := formed(t, brokers...)
	broken := brokers[1]
	broken.stop()
	if err := os.Truncate(filepath.Join(broken.cfg.Dir, storeFile), 4096); err != nil {
		t.Fatal(err)
	}
	if err := broken.open(); err == nil {
		t.Fatal("it opened")
	}
	brokers[0].setConfig("retention.ms", "1")
	broken.wipe() // the remedy
	broken.start()
	if got := formed(t, broken); got != id {
		t.Errorf("it joined cluster %s, not %s", got, id)
	}
	broken.until("the change", func(*cluster.Image) bool { return broken.config("retention.ms") == "1" })
}

func TestCase123_FlippedBitInTheLogIsNotApplied(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	formed(t, b)
	b.setConfig("retention.ms", "123456789")
	b.stop()
	path := filepath.Join(b.cfg.Dir, storeFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte("123456789")) {
		t.Fatal("the file does not hold the entry in clear")
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte("123456789"), []byte("923456789")), 0o600); err != nil {
		t.Fatal(err)
	}
	var failure *StoreError
	if err := b.open(); !errors.As(err, &failure) || !errors.Is(err, errEntryDamaged) || failure.Remedy == "" {
		t.Errorf("got %v", err)
	}
}

func TestOldRaftFilesAreRefused(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	formed(t, b)
	b.setConfig("retention.ms", "1")
	b.stop()
	path := filepath.Join(b.cfg.Dir, storeFile)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	formed(t, b)
	b.setConfig("retention.ms", "2")
	b.stop()
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	var failure *StoreError
	if err := b.open(); !errors.As(err, &failure) {
		t.Errorf("got %v, want a StoreError", err)
	}
}

func TestCase44_RaftFilesOfAnotherBrokerAreRefused(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	formed(t, b)
	b.stop()
	b.cfg.Broker = 3
	var failure *StoreError
	if err := b.open(); !errors.As(err, &failure) || !strings.Contains(err.Error(), "belong to server 0-") {
		t.Errorf("got %v", err)
	}
}

func TestCase125_UnknownEntryStopsTheBroker(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	formed(t, b)
	before := b.c.Applied()
	if err := b.c.node.Load().raft.Apply(frameEntry([]byte{0xFF, 0xFF, 0xFF}), time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	var failure *EntryError
	if err := b.failure(); !errors.As(err, &failure) || !strings.Contains(err.Error(), "run a version that knows it") {
		t.Errorf("got %v", err)
	}
	result, err := b.c.Propose(withPatience(t), cluster.AlterConfigs{})
	if err == nil {
		t.Errorf("an entry after the unknown one was applied: %+v", result)
	}
	if b.c.Applied() != before {
		t.Errorf("applied index %d, was %d", b.c.Applied(), before)
	}
}

// A newer broker has a command carried out by an older controller: it is refused before it is an entry, or it would stop every broker that does not know it.
func TestCase125_AnUnknownCommandBecomesNoEntry(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	leader.setConfig("retention.ms", "1")
	last, err := leader.c.store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	known, err := encodeCommand(configCommand("retention.ms", "2"))
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string][]byte{
		"malformed": {0xFF, 0xFF, 0xFF}, "empty": {}, "a later command": {0xFA, 0x3F, 0x00}, "cut": known[:len(known)-1], "with a later field": append(known, 0xFA, 0x3F, 0x00),
	} {
		response, err := leader.c.Serve(withPatience(t), ProposeRequest{Command: command})
		answer, ok := response.(ProposeResponse)
		if err != nil || !ok || answer.Result.Code != cluster.CodeUnsupportedFeature || answer.Result.Index != 0 {
			t.Errorf("%s: %+v, %v", name, response, err)
		}
	}
	if now, err := leader.c.store.LastIndex(); err != nil || now != last {
		t.Errorf("the log ended at %d and ends at %d (%v)", last, now, err)
	}
	leader.setConfig("retention.ms", "3")
	for _, b := range brokers {
		b.until("the next change", func(*cluster.Image) bool { return b.config("retention.ms") == "3" })
	}
}

// An entry of a type that this version's Raft does not know, from a newer leader or found in the file: the library would panic.
func TestCase125_UnknownRaftEntryTypeIsRefused(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0].start()
	b.cfg.Cluster = formed(t, b)
	b.setConfig("retention.ms", "1")
	last, err := b.c.store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	strange := &raft.Log{Index: last + 1, Term: 2, Type: 77}
	var failure *EntryError
	if err := b.c.store.StoreLog(strange); !errors.As(err, &failure) || !strings.Contains(err.Error(), "run a version that knows it") {
		t.Errorf("stored: %v", err)
	}
	if err := b.failure(); !errors.As(err, &failure) {
		t.Errorf("the broker stops with %v", err)
	}
	if err := b.c.store.inner.StoreLogs([]*raft.Log{strange}); err != nil { // as a newer version has
		t.Fatal(err)
	}
	b.stop()
	if err := b.open(); !errors.As(err, &failure) || failure.Index != last+1 {
		t.Errorf("opened: %v", err)
	}
}

func TestDamagedNewestSnapshotIsFatal(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0]
	b.cfg.TrailingLogs = 1
	b.start()
	formed(t, b)
	for range 2 {
		b.setConfig("retention.ms", "1")
		if err := b.c.node.Load().raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	newest, err := b.c.snaps.newest()
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	for name, damage := range map[string]func(dir string) error{
		"state": func(dir string) error { return os.Truncate(filepath.Join(dir, "state.bin"), 3) },
		"meta":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "meta.json"), []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := *b
			damaged.t = t
			damaged.cfg.Dir = filepath.Join(t.TempDir(), "raft")
			if err := os.CopyFS(damaged.cfg.Dir, os.DirFS(b.cfg.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(damaged.cfg.Dir, "snapshots", newest.ID)); err != nil {
				t.Fatal(err)
			}
			err := damaged.open()
			if err == nil {
				damaged.c.Start()
				err = damaged.failure()
				damaged.stop()
			}
			var failure *StoreError
			if !errors.As(err, &failure) {
				t.Errorf("got %v, want a StoreError", err)
			}
		})
	}
}

func TestCase141_WipedVoterIsANewServer(t *testing.T) {
	t.Parallel()
	network, brokers := testCluster(t, 3)
	startAll(brokers)
	id := formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	rest := others(brokers, leader)
	wiped, lagging := rest[0], rest[1]
	network.isolate(lagging.cfg.Address)
	leader.setConfig("retention.ms", "committed") // by leader and the voter that will be wiped
	old := wiped.c.server
	wiped.stop()
	wiped.wipe()
	if err := wiped.open(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		(&former{c: wiped.c}).round(withPatience(t))
	}
	if wiped.c.node.Load() != nil {
		t.Fatal("it was taken in, or runs Raft on its own, while only one of the other two voters was there")
	}
	network.heal(lagging.cfg.Address)
	wiped.c.Start()
	if got := formed(t, wiped); got != id {
		t.Errorf("it joined cluster %s, not %s", got, id)
	}
	for _, b := range brokers {
		b.until("the committed change", func(*cluster.Image) bool { return b.config("retention.ms") == "committed" })
	}
	configuration, err := leaderOf(t, brokers...).c.node.Load().configuration()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range configuration.Servers {
		if s.ID == old {
			t.Errorf("the old server %s is still there", old)
		}
		if s.ID == wiped.c.server && s.Suffrage == raft.Voter {
			t.Error("the new server votes before it was stable")
		}
	}
}

func TestCase127_LostQuorumIsRecovered(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	id := formed(t, brokers...)
	brokers[1].setConfig("retention.ms", "kept")
	last := brokers[2]
	last.until("the change", func(*cluster.Image) bool { return last.config("retention.ms") == "kept" })
	stopAll(brokers)
	info, err := Inspect(last.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if info.Cluster != id || len(info.Voters) != 3 || info.LastIndex == 0 {
		t.Errorf("inspection says %+v", info)
	}
	if err := RecoverCluster(last.cfg); err != nil {
		t.Fatal(err)
	}
	last.cfg.Cluster = id
	last.start()
	if again := formed(t, last); again != id {
		t.Errorf("recovered into cluster %s, not %s", again, id)
	}
	last.until("the change made before", func(*cluster.Image) bool { return last.config("retention.ms") == "kept" })
	last.setConfig("segment.ms", "new")
	for _, lost := range brokers[:2] {
		lost.wipe()
		lost.start()
		formed(t, lost)
		lost.until("both changes", func(*cluster.Image) bool {
			return lost.config("retention.ms") == "kept" && lost.config("segment.ms") == "new"
		})
	}
}

func TestBackupIsRestoredAndTheOthersRejoin(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	id := formed(t, brokers...)
	index := brokers[0].setConfig("retention.ms", "kept").Index
	if err := brokers[1].c.WaitApplied(withPatience(t), index); err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := brokers[1].c.Backup(&backup); err != nil {
		t.Fatal(err)
	}
	stopAll(brokers)
	damaged := bytes.Clone(backup.Bytes())
	damaged[len(damaged)/2] ^= 1
	if err := RestoreBackup(brokers[0].cfg, bytes.NewReader(damaged)); err == nil {
		t.Error("a damaged backup was restored")
	}
	if err := RestoreBackup(brokers[0].cfg, bytes.NewReader(backup.Bytes())); err == nil {
		t.Error("a backup was restored over Raft files")
	}
	for _, b := range brokers {
		b.cfg.Cluster = id
		if err := Forget(b.cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := RestoreBackup(brokers[0].cfg, bytes.NewReader(backup.Bytes())); err != nil {
		t.Fatal(err)
	}
	startAll(brokers)
	if again := formed(t, brokers...); again != id {
		t.Errorf("restored into cluster %s, not %s", again, id)
	}
	if result := brokers[2].setConfig("segment.ms", "new"); result.Index <= index+restoredGap {
		t.Errorf("index %d was given out before the backup ended at %d", result.Index, index)
	}
	for _, b := range brokers {
		b.until("both changes", func(*cluster.Image) bool {
			return b.config("retention.ms") == "kept" && b.config("segment.ms") == "new"
		})
	}
}
