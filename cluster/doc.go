// Package cluster is the truth about the cluster as every broker reads it: ids and epochs, topics, partitions, brokers and coordinator
// shards; the commands that change them and the records that change groups, as plain Go types; the table of topic and broker
// configs; and the immutable metadata Image with its Delta.
//
// It is not the rules: controller/state decides what a command does to an Image, controller/codec how a command looks in bytes, and the
// brokers what to do about a Delta. Everybody above layer 0 may import it.
//
// It runs no goroutine and takes no lock. An Image is a value over immutable radix trees: a reader keeps one as long as it likes and sees
// nothing change under it; a new Image shares with the old one all that did not change, and Diff skips trees that are the same.
//
// Invariants: what is reachable from an Image is never written; trees iterate in the order of their keys (numbers big-endian), and so does
// everything computed from them; Code is the one enum of refusals; ShardOf and the numbers of enums are part of a format and never change.
package cluster
