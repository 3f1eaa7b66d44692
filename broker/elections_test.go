package broker

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// TestCase59_KindsOfElections: an unclean election is told apart from every other, and only the broker that was elected counts it.
func TestCase59_KindsOfElections(t *testing.T) {
	const me, other = cluster.BrokerID(1), cluster.BrokerID(2)
	at := func(leader cluster.BrokerID, epoch int, isr ...cluster.BrokerID) *cluster.Partition {
		p := &cluster.Partition{Replicas: []cluster.BrokerID{me, other}, Leader: leader, ISR: isr}
		for range epoch {
			p.LeaderEpoch++
		}
		return p
	}
	unclean := at(me, 2, me)
	unclean.UncleanLast = true
	for _, c := range []struct {
		name     string
		old, now *cluster.Partition
		want     string
	}{
		{"created", nil, at(me, 1, me, other), ""},
		{"deleted", at(me, 1, me, other), nil, ""},
		{"isr change", at(me, 1, me, other), at(me, 1, me), ""},
		{"another's", at(me, 1, me, other), at(other, 2, me, other), ""},
		{"preferred", at(other, 1, me, other), at(me, 2, me, other), electionPreferred},
		{"leader died", at(other, 1, me, other), at(me, 2, me), electionFailover},
		{"came back", at(cluster.NoBroker, 1, me), at(me, 2, me), electionFailover},
		{"unclean", at(cluster.NoBroker, 1, other), unclean, electionUnclean},
	} {
		if got := electionKind(me, c.old, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
