// Command differential sends the same scripted requests to Apache Kafka and to Moldau and compares the answers field by field.
//
// A script (testdata/*.txt) has one request a line: a name, an API key, a range of versions, and the fields of the request as JSON in kmsg's names. Every version that
// both brokers can be sent is sent. What must differ (ids, addresses, times, texts of errors) is normalised by name; what may differ is on the reviewed list
// docs/kafka-differences.md, one row each. The run fails on a difference that is not there.
//
// It starts nothing: both brokers run already, and `go run ./test/differential -help` says how to name them. Its list is not reviewed yet, so it is no part of `make test`. One goroutine, one connection to each broker at a time.
package main
