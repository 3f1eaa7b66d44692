// Command soak runs brokers for a while under faults and then has every claim checked: `make soak DURATION=30m SEED=1`.
//
// It starts the built bin/moldau, three or five processes, each on a network address and a disk of its own (package rig), lets clients of both doors work on them
// (package load), and does to them what the seed says (package plan). Then it heals everything, waits for health, reads every partition to its end while each of its
// replicas leads in turn, reads every replica's log from its disk, and gives the history of all that to the checker. docs/testing.md says what each family of
// faults does and how a failure is read.
//
// The process that a user starts only watches: the work is done by a second one, the first of new namespaces, with which everything ends.
// Nothing else imports this package.
package main
