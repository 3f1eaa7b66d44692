// Package coordinator is the pure core of a broker's group coordinator: the groups of all shards that the broker leads, and the batching
// of their records into the log.
//
// It does no I/O and reads no clock: package consumergroup feeds it requests, results and time, and carries out its effects. It runs no
// goroutines.
//
// Invariants: at most one GroupAppend is unresolved; in it, at most one batch per shard; a batch is sent once; replies of a group leave in
// the order of the requests, and none before the records of the group that were pending when it was made are committed.
package coordinator
