package sim

import "testing"

func TestOne(t *testing.T) {
	var total Coverage
	for seed := range uint64(20) {
		r := Run(Options{Seed: seed})
		t.Logf("seed %d hash %x steps %d sim %s %q", seed, r.Hash, r.Steps, r.Simulated, r.Violation)
		total.Add(&r.Coverage)
	}
	t.Log(total)
}
