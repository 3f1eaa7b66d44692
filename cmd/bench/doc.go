// Command bench loads a running cluster over real connections and measures: records and bytes per second, the latency of batches, and the CPU
// time and peak memory of itself and of the brokers.
//
//	bench produce --topic t --batch 500 --size 100 --in-flight 8 --duration 10s -o json
//	bench consume --topic t --decode
//	bench mixed   --topic t --rate 100000
//
// It is a client like any other: nothing in a broker knows it. Figures come with every setting that made them, so that a run can be repeated. What
// it prints is one document on standard output; progress goes to a person's screen only.
//
// Goroutines: one per partition and connection that produces, one per connection that consumes, one for progress; all end before the result is printed.
package main
