//go:build planted

package partition

import (
	"testing"

	"github.com/moldau-log/moldau/internal/planted/found"
)

// TestPlantedBugsAreFound proves that the tests of this package see: each mistake planted in the product is found as docs/bugs.md says.
func TestPlantedBugsAreFound(t *testing.T) { found.Check(t, "partition", nil) }
