package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/record"
)

// TestOrderOfAProducer places records of one producer one after another: each of them has to lie between those that it has sent before and after it, as far as these
// are not deleted, or may have been forgotten and stored again.
func TestOrderOfAProducer(t *testing.T) {
	type placed struct {
		n  int64 // counted from 1 in the order of the sequences
		at record.Offset
	}
	const wrong, right = true, false
	for _, c := range []struct {
		name      string
		places    []placed
		start     record.Offset // of the log when the last is placed
		forgotten int64
		want      bool
	}{
		{"in order", []placed{{1, 1}, {2, 2}, {3, 3}}, 0, 0, right},
		{"in order, seen out of order", []placed{{3, 3}, {1, 1}, {2, 2}}, 0, 0, right},
		{"an earlier one behind", []placed{{2, 1}, {1, 2}}, 0, 0, wrong},
		{"a later one before", []placed{{5, 10}, {7, 5}}, 0, 0, wrong},
		{"not beside the newest", []placed{{3, 1}, {7, 20}, {6, 12}, {5, 15}}, 0, 0, wrong},
		{"before one that is not the last", []placed{{3, 10}, {7, 20}, {5, 5}}, 0, 0, wrong},
		{"the later one is deleted", []placed{{2, 1}, {1, 2}}, 2, 0, right},
		{"the later ones beside it are deleted, and one is not", []placed{{2, 1}, {3, 2}, {4, 5}, {1, 6}}, 3, 0, wrong},
		{"itself is deleted", []placed{{5, 10}, {7, 5}}, 6, 0, right},
		{"the later one may be stored twice", []placed{{2, 1}, {1, 2}}, 0, 2, right},
		{"the earlier one may be stored twice", []placed{{2, 1}, {1, 2}}, 0, 1, right},
		{"deleted, and stored anew behind a later one that is there", []placed{{1, 1}, {2, 6}, {1, 7}}, 5, 0, wrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(Options{Seed: 1, Without: Names()})
			w.setUp()
			tp := w.partitions[0]
			l := w.check.ledgers[tp]
			p := w.load.newProducer(tp)
			end := record.Offset(len(l.slots))
			first := w.check.newValues(p, 10) - 1
			for i, x := range c.places {
				if i == len(c.places)-1 {
					l.start = end + c.start
					w.check.values[first+c.forgotten].forgotten = c.forgotten > 0
				}
				w.check.commit(tp, end+x.at, first+x.n, 0, "somebody has")
			}
			if got := strings.HasPrefix(w.check.violation, "I3"); got != c.want || !got && w.check.failed() {
				t.Errorf("wrong is %t, want %t: %q", got, c.want, w.check.violation)
			}
			if !slices.IsSorted(p.placed) {
				t.Errorf("known are %v", p.placed)
			}
		})
	}
}
