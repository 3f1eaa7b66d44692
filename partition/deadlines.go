package partition

import (
	"container/heap"
	"sync"
	"time"
)

// deadlines is the one timer of all partitions: a heap of when which runner wants its next tick. An entry is only ever made earlier; a runner that
// turns out to want a later one is ticked for nothing, once, and says so then.
type deadlines struct {
	mu      sync.Mutex // guards the rest
	heap    dueHeap
	changed chan struct{} // capacity 1: the earliest entry is another one
}

type due struct {
	runner *Runner
	at     time.Duration
	index  int
}

func newDeadlines() *deadlines {
	return &deadlines{heap: dueHeap{of: map[*Runner]*due{}}, changed: make(chan struct{}, 1)}
}

// set asks for a tick.
func (d *deadlines) set(r *Runner, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.heap.of[r]; e != nil {
		if at >= e.at {
			return
		}
		e.at = at
		heap.Fix(&d.heap, e.index)
	} else {
		heap.Push(&d.heap, &due{runner: r, at: at})
	}
	if d.heap.all[0].runner == r {
		select {
		case d.changed <- struct{}{}:
		default:
		}
	}
}

// drop forgets a runner.
func (d *deadlines) drop(r *Runner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.heap.of[r]; e != nil {
		heap.Remove(&d.heap, e.index)
	}
}

// take returns who is due, and when the next one is; 0 for never.
func (d *deadlines) take(now time.Duration, out []*Runner) (ready []*Runner, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.heap.all) > 0 {
		first := d.heap.all[0]
		if first.at > now {
			return out, first.at
		}
		heap.Pop(&d.heap)
		out = append(out, first.runner)
	}
	return out, 0
}

// dueHeap implements heap.Interface.
type dueHeap struct {
	all []*due
	of  map[*Runner]*due
}

func (h *dueHeap) Len() int           { return len(h.all) }
func (h *dueHeap) Less(i, j int) bool { return h.all[i].at < h.all[j].at }

func (h *dueHeap) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].index, h.all[j].index = i, j
}

// Push adds a *due.
func (h *dueHeap) Push(x any) {
	e := x.(*due)
	e.index = len(h.all)
	h.all = append(h.all, e)
	h.of[e.runner] = e
}

// Pop removes the last one.
func (h *dueHeap) Pop() any {
	last := len(h.all) - 1
	e := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	delete(h.of, e.runner)
	return e
}
