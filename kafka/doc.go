// Package kafka is the Kafka wire front door: existing Kafka clients and tools talk to package broker through it.
//
// It translates and bounds; it decides nothing about data. One file per API is named by its key (00_produce.go, 01_fetch.go); each opens with the versions it
// speaks and what they brought. table.go lists what is offered: what is not there is absent from ApiVersions, and clients adapt. Refusals are cluster codes;
// errors.go has the one table that turns them into Kafka's error codes. docs/kafka.md is the page for users. The codec is kmsg, which no
// other package of the broker imports (the load generator does).
//
// Callers: package server builds a Server over a *broker.Broker, serves its listener and stops it.
//
// Goroutines: one accepts. A connection has three, each ended and awaited by the connection: the reader takes frames, the handler works on them one after
// another, the writer sends answers in the order of the requests. Produce requests overlap: the handler hands their batches to the broker and goes on; every
// other request starts when the batches before it are appended.
//
// Bounds: frame size before anything is allocated, time for a frame to arrive, idle time, connections in all and per address, unanswered requests per
// connection, bytes of requests and of fetched records over all connections, decompressed bytes per batch, entries per request (by the frame size).
//
// Invariants: answers leave in the order of the requests; batches of one connection for one partition reach the broker in the order in which they came; a
// frame's buffer is used again only after every batch in it was given up; a panic ends its connection, never the broker.
package kafka
