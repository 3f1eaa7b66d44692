// Package budget bounds bytes that many connections hold at once. A front door takes before it reads and gives back when it is done; who finds no room waits, and
// so stops reading from its own client. Those who wait get room in their order. Who holds bytes while it waits for its client, and makes no progress worth the name,
// gives way to those who find no room. It starts no goroutine and is safe for many.
package budget

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Budget bounds bytes that are held. A request that is larger than the whole budget passes when nothing else is held.
type Budget struct {
	limit int64

	mu      sync.Mutex // guards what follows
	held    int64
	over    bool // a Growth has passed above the limit and is not settled
	growths []*waiter
	takers  []*waiter
	wanted  int64 // by all of them
	slow    map[*Holder]struct{}
	looked  time.Time // when it was last looked who is slow
}

// waiter is one that waits for room.
type waiter struct {
	n      int64
	growth *Growth // nil for others
	ready  chan struct{}
}

// New returns a budget of limit bytes with nothing held.
func New(limit int) *Budget { return &Budget{limit: int64(limit)} }

// Take waits until n bytes fit, or ctx ends.
func (b *Budget) Take(ctx context.Context, n int) error {
	b.mu.Lock()
	if len(b.takers) == 0 && b.fits(int64(n)) {
		b.held += int64(n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: int64(n), ready: make(chan struct{})}
	b.takers = append(b.takers, w)
	return b.wait(ctx, w)
}

// fits reports whether there is room for n bytes.
func (b *Budget) fits(n int64) bool { return b.held == 0 || b.held+n <= b.limit }

// Try takes n bytes if they fit now.
func (b *Budget) Try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(int64(n)) {
		return false
	}
	b.held += int64(n)
	return true
}

// Force takes n bytes at once, also above the limit: for what is so small, and of which each connection may have so little, that it is not worth a wait.
func (b *Budget) Force(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += int64(n)
}

// Growth is somebody who holds bytes of a budget and gives them back only after it has had more. Those who wait so could wait for each other for ever; therefore
// one of them at a time passes above the limit.
type Growth struct {
	of   *Budget
	over bool // this is the one; guarded by the budget's lock
}

// Growth begins one. Settle ends it, from any goroutine.
func (b *Budget) Growth() Growth { return Growth{of: b} }

// Take waits until n bytes fit or this growth is the one that may pass, or ctx ends. Give returns the bytes.
func (g *Growth) Take(ctx context.Context, n int) error {
	b := g.of
	b.mu.Lock()
	switch {
	case g.over, len(b.growths) == 0 && b.held+int64(n) <= b.limit:
	case !b.over:
		b.over, g.over = true, true
	default:
		w := &waiter{n: int64(n), growth: g, ready: make(chan struct{})}
		b.growths = append(b.growths, w)
		return b.wait(ctx, w)
	}
	b.held += int64(n)
	b.mu.Unlock()
	return nil
}

// Settle says that the growth has all that it needs: another may pass.
func (g *Growth) Settle() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	if !g.over {
		return
	}
	g.over, g.of.over = false, false
	g.of.grant()
}

// Give returns n bytes.
func (b *Budget) Give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= int64(n)
	b.grant()
}

// grant gives room to those who wait, in their order. The lock is held.
func (b *Budget) grant() {
	for len(b.growths) > 0 {
		w := b.growths[0]
		if b.held+w.n > b.limit {
			if b.over {
				break
			}
			b.over, w.growth.over = true, true
		}
		b.growths = b.granted(b.growths)
	}
	for len(b.takers) > 0 && b.fits(b.takers[0].n) {
		b.takers = b.granted(b.takers)
	}
}

// granted gives the first of a queue what it wants, and returns the others.
func (b *Budget) granted(queue []*waiter) []*waiter {
	w := queue[0]
	b.held += w.n
	b.wanted -= w.n
	close(w.ready)
	queue[0] = nil
	return queue[1:]
}

// wait lets the lock go until w has what it wants, or ctx ends. When it takes long, the slow are looked for.
func (b *Budget) wait(ctx context.Context, w *waiter) error {
	b.wanted += w.n
	b.mu.Unlock()
	long := time.NewTimer(patience)
	defer long.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case <-long.C:
			b.endSlow()
			long.Reset(lookEvery)
		case <-ctx.Done():
			b.leave(w)
			return ctx.Err()
		}
	}
}

// leave takes w out of its queue, or gives back what it was given a moment ago.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := &b.takers
	if w.growth != nil {
		queue = &b.growths
	}
	if i := slices.Index(*queue, w); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
		b.wanted -= w.n
	} else {
		b.held -= w.n
	}
	b.grant()
}

// Empty waits until nothing is held.
func (b *Budget) Empty(ctx context.Context) error {
	// With something held, a request of the whole limit passes only when everything has come back.
	if err := b.Take(ctx, int(b.limit)); err != nil {
		return err
	}
	b.Give(int(b.limit))
	return nil
}

// Held is the number of bytes that are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
