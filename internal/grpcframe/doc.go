// Package grpcframe is the fast path of the native gRPC API, for both of its ends: the messages of the Produce and Fetch streams as plain
// Go structs, written and parsed by hand, a gRPC codec that knows them, and a buffer pool with fine tiers.
//
// On the wire a frame is exactly the protobuf message of proto/moldau/v1 that it is named after, so any other gRPC client works: the
// tests compare both ways with the generated code. What the generated code costs, and a frame does not, is a copy of the batch when
// sending and a second one on receipt: a message arrives in pieces of at most 16 KiB, and a frame gathers the batch out of them straight
// into memory that its user may keep and change.
//
// It is not a general protobuf library: every message that is not a frame goes to the ordinary codec. It runs no goroutines. Codec and
// Pool may be used from any goroutine, a frame from one at a time.
//
// Invariants: Unmarshal accepts what the generated code accepts, takes unknown fields for skipped, and never reads or allocates more than
// the message holds. Bytes that a frame hands out do not alias what gRPC may reuse.
package grpcframe
