package group

import "github.com/moldau-log/moldau/cluster"

// hash is FNV-1a. Its values are compared within one run of one broker and with what that broker told a member; they are never stored.
type hash uint64

func newHash() hash { return 14695981039346656037 }

func (h *hash) byte(b byte) { *h = (*h ^ hash(b)) * 1099511628211 }

func (h *hash) number(n int32) {
	for shift := 0; shift < 32; shift += 8 {
		h.byte(byte(uint32(n) >> shift))
	}
}

func (h *hash) text(s string) {
	h.number(int32(len(s)))
	for i := range len(s) {
		h.byte(s[i])
	}
}

func (h *hash) partition(tp cluster.TopicPartition) {
	for _, b := range tp.Topic {
		h.byte(b)
	}
	h.number(tp.Partition)
}

// sum is never 0, which stands for "none".
func (h hash) sum() uint64 { return max(uint64(h), 1) }
