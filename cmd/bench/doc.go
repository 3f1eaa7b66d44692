// Command bench loads a running cluster over real connections and measures: records and bytes per second, the latency of batches, and the CPU
// time and peak memory of itself and of the brokers.
//
//	bench produce --topic t --batch 500 --size 100 --in-flight 8 --duration 10s -o json
//	bench consume --topic t --decode
//	bench mixed   --topic t --rate 100000
//	bench produce --topic t --protocol kafka --server localhost:9092 --api records
//
// Behind a door is Moldau's own API, or Kafka's protocol with one of two clients: franz-go, as a program uses it, or a bare one that sends and takes whole batches, so
// that the brokers are what is measured. The latter two load any broker that speaks Kafka's protocol.
//
// It is a client like any other: nothing in a broker knows it. Figures come with every setting that made them, so that a run can be repeated. What
// it prints is one document on standard output; progress goes to a person's screen only.
//
// Goroutines: one per partition and connection that produces, one per connection that consumes (with the bare Kafka client one per
// leader), two per bare Kafka connection, one for progress; all end before the result is printed.
package main
