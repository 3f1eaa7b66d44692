package budget

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Bounds on how long a client may keep bytes from others.
const (
	// patience is how long somebody waits for room before others are made to give way.
	patience = 2 * time.Second
	// grace is how long a holder may have waited for its client before it has to.
	grace = 5 * time.Second
)

// Holder is somebody who holds bytes of a budget for one piece of work during which it waits for its client: for the rest of a request, or until an answer is taken.
// While nobody else finds no room, it may take its time. Its methods are called one after another: the one that hands an answer over may be another goroutine than the
// one that is told that it is taken.
type Holder struct {
	of  *Budget
	end func()

	// Guarded by the budget's lock.
	held  int
	spent time.Duration // waiting for the client, before since
	since time.Time     // when the present wait began
}

// Holder begins one. end is called, at most once, while it waits, from another goroutine, when it has to give way; it must not block, and lets the wait end. The
// holder then gives its bytes back as ever.
func (b *Budget) Holder(end func()) *Holder { return &Holder{of: b, end: end} }

// Waits says that the holder has so many bytes, and waits for its client from now on.
func (h *Holder) Waits(bytes int) {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	h.held, h.since = bytes, time.Now()
	if b.slow == nil {
		b.slow = map[*Holder]struct{}{}
	}
	b.slow[h] = struct{}{}
}

// Goes says that the wait is over. It reports whether the holder was not made to give way.
func (h *Holder) Goes() bool {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	h.spent += time.Since(h.since)
	_, there := b.slow[h]
	delete(b.slow, h)
	return there
}

// endSlow makes those give way who have waited longest for their clients, until n bytes are to come back.
func (b *Budget) endSlow(n int) {
	b.mu.Lock()
	now := time.Now()
	waited := func(h *Holder) time.Duration { return h.spent + now.Sub(h.since) }
	var ended []*Holder
	for _, h := range slices.SortedFunc(maps.Keys(b.slow), func(x, y *Holder) int { return cmp.Compare(waited(y), waited(x)) }) {
		if n <= 0 || waited(h) < grace {
			break
		}
		n -= h.held
		delete(b.slow, h)
		ended = append(ended, h)
	}
	b.mu.Unlock()
	for _, h := range ended {
		h.end()
	}
}
