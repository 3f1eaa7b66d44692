// Package metadatav1 has the commands, results and snapshots of the replicated metadata, as they stand in the Raft log and in snapshot files.
//
// All but this file is generated from the .proto files beside it. Only controller/codec imports it: the rest of the house knows the
// types of controller/state. Fields are added, never renumbered or given another meaning, because a broker must read what an older one wrote.
package metadatav1
