// Package load is the clients of a soak run: producers, consumers, members of groups, and those that ask for offsets, over both doors. Each writes what it does and what it saw into
// a history, at a bounded rate, and goes on through whatever happens to the brokers.
//
// It is not a benchmark, and it judges nothing: that is the checker's part. Package test/soak calls it. Every client is one goroutine, started by Load.Go and
// waited for by Load.Stop; promises of producers run on goroutines of their client libraries.
package load
