// Package check judges a recorded history (package internal/history): it reports everything in it that a broker of Kafka's model promises never to let
// happen. docs/history.md lists the anomalies and what they mean. Command check is its caller; test/soak and test/e2e are others.
//
// A Checker takes the events in one pass, roughly in the order of their times (Merge puts several files into it), and keeps what the checks at the end
// need: about 65 bytes for a record that was sent, 50 for an offset, 40 for a poll that reads on. What depends on the order of two clients' events compares
// their times at the end; only what a group was given before a new owner began, and what was deleted before a consumer moved, is taken as it comes. Every
// check is linear or n log n.
//
// It knows nothing of brokers: only what clients saw, and dumps of logs. It has no goroutines, clock or chance; the same files give the same report.
package check
