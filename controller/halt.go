package controller

import (
	"errors"
	"runtime"

	"github.com/hashicorp/raft"
)

// haltingStore is a logStore as Raft gets it: the goroutine of Raft's that meets a failure ends there. Raft panics when it cannot write its term or read an entry, in
// a goroutine that nobody can recover, and goes on after an append that failed; neither may happen while the broker tells why it stops and closes its logs.
//
// Raft runs its deferred calls then: requests are answered without success, what is in flight with a lost leadership.
type haltingStore struct{ *logStore }

// halted passes an answer on, or ends the goroutine.
func halted(err error) error {
	if err != nil && !isNotFound(err) {
		runtime.Goexit()
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (s haltingStore) FirstIndex() (uint64, error) {
	index, err := s.logStore.FirstIndex()
	return index, halted(err)
}

// LastIndex implements raft.LogStore.
func (s haltingStore) LastIndex() (uint64, error) {
	index, err := s.logStore.LastIndex()
	return index, halted(err)
}

// GetLog implements raft.LogStore.
func (s haltingStore) GetLog(index uint64, entry *raft.Log) error {
	return halted(s.logStore.GetLog(index, entry))
}

// StoreLog implements raft.LogStore.
func (s haltingStore) StoreLog(entry *raft.Log) error { return halted(s.logStore.StoreLog(entry)) }

// StoreLogs implements raft.LogStore.
func (s haltingStore) StoreLogs(entries []*raft.Log) error {
	return halted(s.logStore.StoreLogs(entries))
}

// DeleteRange implements raft.LogStore.
func (s haltingStore) DeleteRange(first, last uint64) error {
	return halted(s.logStore.DeleteRange(first, last))
}

// Set implements raft.StableStore.
func (s haltingStore) Set(key, value []byte) error { return halted(s.logStore.Set(key, value)) }

// Get implements raft.StableStore.
func (s haltingStore) Get(key []byte) ([]byte, error) {
	value, err := s.logStore.Get(key)
	return value, halted(err)
}

// SetUint64 implements raft.StableStore.
func (s haltingStore) SetUint64(key []byte, value uint64) error {
	return halted(s.logStore.SetUint64(key, value))
}

// GetUint64 implements raft.StableStore.
func (s haltingStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.logStore.GetUint64(key)
	return value, halted(err)
}

var errHalted = errors.New("controller: Raft did not start")

// newRaft is raft.NewRaft over the halting store. It reads the files, so it may end the goroutine that it runs on.
func (c *Controller) newRaft(conf *raft.Config, trans raft.Transport) (*raft.Raft, error) {
	var r *raft.Raft
	err := errHalted
	done := make(chan struct{})
	go func() {
		defer close(done)
		store := haltingStore{c.store}
		r, err = raft.NewRaft(conf, c.fsm, store, store, c.snaps, trans)
	}()
	<-done
	if failure := c.store.failure(); r == nil && failure != nil {
		err = failure
	}
	return r, err
}
