package partition

import (
	"sync"

	"github.com/moldau-log/moldau/record"
)

// Waiter is a one-shot registration for news of a partition: a higher watermark, a moved log start, another role. It may be used again once it has
// fired or was cancelled. One goroutine uses it.
type Waiter struct {
	above record.Offset
	wake  chan<- struct{}
	at    *waiters
	index int // in at.all, -1 when not registered; guarded by at.mu
}

// waiters are the parked fetches of one partition.
type waiters struct {
	mu     sync.Mutex // guards all, and the index of each
	all    []*Waiter
	closed bool
}

// add registers w; false when there are too many.
func (s *waiters) add(w *Waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.all) >= MaxWaiters {
		return false
	}
	w.at, w.index = s, len(s.all)
	s.all = append(s.all, w)
	return true
}

// wake fires those who wait for less than watermark, or everybody.
func (s *waiters) wake(watermark record.Offset, everybody bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.all); {
		w := s.all[i]
		if !everybody && watermark <= w.above {
			i++
			continue
		}
		s.remove(i)
		w.fire()
	}
}

// remove takes the i-th out; the last takes its place.
func (s *waiters) remove(i int) {
	last := len(s.all) - 1
	s.all[i].index = -1
	if i != last {
		s.all[i] = s.all[last]
		s.all[i].index = i
	}
	s.all[last] = nil
	s.all = s.all[:last]
}

// close fires everybody and takes no more.
func (s *waiters) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wake(0, true)
}

// fire wakes without blocking.
func (w *Waiter) fire() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Cancel ends the registration, if there still is one. After it returns, no wake comes from it.
func (w *Waiter) Cancel() {
	if w.at == nil {
		return
	}
	w.at.mu.Lock()
	defer w.at.mu.Unlock()
	if w.index >= 0 {
		w.at.remove(w.index)
	}
}
