// Package group is the pure machine of one consumer group: members, epochs, who may read which partition, and committed offsets.
//
// It is not the coordinator: it knows no shards, no log and no clock. Package coordinator calls it, on its one goroutine; the package runs
// none of its own.
//
// A handler (Step) returns records and a reply and leaves the durable state alone; only Replay changes that. Timeouts return records too.
// What Step does change is volatile: when sessions end, what a member was last told. A new coordinator replays the records and goes on in
// the same epoch, with fresh sessions.
//
// A group has native members (member.go, edit.go), whom the coordinator assigns partitions, or classic ones (classic*.go), who assign among
// themselves: then the machine gathers them into generations, and holds joins and syncs back until they can be answered (Output.Completed).
//
// Invariants of native groups: a partition is in the Assigned or Revoking of at most one member; a member gets a partition only after the former owner has
// reported that it no longer reads it, or was removed; the epoch of a member rises only in its own heartbeat. Of classic
// groups: a generation that a member hears of is in a record; only members of the present generation with an assignment commit. Of all: Epoch
// never falls in the life of a group; a parked request is answered once, or returned by Abandon.
package group
