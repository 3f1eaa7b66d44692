package client

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
		return int32(Murmur2(r.Key)&0x7fffffff) % partitions
	})
}

// ManualPartitioner takes Record.Partition as it is.
func ManualPartitioner() Partitioner {
	return PartitionerFunc(func(r *Record, _ int32) int32 { return r.Partition })
}

// Murmur2 is the 32-bit hash that Kafka's Java client partitions keys by.
func Murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for len(data) >= 4 {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
		data = data[4:]
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
