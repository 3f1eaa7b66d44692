package check

import (
	"cmp"
	"container/heap"
	"slices"
)

// replaced says that from a time on, commits that ended before began are gone.
type replaced struct {
	began int64
	by    *commit
}

// commitSweep carries, along the fetches, the latest beginning of a commit that was over: acknowledged, or seen by a fetch.
type commitSweep struct {
	acked  []*commit // by end
	next   int
	seen   timedHeap // from fetches, whose ends come out of order
	newest replaced
}

type timed struct {
	time int64
	replaced
}

// timedHeap has the earliest first.
type timedHeap []timed

func (h timedHeap) Len() int { return len(h) }

func (h timedHeap) Less(i, j int) bool { return h[i].time < h[j].time }

func (h timedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are for container/heap.
func (h *timedHeap) Push(x any) { *h = append(*h, x.(timed)) }

// Pop takes the last.
func (h *timedHeap) Pop() any {
	n := len(*h) - 1
	t := (*h)[n]
	*h = (*h)[:n]
	return t
}

func newCommitSweep(commits []*commit) *commitSweep {
	s := &commitSweep{newest: replaced{began: -never}}
	for _, w := range commits {
		if w.status == okay {
			s.acked = append(s.acked, w)
		}
	}
	slices.SortStableFunc(s.acked, func(a, b *commit) int { return cmp.Compare(a.ended, b.ended) })
	return s
}

// add notes what a fetch has seen.
func (s *commitSweep) add(time int64, r replaced) {
	heap.Push(&s.seen, timed{time, r})
}

// before is what holds for a fetch that begins at a time. Times do not go back.
func (s *commitSweep) before(began int64) replaced {
	for ; s.next < len(s.acked) && s.acked[s.next].ended < began; s.next++ {
		if w := s.acked[s.next]; w.began > s.newest.began {
			s.newest = replaced{w.began, w}
		}
	}
	for len(s.seen) > 0 && s.seen[0].time < began {
		if t := heap.Pop(&s.seen).(timed); t.began > s.newest.began {
			s.newest = t.replaced
		}
	}
	return s.newest
}
