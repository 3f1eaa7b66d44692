package controller

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// storeFile is the bbolt file with Raft's log, term and vote.
const storeFile = "raft.db"

// lockTimeout is how long opening the store waits for another process to let go of it.
const lockTimeout = time.Second

// remedyStore is what an operator does about a damaged or failing Raft file.
const remedyStore = "if the cluster has other brokers, move this broker's whole data directory away and start it again: it joins as a new server and copies " +
	"its replicas (docs/operations.md, Damaged metadata files); if it was the only one, restore a backup (docs/operations.md, All metadata is lost)"

// boltStore is what a logStore needs of the file below it.
type boltStore interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// logStore is Raft's log and stable store. The first error or panic of the file below it is fatal and final: Raft would go on with a log or a vote of which it
// does not know whether it is on disk, and a write that succeeds after one that failed proves nothing. So nothing is read or written after it.
type logStore struct {
	inner  boltStore
	path   string
	fatal  func(error)
	volume *logVolume
	failed atomic.Pointer[error] // the first failure
}

// openLogStore opens or creates the store file in dir. A damaged file is a *StoreError, never a panic.
func openLogStore(dir string, fatal func(error)) (*logStore, error) {
	s := &logStore{path: filepath.Join(dir, storeFile), fatal: fatal, volume: newLogVolume()}
	err := s.guard("open", func() error {
		if err := checkStoreFile(s.path); err != nil {
			return err
		}
		inner, err := raftboltdb.New(raftboltdb.Options{
			Path: s.path,
			// The freelist is written with every commit: leaving it out gave no clear gain on stores of this size and makes opening slower.
			BoltOptions:             &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: false, FreelistType: bbolt.FreelistMapType},
			MsgpackUseNewTimeFormat: true,
		})
		if err == nil {
			s.inner = inner
		}
		return err
	})
	return s, err
}

// guard runs one operation on the file and turns its error, its panic, and a fault in its memory map into a *StoreError.
func (s *logStore) guard(op string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a cut file faults where bbolt reads its map
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		var unknown *EntryError
		if err != nil && !isNotFound(err) && !errors.As(err, &unknown) {
			err = &StoreError{Path: s.path, Op: op, Err: err, Remedy: remedyStore}
		}
	}()
	return f()
}

// do is guard for a running store: an error stops the broker.
func (s *logStore) do(op string, f func() error) error {
	if err := s.failure(); err != nil {
		return err
	}
	err := s.guard(op, f)
	if err != nil && !isNotFound(err) && s.failed.CompareAndSwap(nil, &err) {
		s.fatal(err)
	}
	return err
}

// failure is the error after which the store does nothing any more, nil while it works.
func (s *logStore) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// isNotFound tells the two answers that are no failures. Raft compares them by identity and by text, so they pass unchanged.
func isNotFound(err error) bool {
	return errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, raftboltdb.ErrKeyNotFound)
}

func (s *logStore) close() error { return s.guard("close", s.inner.Close) }

// FirstIndex implements raft.LogStore.
func (s *logStore) FirstIndex() (index uint64, err error) {
	err = s.do("read the first index", func() error { index, err = s.inner.FirstIndex(); return err })
	return index, err
}

// LastIndex implements raft.LogStore.
func (s *logStore) LastIndex() (index uint64, err error) {
	err = s.do("read the last index", func() error { index, err = s.inner.LastIndex(); return err })
	return index, err
}

// GetLog implements raft.LogStore.
func (s *logStore) GetLog(index uint64, entry *raft.Log) error {
	return s.do(fmt.Sprintf("read entry %d", index), func() error {
		if err := s.inner.GetLog(index, entry); err != nil {
			return err
		}
		return checkEntry(index, entry)
	})
}

// check reads an entry that must be there and whole, before Raft runs.
func (s *logStore) check(index uint64) error {
	op := fmt.Sprintf("read entry %d", index)
	err := s.guard(op, func() error {
		var entry raft.Log
		if err := s.inner.GetLog(index, &entry); err != nil {
			return err
		}
		if entry.Type == raft.LogConfiguration {
			raft.DecodeConfiguration(entry.Data) // it panics
		}
		return checkEntry(index, &entry)
	})
	if isNotFound(err) { // a hole, or what joins the snapshot is missing
		err = &StoreError{Path: s.path, Op: op, Err: err, Remedy: remedyStore}
	}
	return err
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (s *logStore) StoreLogs(entries []*raft.Log) error {
	s.volume.add(entries)
	return s.do("append entries", func() error {
		for _, entry := range entries {
			if err := checkType(entry); err != nil {
				return err
			}
		}
		return s.inner.StoreLogs(entries)
	})
}

// DeleteRange implements raft.LogStore.
func (s *logStore) DeleteRange(first, last uint64) error {
	return s.do("cut entries", func() error { return s.inner.DeleteRange(first, last) })
}

// Set implements raft.StableStore.
func (s *logStore) Set(key, value []byte) error {
	return s.do("write the vote", func() error { return s.inner.Set(key, value) })
}

// Get implements raft.StableStore.
func (s *logStore) Get(key []byte) (value []byte, err error) {
	err = s.do("read the vote", func() error { value, err = s.inner.Get(key); return err })
	return value, err
}

// SetUint64 implements raft.StableStore.
func (s *logStore) SetUint64(key []byte, value uint64) error {
	return s.do("write the term", func() error { return s.inner.SetUint64(key, value) })
}

// GetUint64 implements raft.StableStore.
func (s *logStore) GetUint64(key []byte) (value uint64, err error) {
	err = s.do("read the term", func() error { value, err = s.inner.GetUint64(key); return err })
	return value, err
}
