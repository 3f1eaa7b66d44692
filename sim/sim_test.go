package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/sim"
)

// boundedSeeds is how many histories the short suite plays; plantSeeds is within how many each planted fault has to be found.
const (
	boundedSeeds = 100
	plantSeeds   = 50
	// A failure is shrunk, within bounds, because many may fail at once.
	shrinkRuns = 150
	shrinkTime = 10 * time.Second
)

// TestSeeds plays the bounded set: nothing is broken, and the histories are worth something.
func TestSeeds(t *testing.T) {
	var total sim.Coverage
	for seed := range uint64(boundedSeeds) {
		r := sim.Run(sim.Options{Seed: seed})
		if r.Violation != "" {
			explain(t, r, sim.Options{Seed: seed})
		}
		if r.Simulated.Seconds() < 10 || r.Coverage.Operations < 500 {
			t.Errorf("seed %d: %s with %d operations is too little", seed, r.Simulated, r.Coverage.Operations)
		}
		total.Add(&r.Coverage)
	}
	t.Log(total)
	for _, few := range total.BelowFloor(boundedSeeds) {
		t.Error(few)
	}
}

// explain adds to a failing seed the smallest command that was found for it.
func explain(t *testing.T, r sim.Result, opts sim.Options) {
	t.Helper()
	began := time.Now()
	s := sim.Shrink(opts, r, shrinkRuns, func() bool { return time.Since(began) > shrinkTime })
	t.Errorf("seed %d: %s\nreplay: go run ./cmd/sim %s -v\nsmaller: go run ./cmd/sim %s -v\n%s", opts.Seed, r.Violation, opts.Args(), s.Options.Args(), s.Result.Violation)
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
	// Plants that few histories show, and from which seed on they are looked for.
	from := map[sim.Plant]uint64{sim.PlantEternalCoordinator: 100}
	for _, plant := range sim.Plants() {
		t.Run(plant.String(), func(t *testing.T) {
			for n := range uint64(plantSeeds) {
				seed := from[plant] + n
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

// BenchmarkRun tells how many simulated seconds a second of one core is worth: at least 20.
func BenchmarkRun(b *testing.B) {
	simulated := 0.0
	for seed := uint64(0); b.Loop(); seed++ {
		simulated += sim.Run(sim.Options{Seed: seed % boundedSeeds}).Simulated.Seconds()
	}
	b.ReportMetric(simulated/b.Elapsed().Seconds(), "simulated-s/s")
}
