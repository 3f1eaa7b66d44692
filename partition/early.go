package partition

import (
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// maxEarly bounds the batches that EarlyRefusals remembers, over all partitions. They are heads of 61 bytes.
const maxEarly = 4096

// EarlyRefusals remembers what Partition.NoteRefused is to be told, for replicas that are not there yet: a producer's first batch may come before the replica
// that is to take it, and what is in flight behind it just after. Its methods may be called from any goroutine.
type EarlyRefusals struct {
	mu    sync.Mutex
	heads map[cluster.TopicPartition][][]byte
	count int
}

// Note remembers the head of a batch that was refused. Anything shorter than a head is ignored. When there are too many, all older ones are forgotten.
func (e *EarlyRefusals) Note(tp cluster.TopicPartition, batch []byte) {
	if len(batch) < record.HeaderSize {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heads == nil || e.count >= maxEarly {
		e.heads, e.count = map[cluster.TopicPartition][][]byte{}, 0
	}
	e.heads[tp] = append(e.heads[tp], append([]byte(nil), batch[:record.HeaderSize]...))
	e.count++
}

// Take returns what was noted for a partition, in order, and forgets it.
func (e *EarlyRefusals) Take(tp cluster.TopicPartition) [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	heads := e.heads[tp]
	delete(e.heads, tp)
	e.count -= len(heads)
	return heads
}
