package kafka

import (
	"context"
	"sync"
)

// budget bounds bytes that are held. A request that is larger than the whole budget passes when nothing else is held.
type budget struct {
	limit int64

	mu    sync.Mutex // guards what follows
	held  int64
	freed chan struct{} // closed and replaced when bytes come back and somebody waits
	wants int           // who waits
}

func newBudget(limit int) *budget { return &budget{limit: int64(limit), freed: make(chan struct{})} }

// take waits until n bytes fit, or ctx ends.
func (b *budget) take(ctx context.Context, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held > 0 && b.held+int64(n) > b.limit {
		freed := b.freed
		b.wants++
		b.mu.Unlock()
		var err error
		select {
		case <-freed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		b.mu.Lock()
		b.wants--
		if err != nil {
			return err
		}
	}
	b.held += int64(n)
	return nil
}

// give returns n bytes.
func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= int64(n)
	if b.wants > 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
}
