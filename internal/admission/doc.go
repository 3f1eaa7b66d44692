// Package admission says whether a record batch may enter a topic's log: its size, its checksum, its records, its timestamps, against what the topic's configuration
// and the door allow.
//
// Both front doors ask it before the broker sees a batch. It appends nothing and knows no connections; refusals are values of package cluster, which each door maps
// to its own protocol. It runs no goroutine: a Checker belongs to one, which holds the only reference to the batch, because a wrong maximum timestamp is corrected
// in place. What passes is one whole batch, not transactional, whose records can all be read.
package admission
