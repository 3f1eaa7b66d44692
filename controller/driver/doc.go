// Package driver is the mind of the controller while it leads: which broker has a session, who is to be fenced, unfenced or drained, which
// partition needs a leader, which reassignment can end, who is to coordinate a shard.
//
// It is not the rules of what a command does (controller/state) nor of who is chosen (controller/placement), and it never acts by itself: it is
// a machine, stepped by the loop in package controller, whose effects are commands to propose. It is pure: no clock, no goroutine, no map order in
// its output. The simulator steps it as it is.
//
// Inputs, a closed set: BecameLeader, LostLeadership, ImageChanged, Heartbeat, PeerRefused, ProposalDone, Tick. Without leadership every input but
// BecameLeader is ignored. Effects, in this order: commands to propose (each answered by one ProposalDone), the reply to the heartbeat that was the
// input, and the time of the next Tick.
//
// Rules:
//   - A new leader gives everybody a full session, and so does one that was itself asleep: it cannot know who is silent. A session outlasts the lease that
//     a broker takes from an answered heartbeat, and a broker whose fencing is under way is answered as fenced, so that it takes no new lease.
//   - A broker is fenced when its session ends, or when its peer port refuses connections and it has missed a heartbeat: then the process is dead.
//   - A broker is unfenced when it has applied the entry that registered its present life, and the one that fenced it in that life.
//   - At most one proposal is outstanding per partition, per broker and for all shards; it counts as outstanding until the image has its entry.
//     What was refused is looked at again after RetryDelay, not at once.
//   - What restores service is proposed at once and in batches. What only beautifies (preferred leaders, even shards) waits until no broker has come or
//     gone for Settle, and moves a bounded number at a time.
//
// The driver keeps no truth of its own but sessions and reports of failed logs: everything else is in the Image, so a new controller goes on where
// the old one stopped (case 53).
package driver
