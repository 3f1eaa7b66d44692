// Package server builds a running broker from a config.Config: it is the only place where everything is put together, and it decides nothing else. The
// commands and tests call it.
//
// Order of a start: lock and identify the data directory, listen on every port, open the peer port, open the controller and wait until this broker is part
// of a cluster, recover the logs, register, serve. Order of an orderly stop: refuse new work, let the controller move leaderships away, stop the doors,
// close the logs with clean marks, write the clean-stop marker, close Raft and the peer port.
//
// Goroutines: one per HTTP and gRPC listener; all others belong to the parts. Stop waits for all of them.
package server
