package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moldau-log/moldau/sim"
)

// history is one seed that was played.
type history struct {
	options sim.Options
	result  sim.Result
	// again is the hash of the second time, with --twice.
	again uint64
}

// play plays all seeds and reports them in order.
func (c *command) play() int {
	began := time.Now()
	var total sim.Coverage
	var simulated time.Duration
	failures := 0
	for h := range c.histories() {
		total.Add(&h.result.Coverage)
		simulated += h.result.Simulated
		if !c.report(h, failures) {
			failures++
		}
	}
	seconds := time.Since(began).Seconds()
	below := 0
	if c.floors {
		for _, few := range total.BelowFloor(int(c.seeds)) {
			below++
			fmt.Fprintf(c.out, "FLOOR %s\n", few)
		}
	}
	fmt.Fprintf(c.out, "seeds=%d failures=%d seconds=%.1f simulated=%.0fs speed=%.0f %s\n", c.seeds, failures, seconds, simulated.Seconds(), simulated.Seconds()/seconds, total)
	if failures > 0 || below > 0 {
		return 1
	}
	return 0
}

// args are the flags that play a history again.
func (c *command) args(o sim.Options) string { return o.Args() + c.bug.args() }

// histories plays the seeds on the workers and gives the histories in the order of their seeds. At most as many as there are workers wait.
func (c *command) histories() func(yield func(history) bool) {
	return func(yield func(history) bool) {
		workers := int(min(uint64(c.workers), c.seeds))
		lanes := make([]chan history, workers) // seed n is played on lane n modulo their number
		quit := make(chan struct{})
		var wg sync.WaitGroup
		for i := range lanes {
			lanes[i] = make(chan history, 1)
			wg.Go(func() {
				for n := uint64(i); n < c.seeds; n += uint64(workers) {
					select {
					case lanes[i] <- c.playOne(c.options.Seed + n):
					case <-quit:
						return
					}
				}
			})
		}
		for n := range c.seeds {
			if !yield(<-lanes[n%uint64(workers)]) {
				break
			}
		}
		close(quit)
		wg.Wait()
	}
}

// playOne plays one seed, or the same one twice.
func (c *command) playOne(seed uint64) history {
	o := c.options
	o.Seed, o.Trace = seed, c.verbose
	h := history{options: o, result: sim.Run(o)}
	h.again = h.result.Hash
	if c.twice {
		o.Trace = !o.Trace // to be watched changes nothing
		h.again = sim.Run(o).Hash
	}
	return h
}

// report prints what there is to say of one history; false for a failure. failures is how many there were before.
func (c *command) report(h history, failures int) bool {
	r := &h.result
	switch {
	case r.Violation != "":
		fmt.Fprintf(c.out, "seed=%d hash=%016x FAIL %s; replay: sim %s -v\n", r.Seed, r.Hash, r.Violation, c.args(h.options))
		if failures < maxFailures {
			c.explain(h)
		}
		return false
	case h.again != r.Hash:
		fmt.Fprintf(c.out, "seed=%d hash=%016x FAIL the same options gave hash %016x; replay: sim %s --twice\n", r.Seed, r.Hash, h.again, c.args(h.options))
		return false
	case c.verbose || c.seeds == 1:
		fmt.Fprintf(c.out, "seed=%d hash=%016x ok simulated=%s events=%d\n", r.Seed, r.Hash, r.Simulated.Round(time.Millisecond), r.Steps)
	}
	return true
}

// explain shows a failure: its trace, and what is left of it after shrinking.
func (c *command) explain(h history) {
	if c.verbose {
		printTail(c.talk, &h.result, c.tail)
	}
	if c.shrink == 0 {
		return
	}
	h.options.Trace = true
	began := time.Now()
	s := sim.Shrink(h.options, h.result, shrinkRuns, func() bool { return time.Since(began) > c.shrink })
	fmt.Fprintf(c.out, "seed=%d smaller after %d histories: %s; replay: sim %s -v\n", h.result.Seed, s.Runs, s.Result.Violation, c.args(s.Options))
	printTail(c.talk, &s.Result, shrunkTail)
}

// printTail prints the faults that happened and the last events.
func printTail(w io.Writer, r *sim.Result, lines int) {
	for i, f := range r.Faults {
		if !f.LeftOut {
			fmt.Fprintf(w, "fault %d: %s\n", i, f)
		}
	}
	for _, line := range r.Trace[max(0, len(r.Trace)-lines):] {
		fmt.Fprintln(w, line)
	}
}
