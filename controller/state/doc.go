// Package state is the cluster's metadata as a deterministic machine: the Image, the groups with their committed offsets, and one function, Apply,
// that says what a command does to them.
//
// It is not a decision what to propose (controller/driver), not a choice of replicas (controller/placement), not bytes (controller/codec), and
// knows neither Raft nor time. The FSM adapter in controller calls Apply with each committed entry, and publishes Image and Groups afterwards.
//
// It runs no goroutine. A State belongs to one goroutine; what Image, Groups and Snapshot return is immutable and may be read by anybody
// for as long as they like.
//
// Rules that hold for every command:
//   - Apply is a function of the state and the command alone. Two brokers that applied the same entries hold equal states, byte for byte in
//     a snapshot, also when one of them began from a snapshot. So nothing here may depend on what may differ between two versions of the
//     software: the values of configs are checked by whoever proposes, not here.
//   - A command is refused as a whole before it has an effect, or item by item where it has items.
//   - Effects over many partitions are computed in key order.
//
// Invariants of a partition, checked at every write (a violation stops the process): see checkPartition.
package state
