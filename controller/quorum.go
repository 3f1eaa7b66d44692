package controller

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Quorum is who keeps the metadata log. Indexes are those of the Raft log; -1 where this broker does not know.
type Quorum struct {
	Leader      cluster.BrokerID
	Term        cluster.ControllerTerm
	CommitIndex int64
	Members     []QuorumMember // voters and others, in the order of Raft's configuration
}

// QuorumMember is one server of the metadata log.
type QuorumMember struct {
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	Voter     bool
	// Index is the end of its log where that is known: the whole log for the answering broker, what it had applied at its last heartbeat for others.
	Index int64
	// Heard is how long ago it was heard of, -1 where that is not known.
	Heard time.Duration
}

// Quorum tells what this broker knows; the leader knows most.
func (c *Controller) Quorum() Quorum {
	q := Quorum{Leader: cluster.NoBroker, CommitIndex: -1}
	n := c.node.Load()
	if n == nil {
		return q
	}
	q.Term, q.CommitIndex = cluster.ControllerTerm(n.raft.CurrentTerm()), int64(n.raft.CommitIndex())
	if _, id, ok := c.Leader(); ok {
		q.Leader = id
	}
	configuration, err := n.configuration()
	if err != nil {
		return q
	}
	lead := c.lead.Load()
	for _, server := range configuration.Servers {
		broker, dir, err := parseServerID(server.ID)
		if err != nil {
			continue
		}
		m := QuorumMember{Broker: broker, Directory: dir, Voter: server.Suffrage == raft.Voter, Index: -1, Heard: -1}
		switch {
		case server.ID == c.server:
			m.Index, m.Heard = int64(n.raft.LastIndex()), 0
		case lead != nil:
			m.Index, m.Heard = lead.health.heard(server.ID)
		}
		q.Members = append(q.Members, m)
	}
	return q
}

// heard is what a server's last heartbeat said it had applied, and how long ago it came; -1 both before the first.
func (h *health) heard(id raft.ServerID) (index int64, ago time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.servers[id]
	if !ok || s.applied == 0 {
		return -1, -1
	}
	return int64(s.applied), h.now() - s.last
}
