package group

import (
	"encoding/binary"
	"math/bits"

	"github.com/moldau-log/moldau/cluster"
)

// hash mixes words. Its values are compared with each other and with what a coordinator told a member; they are never stored. Brokers of two
// versions may differ in it: then a member is told once more than needed.
type hash uint64

func newHash() hash { return 14695981039346656037 }

func (h *hash) word(w uint64) {
	*h = hash(bits.RotateLeft64((uint64(*h)^w)*0x9e3779b97f4a7c15, 29))
}

func (h *hash) number(n int32) { h.word(uint64(uint32(n))) }

func (h *hash) text(s string) {
	h.number(int32(len(s)))
	for i := range len(s) {
		h.word(uint64(s[i]))
	}
}

func (h *hash) partition(tp cluster.TopicPartition) {
	h.word(binary.LittleEndian.Uint64(tp.Topic[:8]))
	h.word(binary.LittleEndian.Uint64(tp.Topic[8:]))
	h.number(tp.Partition)
}

// sum is never 0, which stands for "none".
func (h hash) sum() uint64 { return max(uint64(h), 1) }
