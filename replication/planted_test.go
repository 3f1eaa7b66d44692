//go:build planted

package replication_test

import (
	"testing"

	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted/found"
)

// TestPlantedBugsAreFound proves that the walk and the directed tests see: each known mistake of docs/bugs.md is found as it says.
func TestPlantedBugsAreFound(t *testing.T) { found.Check(t, "replication", brokenBy) }

// brokenBy is what the walk of a seed finds broken. A broken invariant of the machine counts.
func brokenBy(seed uint64) (broken string) {
	defer func() {
		v := recover()
		if violation, ok := invariant.Recovered(v); ok {
			broken = violation.Error()
		} else if v != nil {
			panic(v)
		}
	}()
	broken, _ = walk(seed, walkSteps, nil)
	return broken
}
