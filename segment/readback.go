package segment

import (
	"encoding/binary"
	"math"
	"sort"
	"sync"

	"github.com/moldau-log/moldau/record"
)

// wideBytes is how much a walk over many small batches reads at once.
const wideBytes = 64 << 10

var wideWindows = sync.Pool{New: func() any { return new([wideBytes]byte) }}

// strides walks on to a position where a batch ends, or past it where the lengths say otherwise. It believes and refuses what next does, and is for long ranges: of a batch that
// continues the one before, under the same epoch, it looks at the fields that no checksum covers and at how many offsets it takes, and leaves all others to next.
func (w *walker) strides(to int64) error {
	if to-w.position > windowBytes && w.stride < aloneBytes {
		wide := wideWindows.Get().(*[wideBytes]byte)
		defer wideWindows.Put(wide)
		defer func(narrow []byte) { w.window, w.filled = narrow, 0 }(w.window)
		w.window, w.filled = wide[:], 0
	}
	for w.position < to {
		if _, _, err := w.next(); err != nil {
			return err
		}
		w.strideOn(to)
	}
	return nil
}

// strideOn goes on for as long as the window holds headers of batches that nothing can be said against.
func (w *walker) strideOn(to int64) {
	c := &w.chain
	until := min(c.end, c.epochs.until(c.expect-1))
	for w.position < to && w.atHand() {
		b := w.window[w.position-w.start:][:record.HeaderSize]
		base, size, delta := record.Offset(binary.BigEndian.Uint64(b)), sizeOf(b), int32(binary.BigEndian.Uint32(b[posDelta:]))
		end := w.position + size
		if base != c.expect || b[posMagic] != 2 || record.LeaderEpoch(binary.BigEndian.Uint32(b[posEpoch:])) != c.epoch || size < record.HeaderSize || end > to || end == w.limit ||
			delta < 0 || int64(delta) >= int64(until-base) {
			return
		}
		c.expect += record.Offset(delta) + 1
		w.position, w.stride = end, size
	}
}

// Where a batch's header has what a stride looks at; docs/format/log.md.
const (
	posLength = 8
	posEpoch  = 12
	posMagic  = 16
	posDelta  = 23
)

// sizeOf is how long a batch is by its length field, which does not count itself and the offset.
func sizeOf(b []byte) int64 { return int64(int32(binary.BigEndian.Uint32(b[posLength:]))) + posEpoch }

// until is where the epoch at an offset ends, as far as that is known.
func (e epochHistory) until(offset record.Offset) record.Offset {
	if n := sort.Search(len(e), func(i int) bool { return e[i].Start > offset }); n < len(e) {
		return e[n].Start
	}
	return math.MaxInt64
}
