// Package replication decides what one replica of a partition does: who is in sync, where the high watermark is, which requests are
// admitted and answered, when a log is truncated and whom it follows.
//
// It is a pure state machine. Step takes the time and one input and returns effects; it never blocks, never fails and reads no clock. It
// sees no bytes, no files and no sockets: a batch is an offset range here. Package partition executes the effects, the simulator does the
// same with an idealised log, and package controller decides elections, which arrive here as PartitionChanged.
//
// No goroutines. A Replica belongs to whoever steps it.
//
// Invariants, kept by Step whatever the inputs are:
//   - log start <= high watermark <= log end, and flushed <= log end;
//   - while a replica leads, its high watermark does not fall, and every member of the maximal ISR has, on disk unless the topic is
//     relaxed, everything below it;
//   - nothing is cut off a log but what a leader of a newer epoch has shown to diverge;
//   - a request that was admitted gets exactly one response.
//
// DESIGN.md explains the rules and their reasons.
package replication
