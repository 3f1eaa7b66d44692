package broker

import (
	"context"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// Queries of a request that nobody waits for any more are refused, and nothing is looked for (case 108). A broker that would look has no image here, and panics.
func TestCase108_QueriesEndWithTheirRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers := new(Broker).ListOffsets(ctx, make([]OffsetQuery, 3))
	if len(answers) != 3 {
		t.Fatalf("%d answers", len(answers))
	}
	for _, a := range answers {
		if a.Code != cluster.CodeTimedOut || a.Offset != -1 || a.Message == "" {
			t.Errorf("answered %+v", a)
		}
	}
}
