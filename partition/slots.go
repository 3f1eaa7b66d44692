package partition

import (
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
)

// slot is one produce request between its arrival and its answer.
type slot struct {
	used     bool
	done     *Completion
	release  func()
	base     record.Offset // -1 until it is appended
	appendMs int64         // -1 unless the topic stamps the time of append
	next     int32         // free list
}

// slots holds the requests in progress. A RequestID is an index.
type slots struct {
	all  []slot
	free int32 // index + 1 of the first free one, 0 for none
}

// take reserves a slot.
func (s *slots) take(done *Completion, release func()) replication.RequestID {
	if s.free == 0 {
		s.all = append(s.all, slot{})
		s.free = int32(len(s.all))
	}
	i := s.free - 1
	s.free = s.all[i].next
	s.all[i] = slot{used: true, done: done, release: release, base: -1, appendMs: -1}
	return replication.RequestID(i)
}

// give returns a slot and what it held.
func (s *slots) give(id replication.RequestID) slot {
	held := s.all[id]
	s.all[id] = slot{next: s.free}
	s.free = int32(id) + 1
	return held
}

// giveBuffer hands the producer's buffer back, once.
func (s *slot) giveBuffer() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}
