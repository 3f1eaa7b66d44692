package controller

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/state"
)

// fsm applies committed entries to the state and shows the result. Raft calls it from one goroutine.
type fsm struct {
	board   *board
	fail    func(error)
	applied func(*cluster.Image) // after each entry
	written func(index uint64)   // after a snapshot is on disk; may be nil
	state   *state.State
	groups  atomic.Pointer[state.GroupView]
	latest  atomic.Pointer[state.Snapshot] // of the state that is shown
	// broken is the failure after which nothing is applied any more.
	broken error
}

func newFSM(b *board, fail func(error), applied func(*cluster.Image)) *fsm {
	f := &fsm{board: b, fail: fail, applied: applied, state: state.New()}
	f.groups.Store(f.state.Groups())
	f.latest.Store(f.state.Snapshot())
	return f
}

// Apply implements raft.FSM. It returns a cluster.Result, or an error after which the broker stops.
func (f *fsm) Apply(entry *raft.Log) any {
	if f.broken != nil {
		return f.broken
	}
	cmd, err := f.decode(entry)
	if err != nil {
		return f.breakOn(&EntryError{Index: entry.Index, Err: err})
	}
	result, err := f.apply(entry.Index, cmd)
	if err != nil {
		return f.breakOn(&EntryError{Index: entry.Index, Err: err})
	}
	f.show(entry.Index)
	return result
}

func (f *fsm) decode(entry *raft.Log) (cluster.Command, error) {
	encoded, err := openEntry(entry.Data)
	if err != nil {
		return nil, err
	}
	return codec.DecodeCommand(encoded)
}

// apply turns a broken invariant of the state into an error: the state is then in doubt, and with it everything this broker would do.
func (f *fsm) apply(index uint64, cmd cluster.Command) (result cluster.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("applying %T: %v", cmd, p)
		}
	}()
	return f.state.Apply(index, cmd), nil
}

func (f *fsm) breakOn(err error) error {
	f.broken = err
	f.fail(err)
	return err
}

func (f *fsm) show(index uint64) {
	image := f.state.Image()
	f.groups.Store(f.state.Groups())
	f.latest.Store(f.state.Snapshot())
	f.board.show(image, index)
	f.applied(image)
}

// Snapshot implements raft.FSM. The state's parts are immutable, so taking them is all that happens here.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	return &fsmSnapshot{state: f.state.Snapshot(), written: f.written}, nil
}

// Restore implements raft.FSM: it builds a new state and then swaps it. A snapshot that cannot be read is fatal.
func (f *fsm) Restore(source io.ReadCloser) error {
	defer source.Close()
	restored, err := state.Restore(codec.ReadSnapshot(source))
	if err != nil {
		err = fmt.Errorf("controller: restore a snapshot: %w", err)
		return f.breakOn(err)
	}
	f.state = restored
	f.show(restored.Image().Index())
	return nil
}

// Groups is the state of all consumer groups as this broker has applied it, immutable.
func (c *Controller) Groups() *state.GroupView { return c.fsm.groups.Load() }

// fsmSnapshot writes one state down.
type fsmSnapshot struct {
	state   *state.Snapshot
	written func(index uint64) // may be nil
}

// Persist implements raft.FSMSnapshot.
func (s *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := codec.WriteSnapshot(sink, s.state.Records()); err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("controller: write a snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("controller: write a snapshot: %w", err)
	}
	if s.written != nil {
		s.written(s.state.Index())
	}
	return nil
}

// Release implements raft.FSMSnapshot.
func (s *fsmSnapshot) Release() {}
