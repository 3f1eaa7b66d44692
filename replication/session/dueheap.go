package session

import "container/heap"

// dueHeap holds the wants that wait for their next attempt, earliest first; each knows its index.
type dueHeap []*want

// Len, Less, Swap, Push and Pop serve container/heap.
func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].less(h[j]) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends; use push.
func (h *dueHeap) Push(x any) {
	w := x.(*want)
	w.index = len(*h)
	*h = append(*h, w)
}

// Pop takes the last; use pop.
func (h *dueHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}

func (h *dueHeap) push(w *want) { heap.Push(h, w) }
func (h *dueHeap) pop() *want   { return heap.Pop(h).(*want) }

// remove takes a want out if it is there.
func (h *dueHeap) remove(w *want) {
	if w.index >= 0 {
		heap.Remove(h, w.index)
	}
}
