package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one fault of a step. What its numbers mean depends on the family.
type Fault struct {
	Family  Family `json:"family"`
	Targets []int  `json:"targets,omitempty"` // broker ids, in the order in which they are hit
	// Draw decides what the family leaves open, such as which system call fails or which partition moves.
	Draw uint64 `json:"draw"`
}

// Step is what happens at one time.
type Step struct {
	Quiet  time.Duration // without a fault, before it
	Hold   time.Duration // how long its faults hold
	Faults []Fault       // one, or two on different brokers
	// Settle: afterwards it is waited, for a bounded time, until the cluster is healthy. Otherwise the next step meets a cluster that is still recovering.
	Settle bool
}

// quietMax bounds the time without a fault before a step; mixes are one step in mixEvery.
const (
	quietMax = 4 * time.Second
	mixEvery = 3
)

// Draw draws steps for a run of that length, at least one. Families come from a shuffled deck, so that each has been there before one comes again.
func Draw(seed uint64, length time.Duration, brokers int, families []Family) []Step {
	if len(families) == 0 {
		return nil
	}
	d := dealer{random: rand.New(rand.NewPCG(seed, 0x50a4)), families: families, brokers: brokers}
	var out []Step
	for spent := time.Duration(0); spent < length || len(out) == 0; {
		s := d.step()
		out = append(out, s)
		spent += s.Quiet + s.Hold
	}
	return out
}

type dealer struct {
	random   *rand.Rand
	families []Family
	brokers  int
	deck     []Family
}

// deal takes a card: the first of the deck that fits.
func (d *dealer) deal(fits func(traits) bool) (traits, bool) {
	if len(d.deck) == 0 {
		d.deck = slices.Clone(d.families)
		d.random.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
	}
	for i, f := range d.deck {
		t := all[slices.IndexFunc(all, func(t traits) bool { return t.family == f })]
		if fits(t) {
			d.deck = slices.Delete(d.deck, i, i+1)
			return t, true
		}
	}
	return traits{}, false
}

func (d *dealer) step() Step {
	first, _ := d.deal(func(traits) bool { return true })
	s := Step{Quiet: time.Duration(d.random.Int64N(int64(quietMax))), Settle: d.random.IntN(2) == 0 || first.family == Wipe || first.family == BitFlip}
	order := d.random.Perm(d.brokers)
	s.Hold = d.hold(first)
	f, order := d.fault(first, order)
	s.Faults = append(s.Faults, f)
	if first.alone || d.random.IntN(mixEvery) > 0 {
		return s
	}
	if second, ok := d.deal(func(t traits) bool { return !t.alone && t.targets <= len(order) }); ok {
		f, _ := d.fault(second, order)
		s.Faults = append(s.Faults, f)
		s.Hold = max(s.Hold, d.hold(second))
	}
	return s
}

func (d *dealer) hold(t traits) time.Duration {
	return time.Duration(t.min+d.random.IntN(t.max-t.min+1)) * time.Millisecond
}

// fault draws a fault on the first brokers of order, and gives the rest of it.
func (d *dealer) fault(t traits, order []int) (Fault, []int) {
	n := t.targets
	switch {
	case n < 0:
		n = len(order)
	case t.family == KillSeveral:
		n = min(n+d.random.IntN(2), len(order))
	}
	return Fault{Family: t.family, Targets: order[:n:n], Draw: d.random.Uint64()}, order[n:]
}
