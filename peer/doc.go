// Package peer carries everything that brokers say to each other, over one TCP port.
//
// A connection opens with a hello (hello.go) that names its stream type and both ends; what does not open so is closed before anything
// else is decoded. Four kinds of stream follow:
//
//	raft         the bytes of hashicorp/raft, untouched (raft.go)
//	control      requests to another broker's controller and their answers, many at a time (mux.go, control.go)
//	forward      opaque requests of package broker, in the same frames, so that bulk never stands before control (forward.go)
//	replication  frames of replication/session from a leader to a follower and back (leaderstream.go, followerstream.go)
//
// The package decides nothing about metadata, leadership or data: it moves bytes, and proves who is at the other end. Identity is the Raft
// server id "<broker id>-<directory id>": a broker whose disk was wiped is somebody else, and must not be taken for the old voter.
//
// Callers: package server builds a Peer and hands it to controller (StreamLayer, LeaderCall), to replication/fetcher (Transport) and to
// broker (Forward).
//
// Goroutines: one accepts; one per accepted connection runs the hello and then its stream; a control or forward connection has one reader
// on each side and, on the serving side, one goroutine per request, at most maxServing. A replication stream has none of its own: the
// fetcher and the sender bring theirs. Close ends all of them and waits.
//
// Invariants:
//   - Nothing after the hello is read before the hello is accepted by both ends.
//   - A connection to an end of another cluster, or to another server id than the one dialled, never carries a frame.
//   - Memory that an end without an accepted hello can claim is bounded by maxHello bytes and maxPending connections.
//   - A silent peer is noticed within 3 s: each end of an idle stream sends a ping every second (Raft has heartbeats of its own).
package peer
