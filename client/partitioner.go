package client

import "github.com/moldau-log/moldau/internal/grpcframe"

// Partitioner chooses the partition of a record. It is called from one goroutine at a time per client and must not block.
type Partitioner interface {
	// Partition returns a number from 0 to partitions-1, or AnyPartition.
	Partition(r *Record, partitions int32) int32
}

// AnyPartition leaves the choice to the producer: it sticks to one partition until that one's batch is full or sent, then takes another.
const AnyPartition int32 = -1

// PartitionerFunc is a function as a Partitioner.
type PartitionerFunc func(r *Record, partitions int32) int32

// Partition calls f.
func (f PartitionerFunc) Partition(r *Record, partitions int32) int32 { return f(r, partitions) }

// KeyPartitioner sends equal keys to one partition, as Kafka's Java client does (murmur2), and records with a null key to any.
func KeyPartitioner() Partitioner {
	return PartitionerFunc(func(r *Record, partitions int32) int32 {
		if r.Key == nil {
			return AnyPartition
		}
		return grpcframe.PartitionOf(r.Key, partitions)
	})
}

// ManualPartitioner takes Record.Partition as it is.
func ManualPartitioner() Partitioner {
	return PartitionerFunc(func(r *Record, _ int32) int32 { return r.Partition })
}
