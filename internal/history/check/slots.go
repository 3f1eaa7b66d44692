package check

import "slices"

// slotPage is how many offsets share an allocation: few, as a page may hold one record only.
const slotPage = 16

// slot is what is known of one offset of a partition: which value is there, and who said so first. It is kept for every offset, so it is small: 48 bytes.
type slot struct {
	value  valueID // 0: nothing is known here
	time   int64   // of the event that said so first
	op     int64
	client int32
	epoch  int32 // leader epoch, -1 for not known
	crc    uint32
	logs   uint16 // bit i: in part.logs[i]
	drains uint32 // bit i: in part.drains[i]
	what   source // who said so first
	read   bool   // some poll has returned it
	acked  bool   // a firm acknowledgement says it is here
	mixed  bool   // replicas have different values here
}

// source is where a claim comes from.
type source uint8

const (
	byPoll source = iota
	byReplica
	byAck
	byAssign
	bySeek
)

func (s source) String() string {
	return [...]string{"read", "in a replica", "acknowledged", "assigned", "moved by hand"}[s]
}

// slots are the offsets of a partition, in pages, because offsets are nearly dense.
type slots struct {
	pages   map[int64]*[slotPage]slot
	lastKey int64
	last    *[slotPage]slot
	keys    []int64 // sorted, once nothing is added any more
}

// at is a slot that may be empty yet. The offset is not negative.
func (s *slots) at(offset int64) *slot {
	key := offset / slotPage
	if s.last == nil || s.lastKey != key {
		page := s.pages[key]
		if page == nil {
			if s.pages == nil {
				s.pages = map[int64]*[slotPage]slot{}
			}
			page = new([slotPage]slot)
			s.pages[key] = page
			s.keys = nil
		}
		s.last, s.lastKey = page, key
	}
	return &s.last[offset%slotPage]
}

// each calls f for what is known from one offset up to another, in order, until f says to stop.
func (s *slots) each(from, to int64, f func(offset int64, s *slot) bool) {
	if s.keys == nil {
		s.keys = make([]int64, 0, len(s.pages))
		for key := range s.pages {
			s.keys = append(s.keys, key)
		}
		slices.Sort(s.keys)
	}
	first, _ := slices.BinarySearch(s.keys, from/slotPage)
	for _, key := range s.keys[first:] {
		if key*slotPage >= to {
			return
		}
		page := s.pages[key]
		for i := range page {
			offset := key*slotPage + int64(i)
			if page[i].value == 0 || offset < from {
				continue
			}
			if offset >= to || !f(offset, &page[i]) {
				return
			}
		}
	}
}
