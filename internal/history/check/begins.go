package check

import (
	"cmp"
	"fmt"
	"slices"
)

// begin is where a new owner of a partition began to read, as its group told it.
type begin struct {
	time       int64
	offset     int64
	generation int32
	by         origin
}

// judgeBegins holds where new owners began to what was committed: with a generation before theirs, and acknowledged before they began. A group lets no commit of an older
// generation pass once a new one owns, so the owner was told of all of them: it begins at the last of them or above. A later commit of a lower offset (a reset by an
// administrator, one whose outcome is unknown) or the deletion of the group explains a lower beginning. The commits are in the order of their beginnings, and buried.
func (c *Checker) judgeBegins(p *part, key registerKey, reg *register) {
	slices.SortStableFunc(reg.begins, func(a, b begin) int { return cmp.Compare(a.time, b.time) })
	newest := newNewestBefore(reg.commits)
	lowest := newLowestSince(reg.commits)
	for _, b := range reg.begins {
		w := newest.at(b)
		if w == nil {
			continue
		}
		c.checked[StaleCommit]++
		if b.offset >= w.offset || b.offset >= lowest.at(b.time, w.began) || !p.firm() {
			continue
		}
		c.foundAs(StaleCommit, p, b.offset, subject{offset: b.offset, group: key.group}, func(a *Anomaly) {
			a.Detail = fmt.Sprintf("group %s: a new owner of generation %d began at %d, and a commit of %d with generation %d had been acknowledged", c.groups.texts[key.group], b.generation, b.offset, w.offset, w.generation)
			a.Evidence = []Evidence{c.commitEvidence(w), c.action("assigned", b.by)}
		})
	}
}

// newestBefore finds, along the times of beginnings, the newest acknowledged commit of an older generation.
type newestBefore struct {
	acked       []*commit // by end
	next        int
	generations []int32
	best        prefix[*commit] // by rank of the generation
}

func newNewestBefore(commits []*commit) *newestBefore {
	n := &newestBefore{acked: newCommitSweep(commits).acked}
	for _, w := range n.acked {
		n.generations = append(n.generations, w.generation)
	}
	slices.Sort(n.generations)
	n.generations = slices.Compact(n.generations)
	n.best = newPrefix(len(n.generations), func(a, b *commit) bool { return b == nil || a != nil && a.began > b.began })
	return n
}

func (n *newestBefore) rank(generation int32) int {
	at, _ := slices.BinarySearch(n.generations, generation)
	return at
}

func (n *newestBefore) at(b begin) *commit {
	for ; n.next < len(n.acked) && n.acked[n.next].ended < b.time; n.next++ {
		if w := n.acked[n.next]; w.generation > 0 {
			n.best.add(n.rank(w.generation), w)
		}
	}
	return n.best.before(n.rank(b.generation))
}

// lowestSince finds, along the times of beginnings, the lowest offset that may have been committed since a time.
type lowestSince struct {
	commits []*commit // by beginning
	next    int
	until   []int64 // when commits had their effect at the latest, falling
	low     prefix[int64]
}

func newLowestSince(commits []*commit) *lowestSince {
	l := &lowestSince{commits: commits}
	for _, w := range commits {
		l.until = append(l.until, -w.until())
	}
	slices.Sort(l.until)
	l.until = slices.Compact(l.until)
	l.low = newPrefix(len(l.until), func(a, b int64) bool { return a < b })
	for i := range l.low.best {
		l.low.best[i] = never
	}
	return l
}

func (l *lowestSince) at(time, since int64) int64 {
	for ; l.next < len(l.commits) && l.commits[l.next].began <= time; l.next++ {
		if w := l.commits[l.next]; w.status != failed {
			at, _ := slices.BinarySearch(l.until, -w.until())
			l.low.add(at, w.offset)
		}
	}
	count, _ := slices.BinarySearch(l.until, -since+1)
	return l.low.before(count)
}

// until is when a commit had its effect at the latest, if no acknowledged one is known to have hidden it since.
func (w *commit) until() int64 { return min(w.ended, w.dead, w.followed-1) }

// prefix is a Fenwick tree: it keeps the best of what was added at places, and tells the best of a prefix of them.
type prefix[T any] struct {
	best   []T // from 1
	better func(a, b T) bool
}

func newPrefix[T any](places int, better func(a, b T) bool) prefix[T] {
	return prefix[T]{best: make([]T, places+1), better: better}
}

func (p *prefix[T]) add(place int, v T) {
	for i := place + 1; i < len(p.best); i += i & -i {
		if p.better(v, p.best[i]) {
			p.best[i] = v
		}
	}
}

// before is the best of the places below one; what is worse than all (best[0]) for none.
func (p *prefix[T]) before(place int) T {
	best := p.best[0]
	for i := place; i > 0; i -= i & -i {
		if p.better(p.best[i], best) {
			best = p.best[i]
		}
	}
	return best
}
