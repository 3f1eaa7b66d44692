package controller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// stopped is a broker that was a cluster of its own, with entries of many sizes in its log, and has no marker: the files alone must tell.
func stopped(t *testing.T) (b *testBroker, store []byte) {
	t.Helper()
	_, brokers := testCluster(t, 1)
	b = brokers[0].start()
	b.cfg.Cluster = formed(t, b)
	for i := range 60 {
		b.setConfig("retention.ms", fmt.Sprint(i, strings.Repeat("x", i*i)))
	}
	b.stop()
	if err := os.Remove(filepath.Join(b.cfg.Dir, markerName)); err != nil {
		t.Fatal(err)
	}
	store, err := os.ReadFile(filepath.Join(b.cfg.Dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	return b, store
}

// content is all that Raft reads from a store when it starts.
func (b *testBroker) content() string {
	b.t.Helper()
	var out strings.Builder
	first, err := b.c.store.FirstIndex()
	last, err2 := b.c.store.LastIndex()
	term, err3 := b.c.store.GetUint64([]byte("CurrentTerm"))
	votedTerm, err4 := b.c.store.GetUint64([]byte("LastVoteTerm"))
	voted, err5 := b.c.store.Get([]byte("LastVoteCand"))
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		b.t.Fatal(err)
	}
	fmt.Fprintln(&out, first, last, term, votedTerm, string(voted))
	for index := first; index <= last; index++ {
		var entry raft.Log
		if err := b.c.store.GetLog(index, &entry); err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintln(&out, entry.Index, entry.Term, entry.Type, castagnoli(entry.Data))
	}
	return out.String()
}

// checkDamage opens a broker with a damaged store: it is refused with the file and the remedy, or the damage lies where nothing is.
func (b *testBroker) checkDamage(name string, store []byte, want string) (refused bool) {
	b.t.Helper()
	path := filepath.Join(b.cfg.Dir, storeFile)
	if err := os.WriteFile(path, store, 0o600); err != nil {
		b.t.Fatal(err)
	}
	err := b.open()
	if err == nil {
		if got := b.content(); got != want {
			b.t.Errorf("%s: opened with another content:\n%s\nwas:\n%s", name, got, want)
		}
		b.stop()
		return false
	}
	var failure *StoreError
	if !errors.As(err, &failure) || !strings.Contains(err.Error(), storeFile) || failure.Remedy != remedyStore {
		b.t.Errorf("%s: %v", name, err)
	}
	return true
}

// Whatever page of raft.db is lost, or filled with something else: nothing that Raft has written is forgotten in silence.
func TestCase123_NoPageOfTheStoreIsLostInSilence(t *testing.T) {
	t.Parallel()
	b, whole := stopped(t)
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	want := b.content()
	b.stop()
	page, refused := os.Getpagesize(), 0
	for at := 0; at < len(whole); at += page {
		for name, fill := range map[string]byte{"zeroed": 0, "ones": 0xFF} {
			damaged := slices.Clone(whole)
			copy(damaged[at:], bytes.Repeat([]byte{fill}, page))
			if b.checkDamage(fmt.Sprintf("page %d %s", at/page, name), damaged, want) {
				refused++
			}
		}
		if at > 0 && b.checkDamage(fmt.Sprintf("cut to %d pages", at/page), whole[:at], want) {
			refused++
		}
	}
	if pages := len(whole) / page; pages < 20 || refused < pages {
		t.Errorf("%d of %d kinds of damage were refused", refused, 3*pages)
	}
}

// A flipped bit in an entry, wherever it lies: refused, or of no account.
func TestCase123_NoFlippedBitIsApplied(t *testing.T) {
	t.Parallel()
	b, whole := stopped(t)
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	want := b.content()
	last, err := b.c.store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	rng := rand.New(rand.NewPCG(1, 2))
	at := bytes.LastIndex(whole, []byte(fmt.Sprint(59, strings.Repeat("x", 59)))) // in the last entry
	if at < 0 {
		t.Fatalf("entry %d is not in the file in clear", last)
	}
	refused := 0
	for range 200 {
		damaged := slices.Clone(whole)
		damaged[at+rng.IntN(3000)] ^= 1 << rng.IntN(8)
		if b.checkDamage("flipped bit", damaged, want) {
			refused++
		}
	}
	if refused < 150 {
		t.Errorf("%d of 200 flipped bits were refused", refused)
	}
}

// A free list that names a page in use: everything can still be read, until the next commit writes over it.
func TestCase123_AFreeListWithAPageInUseIsRefused(t *testing.T) {
	t.Parallel()
	b, whole := stopped(t)
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	want := b.content()
	b.stop()
	whole, err := os.ReadFile(filepath.Join(b.cfg.Dir, storeFile)) // opening has written
	if err != nil {
		t.Fatal(err)
	}
	const root, freeList, transaction = 16, 32, 48 // in a meta page
	page := binary.NativeEndian.Uint32(whole[metaHead+metaPageSize:])
	meta := whole[metaHead:]
	if second := whole[page+metaHead:]; binary.NativeEndian.Uint64(second[transaction:]) > binary.NativeEndian.Uint64(meta[transaction:]) {
		meta = second
	}
	list := whole[uint64(page)*binary.NativeEndian.Uint64(meta[freeList:]):]
	if count := binary.NativeEndian.Uint16(list[10:]); count == 0 {
		t.Fatal("no page is free")
	}
	binary.NativeEndian.PutUint64(list[metaHead:], binary.NativeEndian.Uint64(meta[root:]))
	if !b.checkDamage("free list", whole, want) {
		t.Error("opened")
	}
	after, err := os.ReadFile(filepath.Join(b.cfg.Dir, storeFile))
	if err != nil || !bytes.Equal(after, whole) {
		t.Errorf("the refused file was written to (%v)", err)
	}
}

// An older snapshot is never loaded over a log that was cut for a newer one, whatever has happened to that.
func TestCase123_AnOlderSnapshotIsNeverUsedOverACutLog(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	b := brokers[0]
	b.cfg.TrailingLogs = 1
	b.start()
	b.cfg.Cluster = formed(t, b)
	for i := range 2 {
		for range 10 {
			b.setConfig("retention.ms", fmt.Sprint(i))
		}
		if err := b.c.node.Load().raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	newest, err := b.c.snaps.newest()
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	if err := os.Remove(filepath.Join(b.cfg.Dir, markerName)); err != nil { // the marker alone would tell
		t.Fatal(err)
	}
	dir := filepath.Join("snapshots", newest.ID)
	for name, damage := range map[string]func(dir string) error{
		"directory gone":  os.RemoveAll,
		"all gone":        func(dir string) error { return os.RemoveAll(filepath.Dir(dir)) },
		"metadata gone":   func(dir string) error { return os.Remove(filepath.Join(dir, "meta.json")) },
		"metadata cut":    func(dir string) error { return os.Truncate(filepath.Join(dir, "meta.json"), 10) },
		"metadata zeroed": func(dir string) error { return zero(filepath.Join(dir, "meta.json")) },
		"state gone":      func(dir string) error { return os.Remove(filepath.Join(dir, "state.bin")) },
		"state cut":       func(dir string) error { return os.Truncate(filepath.Join(dir, "state.bin"), 3) },
		"state emptied":   func(dir string) error { return os.Truncate(filepath.Join(dir, "state.bin"), 0) },
		"state zeroed":    func(dir string) error { return zero(filepath.Join(dir, "state.bin")) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := *b
			damaged.t = t
			damaged.cfg.Dir = filepath.Join(t.TempDir(), "raft")
			if err := os.CopyFS(damaged.cfg.Dir, os.DirFS(b.cfg.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(damaged.cfg.Dir, dir)); err != nil {
				t.Fatal(err)
			}
			err := damaged.open()
			if err == nil { // the state is read when Raft starts
				damaged.c.Start()
				err = damaged.failure()
				if image := damaged.c.Image(); image.Index() != 0 {
					t.Errorf("the state of index %d was loaded", image.Index())
				}
				damaged.stop()
			}
			var failure *StoreError
			if !errors.As(err, &failure) || failure.Remedy == "" {
				t.Errorf("got %v, want a StoreError", err)
			}
			if err := RecoverCluster(damaged.cfg); err == nil { // nor does an operator's recovery begin with it
				t.Error("recovered from an older snapshot")
			}
		})
	}
}

func zero(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, make([]byte, info.Size()), 0o600)
}

// A damaged entry that a running broker reads is not sent to anybody: the broker that has it stops.
func TestCase123_ADamagedEntryIsNotSent(t *testing.T) {
	t.Parallel()
	s, err := openLogStore(t.TempDir(), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	entry := frameEntry([]byte("command"))
	entry[len(entry)-1] ^= 1
	if err := s.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogCommand, Data: entry}}); err != nil {
		t.Fatal(err)
	}
	var got raft.Log
	var failure *StoreError
	if err := s.GetLog(1, &got); !errors.As(err, &failure) || !errors.Is(err, errEntryDamaged) {
		t.Errorf("read as %+v, %v", got, err)
	}
}
