// Package grpcapi is the native gRPC front door: LogService, GroupService and AdminService of proto/moldau/v1 over package broker, with
// health, and reflection where it is switched on.
//
// It translates and bounds; it decides nothing about data. Batches are checked (exactly one, size, checksum, decompressed size, what a
// producer may send) on the connection's goroutine before broker.Produce sees them. Refusals are cluster codes; errors.go has the one table
// that turns them into gRPC.
//
// Callers: package server builds a Server over a *broker.Broker. Clients may call any broker for everything but the Produce, Fetch and Join
// streams: what another broker must answer is forwarded to its gRPC listener, once (forward.go).
//
// Goroutines: gRPC runs one per connection side and one per call. A Produce stream has a second one, which sends results, and a Join stream
// a second one, which receives; each ends before its call does. Stop ends all calls and waits, bounded by its context.
//
// Bounds: connections, of one address, and within the process's descriptors (internal/conns); idle time of a connection; message size, by
// call; what messages decode to, of one and of all large ones (inbound.go); what has come of messages that are not whole (halfsent.go);
// streams per connection, unanswered bytes per stream (told to the
// client as its window) and per server, bytes of answers that clients have not taken over all connections (answers.go), partitions per
// fetch, queries and records per call, decompressed bytes per batch, time for the handshake.
//
// Invariants: a batch's buffer goes back to the pool only after the broker has given it up; a stream answers every batch that it has taken,
// unless the connection is gone; batches of one stream for one partition reach the broker in the stream's order; a forwarded call is never
// forwarded again.
package grpcapi
