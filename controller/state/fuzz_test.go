package state_test

import (
	"bytes"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/state"
)

// FuzzApply applies whatever decodes to a small cluster in use. Bad input is refused; only a bug of ours breaks an invariant, which panics. Seeds are the
// commands of a random run.
func FuzzApply(f *testing.F) {
	r := newRun(&testing.T{}, 7)
	for range 120 {
		r.apply(r.command())
	}
	base := r.state.Snapshot()
	for _, b := range r.log {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, err := codec.DecodeCommand(b)
		if err != nil {
			return
		}
		s := state.FromSnapshot(base)
		first := s.Apply(s.Image().Index()+1, cmd)
		if first.Code != cluster.CodeNone && !cluster.Diff(state.FromSnapshot(base).Image(), s.Image()).Empty() {
			t.Fatalf("%+v was refused (%s) and changed something", cmd, first.Code)
		}
		s.Apply(s.Image().Index()+1, cmd)
		var snap bytes.Buffer
		if err := codec.WriteSnapshot(&snap, s.Snapshot().Records()); err != nil {
			t.Fatalf("after %+v the state cannot be written: %v", cmd, err)
		}
		if _, err := state.Restore(codec.ReadSnapshot(&snap)); err != nil {
			t.Fatalf("after %+v the state cannot be restored: %v", cmd, err)
		}
	})
}
