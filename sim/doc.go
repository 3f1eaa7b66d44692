// Package sim runs a whole cluster in one goroutine, on virtual time, with everything that goes wrong drawn from a seed.
//
// What decides and what keeps the log runs byte for byte as in a broker: partition.Partition with replication.Replica and segment.Log on a file
// system in memory, both ends of replication/session, controller/state and controller/driver. What carries and what waits is replaced: goroutines,
// sockets, timers and the disk belong to the World here, and Raft is an idealised log that delays, loses proposals and changes its leader.
//
// A history is a function of its seed and options: Run gives the same hash for the same seed. Checks run all along the way, and at the end, when all
// faults have ended, the cluster has to become whole again. Package cmd/sim runs many seeds; DESIGN.md says what is covered and what is not.
//
// No goroutines, no wall clock, no chance but that of the seed.
package sim
