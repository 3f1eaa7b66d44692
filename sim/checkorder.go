package sim

import (
	"slices"

	"github.com/moldau-log/moldau/record"
)

// order is what is known of where the records of one idempotent producer lie: the numbers of those that are placed, rising. To have the order of their sequences
// it is enough that each one lies between its neighbours, so that a look costs one search. What is new mostly comes at the end.
type order []int64

// add puts a number in and returns its neighbours, 0 for none. Of those beside it, the ones for which gone is true are dropped first: they say nothing any more.
func (o *order) add(number int64, gone func(int64) bool) (before, after int64) {
	list := *o
	at, known := slices.BinarySearch(list, number)
	from, to := at, at
	if known {
		to++
	}
	for from > 0 && gone(list[from-1]) {
		from--
	}
	for to < len(list) && gone(list[to]) {
		to++
	}
	if from > 0 {
		before = list[from-1]
	}
	if to < len(list) {
		after = list[to]
	}
	*o = slices.Replace(list, from, to, number)
	return before, after
}

// inOrder checks that an idempotent producer's records have the order of their sequences (I3, case 68), whichever of them is placed first, since either may be deleted
// before the end. Who has nothing left of a producer lets it in anew, and a loss that was accepted takes the order with it.
func (c *checker) inOrder(l *ledger, v *value, number int64, at record.Offset, who string) {
	p := v.producer
	if p.pid == 0 || v.forgotten || len(l.losses) > 0 || at < l.start {
		return
	}
	before, after := p.placed.add(number, func(n int64) bool { return c.values[n].forgotten || c.values[n].at < l.start })
	switch {
	case before > 0 && c.values[before].at > at:
		c.fail("I3: %s %d at %d of %s, before %d of the same producer at %d", who, number, at, c.w.named(l.tp), before, c.values[before].at)
	case after > 0 && c.values[after].at < at:
		c.fail("I3: %s %d at %d of %s, behind %d of the same producer at %d", who, number, at, c.w.named(l.tp), after, c.values[after].at)
	}
}
