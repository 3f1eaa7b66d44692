package broker

import (
	"log/slog"

	"github.com/moldau-log/moldau/cluster"
)

// The kinds of elections that are counted.
const (
	electionPreferred = "preferred" // the preferred replica took over from a leader that was fine
	electionFailover  = "failover"  // the leader before was gone, draining, or no replica any more
	electionUnclean   = "unclean"   // the new leader may lack acknowledged records
)

// electionKind says how this change made a broker the leader; "" when it did not. Every election raises the leader epoch.
func electionKind(id cluster.BrokerID, old, now *cluster.Partition) string {
	switch {
	case old == nil || now == nil || now.Leader != id || now.LeaderEpoch == old.LeaderEpoch:
		return ""
	case now.UncleanLast:
		return electionUnclean
	case old.Leader != cluster.NoBroker && old.Leader != id && now.Replicas[0] == id && now.InISR(old.Leader):
		return electionPreferred
	}
	return electionFailover
}

// countElections counts the elections that this broker won, so that a sum over the brokers has each one once. An unclean one is also logged: it is the one
// event that can lose acknowledged records.
func (b *Broker) countElections(delta *cluster.Delta) {
	for c := range delta.Partitions() {
		kind := electionKind(b.id, c.Old, c.New)
		if kind == "" {
			continue
		}
		b.meters.elections.With(kind).Inc()
		if kind == electionUnclean {
			b.log.Error("unclean election: this broker leads, and may lack acknowledged records", slog.Any("partition", c.Key),
				slog.Int64("leader_epoch", int64(c.New.LeaderEpoch)))
		}
	}
}
