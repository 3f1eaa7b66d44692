// Command sim plays simulated histories of a cluster and reports those that break an invariant.
//
//	sim --seed 1 --seeds 100
//
// One line per failing history on stdout, with the command that replays it, and with --shrink a smaller one that breaks the same invariant; a summary
// with what was covered is last. For one seed it prints the history's hash. Seeds are played by several workers; one history has one goroutine. The exit
// status is 1 when an invariant was broken, when --twice found a seed with two histories, or when --floors found too little covered, and 2 for a wrong
// command line.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/moldau-log/moldau/sim"
)

// Bounds of reports.
const (
	shrunkTail  = 60 // of the last events of a history that was shrunk
	shrinkRuns  = 2000
	maxFailures = 20 // whole reports; further failures are one line each
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// command is one invocation.
type command struct {
	options sim.Options // of every seed
	bug     bugChoice
	seeds   uint64
	workers int
	verbose bool
	twice   bool
	floors  bool
	tail    int           // of the last events, with verbose
	shrink  time.Duration // how long a failure is shrunk, 0 for not at all
	out     io.Writer
	talk    io.Writer
}

// run is main with its surroundings passed in.
func run(args []string, out, talk io.Writer) int {
	c, err := parse(args, talk)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(talk, err)
		}
		return 2
	}
	c.out, c.talk = out, talk
	return c.play()
}

// parse reads the command line.
func parse(args []string, talk io.Writer) (*command, error) {
	c := &command{}
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(talk)
	o := &c.options
	flags.Uint64Var(&o.Seed, "seed", 1, "first seed")
	flags.Uint64Var(&c.seeds, "seeds", 1, "how many seeds, counted up from the first")
	flags.IntVar(&c.workers, "workers", runtime.GOMAXPROCS(0), "how many histories are played at once")
	flags.BoolVar(&c.verbose, "v", false, "print each history, and the faults and last events of one that fails")
	flags.IntVar(&c.tail, "tail", 400, "how many of the last events -v prints")
	flags.BoolVar(&c.twice, "twice", false, "play each seed twice and compare the hashes")
	flags.BoolVar(&c.floors, "floors", false, "fail when the histories together covered too little")
	flags.DurationVar(&c.shrink, "shrink", 0, "how long to look for a smaller history that breaks the same invariant, for each failure; 0 for not at all")
	plant := flags.String("plant", sim.NoPlant.String(), "a fault to put into the surroundings, to see whether it is found")
	without := flags.String("without", "", "kinds of faults and parts of the workload to leave out, separated by commas: "+strings.Join(sim.Names(), ","))
	skip := flags.String("skip", "", "numbers of single faults to leave out, separated by commas")
	flags.IntVar(&o.MaxFaults, "max-faults", 0, "leave out every fault after so many; 0 for no limit")
	flags.DurationVar(&o.FaultTime, "fault-time", 0, "virtual time during which faults happen; 0 for the usual time")
	flags.IntVar(&o.Brokers, "brokers", 0, "how many brokers; 0 lets the seed draw")
	flags.IntVar(&o.Partitions, "partitions", 0, "how many partitions; 0 lets the seed draw")
	c.bug.addFlag(flags)
	if err := flags.Parse(args); err != nil {
		return nil, flag.ErrHelp // the flag set has said what is wrong
	}
	if err := c.bug.plant(); err != nil {
		return nil, err
	}
	var ok bool
	if o.Plant, ok = plantOf(*plant); !ok {
		return nil, fmt.Errorf("sim: plant %q is not known; there are %v", *plant, sim.Plants())
	}
	if flags.NArg() > 0 || c.seeds == 0 || c.workers < 1 || c.shrink < 0 || c.tail < 0 {
		return nil, fmt.Errorf("sim: want at least one seed and one worker, no negative time, and no arguments beside flags")
	}
	if *without != "" {
		o.Without = strings.Split(*without, ",")
	}
	if *skip != "" {
		for _, s := range strings.Split(*skip, ",") {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("sim: --skip %q: want numbers from 0 on, separated by commas", *skip)
			}
			o.Skip = append(o.Skip, n)
		}
	}
	return c, o.Validate()
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
