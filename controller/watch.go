package controller

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/moldau-log/moldau/cluster"
)

// Watcher follows the metadata. A slow one loses nothing: what it has not taken yet is merged into one Delta. It belongs to one goroutine.
type Watcher struct {
	board *board
	wake  chan struct{} // capacity 1
	last  *cluster.Image
}

// Watch starts a Watcher whose first Delta goes from the empty Image to the present one.
func (c *Controller) Watch() *Watcher { return c.board.watch() }

// Changed is ready to receive when Take may give something. It is for select loops; Next is simpler.
func (w *Watcher) Changed() <-chan struct{} { return w.wake }

// Take returns what changed since the last Take or Next, nil when nothing did.
func (w *Watcher) Take() *cluster.Delta {
	image := w.board.image.Load()
	if image == w.last {
		return nil
	}
	delta := cluster.Diff(w.last, image)
	w.last = image
	if delta.Empty() {
		return nil
	}
	return delta
}

// Next waits for a change. It returns ctx's error, or ErrClosed after Close.
func (w *Watcher) Next(ctx context.Context) (*cluster.Delta, error) {
	for {
		if delta := w.Take(); delta != nil {
			return delta, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.board.closed:
			return nil, ErrClosed
		}
	}
}

// Stop ends the Watcher.
func (w *Watcher) Stop() { w.board.drop(w) }

// board shows the applied metadata to readers and wakes who waits for it. The FSM is its only writer.
type board struct {
	image   atomic.Pointer[cluster.Image]
	applied atomic.Uint64 // index of the last applied command
	closed  chan struct{}

	mu       sync.Mutex // guards watchers and waiters
	watchers map[*Watcher]struct{}
	waiters  map[*indexWaiter]struct{}
}

// indexWaiter waits until an index is applied.
type indexWaiter struct {
	index uint64
	done  chan struct{}
}

func newBoard() *board {
	b := &board{
		closed:   make(chan struct{}),
		watchers: map[*Watcher]struct{}{},
		waiters:  map[*indexWaiter]struct{}{},
	}
	b.image.Store(cluster.EmptyImage())
	return b
}

// show publishes the state after the entry at index. It never blocks.
func (b *board) show(image *cluster.Image, index uint64) {
	changed := b.image.Swap(image) != image
	b.applied.Store(index)
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.waiters {
		if w.index <= index {
			close(w.done)
			delete(b.waiters, w)
		}
	}
	if !changed {
		return
	}
	for w := range b.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (b *board) watch() *Watcher {
	w := &Watcher{board: b, wake: make(chan struct{}, 1), last: cluster.EmptyImage()}
	w.wake <- struct{}{}
	b.mu.Lock()
	b.watchers[w] = struct{}{}
	b.mu.Unlock()
	return w
}

func (b *board) drop(w *Watcher) {
	b.mu.Lock()
	delete(b.watchers, w)
	b.mu.Unlock()
}

// wait returns when the entry at index is applied here, or with ctx's error or ErrClosed.
func (b *board) wait(ctx context.Context, index uint64) error {
	b.mu.Lock()
	if b.applied.Load() >= index {
		b.mu.Unlock()
		return nil
	}
	w := &indexWaiter{index: index, done: make(chan struct{})}
	b.waiters[w] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.waiters, w)
		b.mu.Unlock()
	}()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return ErrClosed
	}
}
