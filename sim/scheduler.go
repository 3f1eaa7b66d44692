package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// traceLines bounds how much of a history is remembered for a report.
const traceLines = 100_000

// scheduler is virtual time: events run one after another, by time and, at one time, in the order in which they were scheduled. Everything that
// happens is added to a hash, so that two histories are the same if their hashes are.
type scheduler struct {
	now   time.Duration
	queue eventHeap
	seq   uint64
	rng   *rand.Rand
	hash  uint64
	steps int
	// trace holds the last lines, as a ring, when keep is set.
	keep  bool
	trace []string
	first int
}

// event is something that happens at a time.
type event struct {
	at   time.Duration
	seq  uint64
	what func()
}

// newScheduler begins at one second: 0 means "never" to those who ask for deadlines.
func newScheduler(seed uint64, keep bool) *scheduler {
	return &scheduler{now: time.Second, rng: rand.New(rand.NewPCG(seed, 0x6d6f6c646175)), keep: keep, hash: seed}
}

// at schedules an event; one in the past happens now.
func (s *scheduler) at(t time.Duration, what func()) {
	s.seq++
	heap.Push(&s.queue, event{at: max(t, s.now), seq: s.seq, what: what})
}

// after schedules an event in d from now.
func (s *scheduler) after(d time.Duration, what func()) { s.at(s.now+d, what) }

// runUntil lets everything happen up to a time, or until done says that it is enough.
func (s *scheduler) runUntil(end time.Duration, done func() bool) {
	for len(s.queue) > 0 && s.queue[0].at <= end {
		if done() {
			return
		}
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		s.steps++
		e.what()
	}
	if !done() {
		s.now = end
	}
}

// between draws a duration from lo up to hi.
func (s *scheduler) between(lo, hi time.Duration) time.Duration { return drawBetween(s.rng, lo, hi) }

func drawBetween(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)+1))
}

// chance is true in p of 1000 cases.
func (s *scheduler) chance(p int) bool { return s.rng.IntN(1000) < p }

// note adds a fact to the history.
func (s *scheduler) note(what string, args ...int64) {
	h := fnv.New64a()
	var b [8]byte
	word := func(v uint64) {
		binary.LittleEndian.PutUint64(b[:], v)
		_, _ = h.Write(b[:])
	}
	word(s.hash)
	word(uint64(s.now))
	_, _ = h.Write([]byte(what))
	for _, a := range args {
		word(uint64(a))
	}
	s.hash = h.Sum64()
	if s.keep {
		s.remember(fmt.Sprintf("%12.6f %s %v", s.now.Seconds(), what, args))
	}
}

func (s *scheduler) remember(line string) {
	if len(s.trace) < traceLines {
		s.trace = append(s.trace, line)
		return
	}
	s.trace[s.first] = line
	s.first = (s.first + 1) % traceLines
}

// lines are the remembered lines, oldest first.
func (s *scheduler) lines() []string {
	return append(append([]string(nil), s.trace[s.first:]...), s.trace[:s.first]...)
}

// eventHeap orders by time, then by when it was scheduled.
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := len(old) - 1
	e := old[last]
	old[last] = event{}
	*h = old[:last]
	return e
}
