package broker

import (
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// TestAbsent: a cluster that is still forming must not pass for healthy, or a topic with three replicas is refused a moment later.
func TestAbsent(t *testing.T) {
	img := newMetadata(t, 2).state.Image()
	if got := absent(img, []cluster.BrokerID{1, 0}); len(got) != 0 {
		t.Errorf("both servers are registered, but %v count as absent", got)
	}
	if got, want := absent(img, []cluster.BrokerID{4, 1, 2, 0}), []cluster.BrokerID{2, 4}; !slices.Equal(got, want) {
		t.Errorf("absent %v, want %v", got, want)
	}
}
