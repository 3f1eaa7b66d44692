//go:build planted

package sim_test

import (
	"testing"

	"github.com/moldau-log/moldau/internal/planted/found"
	"github.com/moldau-log/moldau/sim"
)

// TestPlantedBugsAreFound proves that the simulator sees: each bug planted in the product is found as docs/bugs.md says.
func TestPlantedBugsAreFound(t *testing.T) {
	found.Check(t, "sim", func(seed uint64) string { return sim.Run(sim.Options{Seed: seed}).Violation })
}
