// Package budget bounds bytes that many connections hold at once. A front door takes before it reads and gives back when it is done; who finds no room waits, and
// so stops reading from its own client. Who holds bytes while it waits for its client gives way to those who find no room. It starts no goroutine and is safe for
// many.
package budget

import (
	"context"
	"sync"
	"time"
)

// Budget bounds bytes that are held. A request that is larger than the whole budget passes when nothing else is held.
type Budget struct {
	limit int64

	mu    sync.Mutex // guards what follows
	held  int64
	freed chan struct{} // closed and replaced when bytes come back and somebody waits
	wants int           // who waits for freed
	least int           // the fewest bytes that one of them may wait for
	over  bool          // a Growth has passed above the limit and is not settled
	slow  map[*Holder]struct{}
}

// New returns a budget of limit bytes with nothing held.
func New(limit int) *Budget { return &Budget{limit: int64(limit), freed: make(chan struct{})} }

// Take waits until n bytes fit, or ctx ends.
func (b *Budget) Take(ctx context.Context, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var w waiter
	defer w.stop()
	for b.held > 0 && b.held+int64(n) > b.limit {
		if err := b.wait(ctx, n, &w); err != nil {
			return err
		}
	}
	b.held += int64(n)
	return nil
}

// Try takes n bytes if they fit now.
func (b *Budget) Try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held > 0 && b.held+int64(n) > b.limit {
		return false
	}
	b.held += int64(n)
	return true
}

// Growth is somebody who holds bytes of a budget and gives them back only after it has had more. Those who wait so could wait for each other for ever; therefore
// one of them at a time passes above the limit.
type Growth struct {
	of   *Budget
	over bool // this is the one
}

// Growth begins one. Settle ends it.
func (b *Budget) Growth() Growth { return Growth{of: b} }

// Take waits until n bytes fit or this growth is the one that may pass, or ctx ends. Give returns the bytes.
func (g *Growth) Take(ctx context.Context, n int) error {
	b := g.of
	b.mu.Lock()
	defer b.mu.Unlock()
	var w waiter
	defer w.stop()
	for !g.over && b.held+int64(n) > b.limit {
		if !b.over {
			b.over, g.over = true, true
			break
		}
		if err := b.wait(ctx, n, &w); err != nil {
			return err
		}
	}
	b.held += int64(n)
	return nil
}

// Settle says that the growth has all that it needs: another may pass.
func (g *Growth) Settle() {
	if !g.over {
		return
	}
	g.over = false
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.over = false
	if g.of.wants > 0 {
		g.of.wake()
	}
}

// Give returns n bytes.
func (b *Budget) Give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= int64(n)
	if b.wants > 0 && (b.held == 0 || b.held+int64(b.least) <= b.limit) {
		b.wake()
	}
}

// Force takes n bytes at once, also above the limit: for what is so small, and of which each connection may have so little, that it is not worth a wait.
func (b *Budget) Force(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += int64(n)
}

// waiter is one that waits for room, once or more often.
type waiter struct {
	long *time.Timer // runs out when it has taken long, however often it was woken; nil before the first wait
}

func (w *waiter) stop() {
	if w.long != nil {
		w.long.Stop()
	}
}

// wait lets the lock go until something has changed, or ctx ends. When it takes long, slow holders of n bytes in all are ended.
func (b *Budget) wait(ctx context.Context, n int, w *waiter) error {
	if w.long == nil {
		w.long = time.NewTimer(patience)
	}
	freed := b.freed
	if b.wants == 0 || n < b.least {
		b.least = n
	}
	b.wants++
	b.mu.Unlock()
	var err error
	select {
	case <-freed:
	case <-ctx.Done():
		err = ctx.Err()
	case <-w.long.C:
		b.endSlow(n)
		w.long.Reset(patience)
	}
	b.mu.Lock()
	if freed == b.freed { // nobody was woken: it is still among those who wait
		b.wants--
	}
	return err
}

// wake has everybody who waits look again.
func (b *Budget) wake() {
	close(b.freed)
	b.freed, b.wants = make(chan struct{}), 0
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
