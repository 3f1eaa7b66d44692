// Package meter is how packages count: plain counters, gauges and histograms of fixed buckets, gathered in a Set.
//
// A package is given a *Set, registers its families once when it is constructed, keeps the *Counter, *Gauge and *Histogram values it
// needs, and updates them without locks. httpapi takes a Snapshot of every Set of the process and turns it into Prometheus text; no
// other package knows the Prometheus library. A nil *Set works everywhere: what is registered with it counts and is not exported.
//
// What it is not: it does no timing (callers measure with their own clock), no rates, no summaries, and PURE packages do not import it.
//
// It runs no goroutines. Everything is safe for concurrent use. Updates are atomic operations; With takes a read lock, so hot paths keep
// its result. Snapshot reads while updates go on: each number is right at some moment of the call, and a histogram's count is always the
// sum of its buckets.
//
// Invariants: a name has one kind and one list of labels; a family never holds more than MaxSeries label sets and the one named other;
// counters do not fall.
package meter
