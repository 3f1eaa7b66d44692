// Command sim plays simulated histories of a cluster and reports those that break an invariant.
//
//	sim --seed 1 --seeds 100
//
// One line per failing history on stdout, with the command that replays it; a summary with what was covered is last. For one seed it prints the
// history's hash. The exit status is 1 when an invariant was broken and 2 for a wrong command line.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/moldau-log/moldau/sim"
)

// traceTail is how many of the last events -v shows.
const traceTail = 400

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its surroundings passed in.
func run(args []string, out, talk io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(talk)
	seed := flags.Uint64("seed", 1, "first seed")
	seeds := flags.Uint64("seeds", 1, "how many seeds, counted up from the first")
	verbose := flags.Bool("v", false, "print each history, and the last events of one that fails")
	name := flags.String("plant", sim.NoPlant.String(), "a fault to put into the surroundings, to see whether it is found")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	plant, ok := plantOf(*name)
	if !ok || flags.NArg() > 0 || *seeds == 0 {
		fmt.Fprintf(talk, "sim: plant %q is not known, or there are arguments too many, or no seeds; plants are %v\n", *name, sim.Plants())
		return 2
	}
	began := time.Now()
	var total sim.Coverage
	failures := 0
	for s := *seed; s < *seed+*seeds; s++ {
		r := sim.Run(sim.Options{Seed: s, Plant: plant, Trace: *verbose})
		total.Add(&r.Coverage)
		if r.Violation != "" {
			failures++
			fmt.Fprintf(out, "seed=%d hash=%016x FAIL %s; replay: sim --seed %d --plant %s -v\n", s, r.Hash, r.Violation, s, plant)
			if *verbose {
				for _, line := range r.Trace[max(0, len(r.Trace)-traceTail):] {
					fmt.Fprintln(talk, line)
				}
			}
		} else if *verbose || *seeds == 1 {
			fmt.Fprintf(out, "seed=%d hash=%016x ok simulated=%s events=%d\n", s, r.Hash, r.Simulated.Round(time.Millisecond), r.Steps)
		}
	}
	fmt.Fprintf(out, "seeds=%d failures=%d seconds=%.1f %s\n", *seeds, failures, time.Since(began).Seconds(), total)
	if failures > 0 {
		return 1
	}
	return 0
}

// plantOf finds a plant by its name.
func plantOf(name string) (sim.Plant, bool) {
	for _, p := range append(sim.Plants(), sim.NoPlant) {
		if p.String() == name {
			return p, true
		}
	}
	return sim.NoPlant, false
}
