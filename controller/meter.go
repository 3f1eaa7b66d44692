package controller

import "github.com/moldau-log/moldau/internal/meter"

// export registers the figures of the controller.
func (c *Controller) export(set *meter.Set) {
	gauge := func(name, help string, value func(Stats) float64) {
		set.GaugeFunc(name, help, nil, func(emit func(float64, ...string)) { emit(value(c.Stats())) })
	}
	gauge("moldau_controller_is_leader", "1 on the broker that is the controller.", func(s Stats) float64 {
		if s.State == stateLeader {
			return 1
		}
		return 0
	})
	gauge("moldau_controller_term", "Raft term.", func(s Stats) float64 { return float64(s.Term) })
	gauge("moldau_controller_applied_index", "Index of the last metadata entry that this broker has applied.", func(s Stats) float64 { return float64(s.AppliedIndex) })
	gauge("moldau_controller_last_index", "Index of the last entry in this broker's Raft log.", func(s Stats) float64 { return float64(s.LastIndex) })
	gauge("moldau_controller_voters", "Servers that vote on metadata.", func(s Stats) float64 { return float64(len(s.Voters)) })
	c.proposals = set.Counter("moldau_controller_proposals_total", "Commands that this broker proposed, by outcome.", "outcome")
}
