package budget

import (
	"sync/atomic"
	"time"
)

// Bounds on how long a client may keep bytes from others.
const (
	// patience is how long somebody waits for room before others are made to give way, and lookEvery the time between two looks at them.
	patience  = 2 * time.Second
	lookEvery = time.Second
	// grace is the time for which a holder's pace is measured, at least, before it is judged.
	grace = 5 * time.Second
	// tooLong is how long a holder may need at its pace for what is left. So one that is slow and steady comes to its end, and is not begun again and again; one
	// that stands still, or holds much and moves little, makes room.
	tooLong = 30 * time.Second
)

// Holder is somebody who holds bytes of a budget for one piece of work during which it waits for its client: for the rest of a request, or until an answer is taken.
// While others find room, it may take its time. Its methods belong to one goroutine, but for Moved.
type Holder struct {
	of    *Budget
	end   func()
	moved atomic.Int64 // in all

	// Guarded by the budget's lock.
	held  int64
	done  int64         // what moved is when nothing is left
	spent time.Duration // waiting for the client, before since
	since time.Time     // when the present wait began
	// What spent and moved were when the pace was last measured.
	judgedSpent time.Duration
	judgedMoved int64
}

// Holder begins one. end is called, at most once, while it waits, from another goroutine, when it has to give way; it must not block, and lets the wait end. The
// holder then gives its bytes back as ever.
func (b *Budget) Holder(end func()) *Holder { return &Holder{of: b, end: end} }

// Waits says that the holder has so many bytes, and waits for its client from now on, until another left bytes have moved. While it waits it may say so again, with
// other numbers.
func (h *Holder) Waits(held, left int) {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if _, waits := b.slow[h]; waits {
		h.spent += now.Sub(h.since)
	}
	h.held, h.done, h.since = int64(held), h.moved.Load()+int64(left), now
	if b.slow == nil {
		b.slow = map[*Holder]struct{}{}
	}
	b.slow[h] = struct{}{}
}

// Moved says that n bytes have gone between the holder and its client. Any goroutine may say it. A nil holder takes no notice.
func (h *Holder) Moved(n int) {
	if h != nil {
		h.moved.Add(int64(n))
	}
}

// Goes says that the wait is over. It reports whether the holder was not made to give way.
func (h *Holder) Goes() bool {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	_, there := b.slow[h]
	if there {
		h.spent += time.Since(h.since)
		delete(b.slow, h)
	}
	return there
}

// tooSlow measures the pace since the last time. The lock is held.
func (h *Holder) tooSlow(now time.Time) bool {
	spent, moved := h.spent+now.Sub(h.since), h.moved.Load()
	took, progress := spent-h.judgedSpent, moved-h.judgedMoved
	if took < grace {
		return false
	}
	h.judgedSpent, h.judgedMoved = spent, moved
	left := max(h.done-moved, 0)
	return progress == 0 || float64(left)*float64(took) > float64(progress)*float64(tooLong)
}

// endSlow makes those give way who are too slow, until there would be room for all who wait. However many wait, it looks once in a while.
func (b *Budget) endSlow() {
	b.mu.Lock()
	now := time.Now()
	var ended []*Holder
	if now.Sub(b.looked) >= lookEvery {
		b.looked = now
		wanted := b.wanted
		for h := range b.slow {
			if wanted <= 0 {
				break
			}
			if h.tooSlow(now) {
				wanted -= h.held
				delete(b.slow, h)
				ended = append(ended, h)
			}
		}
	}
	b.mu.Unlock()
	for _, h := range ended {
		h.end()
	}
}
