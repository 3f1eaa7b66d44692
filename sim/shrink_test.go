package sim_test

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/sim"
)

// failing is the first history of a planted fault that breaks something.
func failing(t *testing.T, plant sim.Plant) (sim.Options, sim.Result) {
	t.Helper()
	for seed := range uint64(plantSeeds) {
		opts := sim.Options{Seed: seed, Plant: plant}
		if r := sim.Run(opts); r.Violation != "" {
			return opts, r
		}
	}
	t.Fatalf("plant %s breaks nothing", plant)
	return sim.Options{}, sim.Result{}
}

// TestShrinkKeepsTheFinding shrinks a history in which synced bytes are lost: a power cut must stay in it, and little else.
func TestShrinkKeepsTheFinding(t *testing.T) {
	opts, found := failing(t, sim.PlantForgetsSync)
	s := sim.Shrink(opts, found, 200, func() bool { return false })
	class, _, _ := strings.Cut(found.Violation, ":")
	if !strings.HasPrefix(s.Result.Violation, class+":") {
		t.Errorf("%q became %q", found.Violation, s.Result.Violation)
	}
	if again := sim.Run(s.Options); again.Hash != s.Result.Hash || again.Violation != s.Result.Violation {
		t.Errorf("%s gives %q, then %q", s.Options.Args(), s.Result.Violation, again.Violation)
	}
	var left []string
	for _, f := range s.Result.Faults {
		if !f.LeftOut {
			left = append(left, f.Kind)
		}
	}
	if len(left) == 0 || len(left) > 3 || !strings.Contains(strings.Join(left, " "), "power-cut") {
		t.Errorf("faults left: %v of %v", left, found.Faults)
	}
	if s.Runs > 200 {
		t.Errorf("%d histories for a limit of 200", s.Runs)
	}
}

// TestShrinkIsBounded plays nothing when there is no time, and nothing when nothing was found.
func TestShrinkIsBounded(t *testing.T) {
	opts, found := failing(t, sim.PlantForgetsSync)
	if s := sim.Shrink(opts, found, 0, func() bool { return false }); s.Runs != 0 || s.Result.Hash != found.Hash {
		t.Errorf("%d histories for a limit of 0", s.Runs)
	}
	if s := sim.Shrink(opts, found, 10, func() bool { return true }); s.Runs != 0 {
		t.Errorf("%d histories without time", s.Runs)
	}
	whole := sim.Options{Seed: 1}
	if s := sim.Shrink(whole, sim.Run(whole), 10, func() bool { return false }); s.Runs != 0 {
		t.Errorf("%d histories to shrink one that breaks nothing", s.Runs)
	}
}

// TestFaultsCanBeLeftOut leaves one fault out: it does not happen, and which faults follow does not change.
func TestFaultsCanBeLeftOut(t *testing.T) {
	whole := sim.Run(sim.Options{Seed: 3})
	less := sim.Run(sim.Options{Seed: 3, Skip: []int{0}})
	if len(whole.Faults) < 5 || len(less.Faults) != len(whole.Faults) || !less.Faults[0].LeftOut || less.Hash == whole.Hash {
		t.Fatalf("%v became %v", whole.Faults, less.Faults)
	}
	for i, f := range whole.Faults {
		if g := less.Faults[i]; f.Kind != g.Kind || f.At != g.At || f.Broker != g.Broker || i > 0 && g.LeftOut {
			t.Errorf("fault %d was %v and became %v", i, f, g)
		}
	}
	none := sim.Run(sim.Options{Seed: 3, Without: sim.Names(), Brokers: 5, Partitions: 3})
	if none.Violation != "" || none.Coverage.Kills+none.Coverage.PowerCuts+none.Coverage.Isolations+none.Coverage.Pauses != 0 {
		t.Errorf("%s with %v", none.Coverage, none.Faults)
	}
}

// TestOptionsAreChecked refuses what names nothing.
func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []sim.Options{{Without: []string{"nonsense"}}, {Brokers: 2}, {Brokers: 100}, {Partitions: -1}, {MaxFaults: -1}, {FaultTime: -1}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if err := (sim.Options{Without: sim.Names(), Brokers: 3, Partitions: 1}).Validate(); err != nil {
		t.Error(err)
	}
}
