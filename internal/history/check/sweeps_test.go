package check

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSweepsFindWhatASearchFinds: what is carried along the times of beginnings, in trees, is what looking at every commit finds.
func TestSweepsFindWhatASearchFinds(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 4))
		commits := randomCommits(random)
		var begins []begin
		for range 20 {
			begins = append(begins, begin{time: random.Int64N(60), generation: random.Int32N(6)})
		}
		slices.SortFunc(begins, func(a, b begin) int { return int(a.time - b.time) })
		newest, lowest := newNewestBefore(commits), newLowestSince(commits)
		for _, b := range begins {
			var want *commit
			for _, w := range commits {
				if w.status == okay && w.generation > 0 && w.generation < b.generation && w.ended < b.time && (want == nil || w.began > want.began) {
					want = w
				}
			}
			got := newest.at(b)
			if (got == nil) != (want == nil) || got != nil && got.began != want.began {
				t.Fatalf("seed %d: newest before %+v: %+v, want %+v", seed, b, got, want)
			}
			since := random.Int64N(60)
			low := int64(never)
			for _, w := range commits {
				if w.status != failed && w.began <= b.time && w.until() >= since {
					low = min(low, w.offset)
				}
			}
			if got := lowest.at(b.time, since); got != low {
				t.Fatalf("seed %d: lowest at %d since %d: %d, want %d", seed, b.time, since, got, low)
			}
		}
	}
}

// randomCommits are some commits, in the order of their beginnings.
func randomCommits(random *rand.Rand) []*commit {
	var commits []*commit
	for range random.IntN(12) {
		w := &commit{began: random.Int64N(50), ended: never, dead: never, followed: never, offset: random.Int64N(20) - 1, generation: random.Int32N(6), status: []status{unknown, okay, failed}[random.IntN(3)]}
		if w.status == okay {
			w.ended = w.began + random.Int64N(10)
		} else if random.IntN(2) == 0 {
			w.dead, w.followed = w.began+random.Int64N(20), w.began+random.Int64N(20)
		}
		commits = append(commits, w)
	}
	slices.SortFunc(commits, func(a, b *commit) int { return int(a.began - b.began) })
	return commits
}

// TestDeletionsFindWhatASearchFinds: the rising frontier of deletions says the same as all of them.
func TestDeletionsFindWhatASearchFinds(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 5))
		var p part
		var all []trim
		for range random.IntN(20) {
			d := trim{time: random.Int64N(30), start: random.Int64N(30)}
			all = append(all, d)
			p.trimmed(d)
		}
		for moved := range int64(31) {
			want := int64(0)
			for _, d := range all {
				if d.time < moved {
					want = max(want, d.start)
				}
			}
			if got := p.deletedBefore(moved); got.start != want {
				t.Fatalf("seed %d: deleted before %d: below %d, want %d", seed, moved, got.start, want)
			}
		}
	}
}
