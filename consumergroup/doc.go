// Package consumergroup runs the coordinator of consumer groups: it owns the groups of the coordinator shards that this broker leads.
//
// It is the shell around three pure packages: group (one group's machine), assignor (who gets which partition) and coordinator (many
// groups, batched into the metadata log). It knows no wire protocol, no Raft and no partition log: records go through the port
// CoordinatorLog, lag through LagSource, topics through a snapshot of the metadata.
//
// Package broker calls it, on any goroutine, and tells it when the led shards or the topics change.
//
// Goroutines: one loop owns all groups; at most one append and one load of a shard run beside it. A broker that leads no group with
// members has no timer armed. Close stops them and waits.
//
// Invariants: an answer leaves only when the records that it rests on are committed; at most one append is in flight; a batch is never
// sent twice; a shard whose last batch has an unknown outcome is loaded again before anything is answered from it.
package consumergroup
