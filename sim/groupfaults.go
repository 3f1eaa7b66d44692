package sim

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// groupFaults lists what can go wrong with the coordinators of groups.
func groupFaults() []faultKind {
	return []faultKind{
		{name: "kill-coordinator", do: func(w *World, _ *broker) { w.kill(w.groups.coordinatorBroker()) }},
		{name: "pause-coordinator", do: func(w *World, _ *broker) { w.pause(w.groups.coordinatorBroker()) }},
		{name: "isolate-coordinator", do: func(w *World, _ *broker) {
			w.isolate(w.groups.coordinatorBroker(), false, w.between(1500*time.Millisecond, 6*time.Second))
		}},
		{name: "controller-move-in-commit", do: func(w *World, _ *broker) { w.groups.ambush = true }},
		{name: "late-append", do: func(w *World, _ *broker) { w.groups.hold = true }},
		{name: "shard-move", do: func(w *World, _ *broker) { w.groups.moveShard() }},
		{name: "late-coordinator", do: func(w *World, _ *broker) { w.lateMetadata(w.groups.coordinatorBroker()) }},
	}
}

// moveShard takes the shard of a group from its coordinator; the controller gives it to somebody when everybody knows.
func (g *groups) moveShard() {
	if len(g.list) == 0 {
		return
	}
	id := cluster.ShardOf(g.list[g.w.rng.IntN(len(g.list))].name)
	g.w.cov.ShardMoves++
	epoch := g.w.meta.state.Image().Shard(id).Epoch
	g.w.meta.propose(cluster.AssignShards{Moves: []cluster.ShardMove{{Shard: id, Epoch: epoch, Leader: cluster.NoBroker}}}, nil)
}

// groupFloors lists how much of groups has to have been seen.
func groupFloors() []floor {
	return []floor{
		{"members that joined", func(c *Coverage) int { return c.Joins }, 600},
		{"generations", func(c *Coverage) int { return c.Generations }, 400},
		{"acknowledged commits", func(c *Coverage) int { return c.CommitsAcknowledged }, 700},
		{"refused commits", func(c *Coverage) int { return c.CommitsRefused }, 250},
		{"commits of unknown outcome", func(c *Coverage) int { return c.CommitsUnknown }, 200},
		{"group appends of unknown outcome", func(c *Coverage) int { return c.GroupAppendsUnknown }, 80},
		{"reads of committed offsets", func(c *Coverage) int { return c.OffsetReads }, 10_000},
		{"partitions taken from members", func(c *Coverage) int { return c.Revocations }, 30},
		{"takeovers of coordinators", func(c *Coverage) int { return c.Takeovers }, 250},
		{"members that paused", func(c *Coverage) int { return c.MemberPauses }, 40},
		{"offsets deleted", func(c *Coverage) int { return c.OffsetsDeleted }, 30},
		{"offsets that expired", func(c *Coverage) int { return c.OffsetsExpired }, 2},
		{"offsets that were reset", func(c *Coverage) int { return c.Resets }, 1},
		{"members fenced", func(c *Coverage) int { return c.MembersFenced }, 40},
		{"instances fenced", func(c *Coverage) int { return c.InstancesFenced }, 5},
		{"classic members told to join again", func(c *Coverage) int { return c.Rebalances }, 100},
		{"moves of shards", func(c *Coverage) int { return c.ShardMoves }, 30},
		{"groups deleted", func(c *Coverage) int { return c.GroupsDeleted }, 3},
		{"sessions that ended", func(c *Coverage) int { return c.SessionsEnded }, 90},
	}
}
