package controller

import (
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A pipeline of hashicorp/raft blocks for ever when a follower refuses an append in the wrong moment, as one does whose disk fails: it then gets heartbeats and no
// entry, and its broker cannot register. So Raft is told that there is none. Found by a soak run with fsync-error.
func TestRaftDoesNotPipelineAppends(t *testing.T) {
	network := newTestNet()
	trans := newTransport(network.listen("b1:1", "1"), "1@b1:1", &addressBook{}, hclog.NewNullLogger(), func(raft.ServerID) {})
	t.Cleanup(func() {
		if err := trans.Close(); err != nil {
			t.Error(err)
		}
	})
	network.listen("b2:1", "2")
	if _, err := trans.AppendEntriesPipeline("2", "2@b2:1"); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("a pipeline: %v", err)
	}
}
