// Package placement chooses: which brokers get the replicas of new partitions, which replica is to lead, which broker is to coordinate a
// shard. It is pure: the same arguments give the same answer on every broker, so that controller/state may call it while it applies a
// command.
//
// It is not the decision whether to act, which is controller/driver's, nor the effect on the metadata, which is controller/state's. It runs
// no goroutine and keeps no state.
//
// Invariants: an assignment never names a broker twice; a clean election never chooses outside ISR and ELR; what is even stays even (counts
// of replicas, leaders and shards of eligible brokers differ by at most one where racks allow it).
package placement
