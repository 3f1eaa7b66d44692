// Package assignor says which member of a group gets which partition. It is pure: the same members and topics give the same answer, in
// whatever order they are named.
//
// Two strategies: Uniform spreads partitions evenly and moves as few as it can; Range gives each member a run of consecutive partitions of
// each topic, so that equally partitioned topics are read side by side. Racks are not looked at yet.
//
// It does not know epochs, nor that a partition must be released before it is given on: package group, the only caller, sees to that.
//
// Invariants: every partition of a topic with at least one subscriber is given to exactly one member that subscribes to it; the answer is a
// fixed point: asked again with it as Current, the same comes back.
package assignor
