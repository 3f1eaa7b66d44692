// Package controller keeps a cluster's metadata: a Raft node on every broker, whose leader is the controller.
//
// It is the shell around controller/state (what a command does), controller/driver (what the controller decides) and controller/codec (how
// commands and snapshots are written). Here are only the effects: hashicorp/raft and its stores, formation of a cluster, proposals and their
// forwarding, the leader's loop, the broker's session with the leader, backup and recovery. It knows no partition log, no client protocol and no
// network: package peer implements StreamLayer and LeaderCall, and hands incoming requests to Controller.Serve. Package broker is its other caller.
//
// Goroutines, all stopped and awaited by Close: formation (ends when Raft runs), the proposer and its completer (proposals into Raft and their
// results out, in order), the watch over leadership, and, only while this broker leads, the leader's loop. A Session has a goroutine of its own.
//
// Invariants:
//   - Readers see the metadata only through an immutable Image, swapped after an entry is applied; the applied index is this package's own.
//   - An error of the Raft log, the stable store, or of restoring a snapshot, and an entry that this version does not know, end the process through
//     Ports.Fatal with a message that names the file or entry and the remedy. Nothing is skipped and no older snapshot is ever used instead.
//   - A proposal is sent again only when it is certain that it was not done. Otherwise its outcome is unknown (CodeTimedOut).
//   - Heartbeats are answered only by a leader that has verified its leadership after it received them.
//
// DESIGN.md in this directory tells the paths and the reasons.
package controller
