package sim

import (
	"fmt"
	"slices"
)

// floorSeeds is how many histories a floor is for: the bounded set of the short suite.
const floorSeeds = 100

// floor is how often something has to have been seen in floorSeeds histories for them to prove anything about it.
type floor struct {
	what string
	got  func(*Coverage) int
	want int
}

// floors lists them. What is new goes into a list of its own, beside the faults that it is about.
func floors() []floor {
	return append([]floor{
		{"acknowledged writes", func(c *Coverage) int { return c.Acknowledged }, 10_000},
		{"retries", func(c *Coverage) int { return c.Retries }, 2000},
		{"duplicates that were recognised", func(c *Coverage) int { return c.Duplicates }, 500},
		{"reads", func(c *Coverage) int { return c.Reads }, 10_000},
		{"answers to latest", func(c *Coverage) int { return c.Latest }, 10_000},
		{"elections", func(c *Coverage) int { return c.Elections }, 300},
		{"ISR shrinks with writes in flight", func(c *Coverage) int { return c.ShrinksInFlight }, 400},
		{"ISR expansions", func(c *Coverage) int { return c.Expansions }, 400},
		{"truncations", func(c *Coverage) int { return c.Truncations }, 40},
		{"kills", func(c *Coverage) int { return c.Kills }, 200},
		{"power cuts of all", func(c *Coverage) int { return c.PowerCutsOfAll }, 40},
		{"crashes with loss", func(c *Coverage) int { return c.CrashesWithLoss }, 20},
		{"clean stops", func(c *Coverage) int { return c.CleanStops }, 50},
		{"one-way cuts", func(c *Coverage) int { return c.Cuts }, 100},
		{"isolations", func(c *Coverage) int { return c.Isolations }, 100},
		{"pauses", func(c *Coverage) int { return c.Pauses }, 50},
		{"slow disks", func(c *Coverage) int { return c.SlowDisks }, 80},
		{"failed fsyncs", func(c *Coverage) int { return c.SyncFailures }, 60},
		{"moves of the controller", func(c *Coverage) int { return c.ControllerMoves }, 60},
		{"ISR proposals of unknown outcome", func(c *Coverage) int { return c.AltersUnknown }, 10},
		{"broken streams", func(c *Coverage) int { return c.StreamsBroken }, 400},
		{"overruns", func(c *Coverage) int { return c.Overruns }, 60},
	}, slices.Concat(groupFloors(), adminFloors(), pipelineFloors(), diskFloors(), clockFloors(), metaFloors(), uncleanFloors(), expiryFloors())...)
}

// BelowFloor lists what a number of whole histories, with everything in them, has seen too little of to prove anything.
func (c *Coverage) BelowFloor(seeds int) []string {
	var out []string
	for _, f := range floors() {
		if got, want := f.got(c), f.want*seeds/floorSeeds; got < want {
			out = append(out, fmt.Sprintf("%s: %d, want at least %d", f.what, got, want))
		}
	}
	return out
}
