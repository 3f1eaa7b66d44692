package sim

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// TestEpochsOfDeletedGroups is what a member may be told of a group that was deleted: its epochs, if it asked while the group was there, and no others.
func TestEpochsOfDeletedGroups(t *testing.T) {
	state := func(epoch int32) cluster.GroupRecord {
		return cluster.GroupState{Group: "readers", Type: cluster.GroupClassic, Epoch: epoch}
	}
	deleted := cluster.GroupDeleted{Group: "readers"}
	for _, c := range []struct {
		name    string
		batches [][]cluster.GroupRecord
		asked   int
		epoch   int32
		wrong   bool
	}{
		{"one that the log has", [][]cluster.GroupRecord{{state(1)}, {state(2)}}, 1, 2, false},
		{"one that the log has not", [][]cluster.GroupRecord{{state(1)}, {state(2)}}, 1, 3, true},
		{"deleted in the batch of its last state", [][]cluster.GroupRecord{{state(1)}, {state(3), deleted}}, 1, 2, false},
		{"deleted, and the log had not got it", [][]cluster.GroupRecord{{state(1)}, {state(3), deleted}}, 1, 4, true},
		{"deleted while the answer was on its way", [][]cluster.GroupRecord{{state(1)}, {state(2), deleted}, {state(1)}}, 0, 2, false},
		{"deleted before it was asked", [][]cluster.GroupRecord{{state(1)}, {state(2), deleted}, {state(1)}}, 2, 2, true},
		{"deleted with states left out", [][]cluster.GroupRecord{{state(1)}, {deleted, state(1)}}, 1, 3, false},
		{"deleted with states left out before it was asked", [][]cluster.GroupRecord{{state(1)}, {deleted, state(1)}}, 2, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(Options{Without: Names()})
			w.groups.list = nil
			for _, records := range c.batches {
				w.groups.check.batch(records, cluster.EmptyImage(), 0)
			}
			if w.check.failed() {
				t.Fatal(w.check.violation)
			}
			w.groups.check.told("readers", c.asked, c.epoch)
			if w.check.failed() != c.wrong {
				t.Errorf("epoch %d, asked after entry %d: wrong is %t, want %t", c.epoch, c.asked, w.check.failed(), c.wrong)
			}
		})
	}
}
