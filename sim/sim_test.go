package sim_test

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/sim"
)

// boundedSeeds is how many histories the short suite plays; plantSeeds is within how many each planted fault has to be found.
const (
	boundedSeeds = 100
	plantSeeds   = 50
)

// TestSeeds plays the bounded set: nothing is broken, and the histories are worth something.
func TestSeeds(t *testing.T) {
	var total sim.Coverage
	for seed := range uint64(boundedSeeds) {
		r := sim.Run(sim.Options{Seed: seed})
		if r.Violation != "" {
			t.Errorf("seed %d: %s\nreplay: go run ./cmd/sim --seed %d -v", seed, r.Violation, seed)
		}
		if r.Simulated.Seconds() < 10 || r.Coverage.Operations < 200 {
			t.Errorf("seed %d: %s with %d operations is too little", seed, r.Simulated, r.Coverage.Operations)
		}
		total.Add(&r.Coverage)
	}
	t.Log(total)
	for _, f := range []struct {
		what      string
		got, want int
	}{
		{"acknowledged writes", total.Acknowledged, 10_000},
		{"retries", total.Retries, 2000},
		{"duplicates that were recognised", total.Duplicates, 500},
		{"reads", total.Reads, 10_000},
		{"answers to latest", total.Latest, 10_000},
		{"elections", total.Elections, 300},
		{"ISR shrinks with writes in flight", total.ShrinksInFlight, 400},
		{"ISR expansions", total.Expansions, 400},
		{"truncations", total.Truncations, 40},
		{"kills", total.Kills, 200},
		{"power cuts of all", total.PowerCutsOfAll, 40},
		{"crashes with loss", total.CrashesWithLoss, 20},
		{"clean stops", total.CleanStops, 50},
		{"one-way cuts", total.Cuts, 100},
		{"isolations", total.Isolations, 100},
		{"pauses", total.Pauses, 50},
		{"slow disks", total.SlowDisks, 80},
		{"failed fsyncs", total.SyncFailures, 60},
		{"moves of the controller", total.ControllerMoves, 60},
		{"ISR proposals of unknown outcome", total.AltersUnknown, 10},
		{"broken streams", total.StreamsBroken, 400},
		{"overruns", total.Overruns, 60},
	} {
		if f.got < f.want {
			t.Errorf("%s: %d, want at least %d", f.what, f.got, f.want)
		}
	}
}

// TestOneSeedIsOneHistory repeats histories: the same to the last event, also when it is watched.
func TestOneSeedIsOneHistory(t *testing.T) {
	hashes := map[uint64]uint64{}
	for seed := range uint64(10) {
		first := sim.Run(sim.Options{Seed: seed})
		again := sim.Run(sim.Options{Seed: seed, Trace: true})
		if first.Hash != again.Hash || first.Steps != again.Steps || first.Coverage != again.Coverage {
			t.Errorf("seed %d: %x after %d events, then %x after %d", seed, first.Hash, first.Steps, again.Hash, again.Steps)
		}
		if other, ok := hashes[first.Hash]; ok {
			t.Errorf("seeds %d and %d are one history", other, seed)
		}
		hashes[first.Hash] = seed
		if len(again.Trace) == 0 || len(first.Trace) != 0 {
			t.Errorf("seed %d: %d lines of trace when asked, %d when not", seed, len(again.Trace), len(first.Trace))
		}
	}
}

// TestPlantsAreFound proves that the checks see: each fault put into the surroundings is found within a bounded number of seeds.
func TestPlantsAreFound(t *testing.T) {
	for _, plant := range sim.Plants() {
		t.Run(plant.String(), func(t *testing.T) {
			for seed := range uint64(plantSeeds) {
				r := sim.Run(sim.Options{Seed: seed, Plant: plant})
				if strings.HasPrefix(r.Violation, "panic") {
					t.Fatalf("seed %d: %s", seed, r.Violation)
				}
				if r.Violation != "" {
					t.Logf("found by seed %d: %s", seed, r.Violation)
					return
				}
			}
			t.Errorf("not found within %d seeds", plantSeeds)
		})
	}
}
