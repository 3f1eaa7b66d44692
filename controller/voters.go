package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Rules about who votes.
const (
	voterLagMax       = 1000             // entries that a healthy server may be behind
	voterFailedAfter  = 30 * time.Second // an unhealthy voter is replaced after this long
	strangerRemovedIn = 5 * time.Minute  // a server whose broker is not registered with that directory goes after this long
)

// memberView is one server of Raft's configuration as the leader sees it.
type memberView struct {
	ID     raft.ServerID
	Broker cluster.BrokerID
	Voter  bool
	// Registered says that the broker is registered with this server's data directory and is not draining.
	Registered bool
	// Healthy servers have a live session and are at most voterLagMax entries behind. Since is for how long that has been so, or not been so.
	Healthy bool
	Since   time.Duration
}

// memberChange is one change of Raft's configuration. Empty fields change nothing.
type memberChange struct {
	Promote, Demote, Remove raft.ServerID
}

// planMembers decides the next change of who votes, one at a time, so that each is committed before the next is judged. It is pure; members may be in any order.
//
// The order is: replace a failed voter (first it loses its vote, then another is promoted, which keeps the number odd longest), promote while there are too few
// voters, demote while there are too many, remove strangers. The leader is never touched, and from an odd number nobody is promoted alone: two voters fail
// more easily than one.
func planMembers(self raft.ServerID, brokers int, members []memberView, stable time.Duration) memberChange {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b memberView) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.ID, b.ID))
	})
	var votes, healthy int
	var candidates []raft.ServerID
	var failed, surplus, stranger raft.ServerID
	for _, m := range members {
		switch {
		case m.Voter:
			votes++
			if m.Healthy || m.ID == self {
				healthy++
			}
		case m.Registered && m.Healthy && m.Since >= stable:
			candidates = append(candidates, m.ID)
		}
		gone := !m.Healthy && m.Since >= voterFailedAfter
		switch {
		case m.ID == self:
		case m.Voter && gone:
			failed = m.ID
		case m.Voter:
			surplus = m.ID // the highest id
		case !m.Registered && !m.Healthy && m.Since >= strangerRemovedIn:
			stranger = m.ID
		}
	}
	target := voterCount(brokers)
	switch {
	case failed != "" && len(candidates) > 0 && safeWithout(votes, healthy):
		return memberChange{Demote: failed}
	case votes < target && len(candidates) >= 1+votes%2 && healthy > votes/2:
		return memberChange{Promote: candidates[0]}
	case votes > target && failed != "" && safeWithout(votes, healthy):
		return memberChange{Demote: failed}
	case votes > target && surplus != "" && safeWithout(votes, healthy-1):
		return memberChange{Demote: surplus}
	case stranger != "":
		return memberChange{Remove: stranger}
	}
	return memberChange{}
}

// safeWithout reports whether healthy voters are still a majority when one voter is gone.
func safeWithout(votes, healthy int) bool { return healthy > (votes-1)/2 }
