package broker

import (
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
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

// TestFewVoters: while a new server has no vote yet the cluster is not healthy, because it may not lose another voter's disk.
func TestFewVoters(t *testing.T) {
	if got := fewVoters(controller.Stats{Voters: []cluster.BrokerID{0, 1}, VotersWanted: 3}); got == "" {
		t.Error("two of three voters pass for healthy")
	}
	for _, s := range []controller.Stats{{}, {Voters: []cluster.BrokerID{0}, VotersWanted: 1}, {Voters: []cluster.BrokerID{0, 1, 2}, VotersWanted: 3}} {
		if got := fewVoters(s); got != "" {
			t.Errorf("%v of %d voters: %s", s.Voters, s.VotersWanted, got)
		}
	}
}
