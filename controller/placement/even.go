package placement

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// evenLeaders moves preferred leaderships within the assignments until the counts of eligible brokers differ by at most one where the assignments allow
// it. Choosing the leader of each partition on its own leaves differences of two; handing leaderships on along a path of partitions, from a
// broker that leads too many to one that leads too few, removes them.
func evenLeaders(assignments [][]cluster.BrokerID, places []*place) {
	index := map[cluster.BrokerID]int{}
	count := make([]int, len(places))
	for i, p := range places {
		index[p.ID] = i
	}
	for _, a := range assignments {
		count[index[a[0]]]++
	}
	// Each round lowers the count of a broker that leads most, so the rounds are bounded.
	for range assignments {
		path := shorten(assignments, places, index, count)
		if path == nil {
			return
		}
		for _, s := range path {
			a := assignments[s.partition]
			count[index[a[0]]]--
			i := slices.Index(a, s.to)
			a[0], a[i] = a[i], a[0]
			count[index[a[0]]]++
		}
	}
}

// step hands the leadership of one partition to another of its replicas.
type step struct {
	partition int
	to        cluster.BrokerID
}

// shorten finds the shortest path from the first broker that leads most to one that leads at least two fewer, breadth first, or nil.
func shorten(assignments [][]cluster.BrokerID, places []*place, index map[cluster.BrokerID]int, count []int) []step {
	most := argmax(count)
	via := make([]*step, len(places)) // how each broker was reached
	from := make([]int, len(places))
	queue := []int{most}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for n, a := range assignments {
			if index[a[0]] != at {
				continue
			}
			for _, b := range a[1:] {
				i := index[b]
				if i == most || via[i] != nil || !places[i].Eligible {
					continue
				}
				via[i], from[i] = &step{n, b}, at
				if count[i] <= count[most]-2 {
					return backtrack(via, from, i, most)
				}
				queue = append(queue, i)
			}
		}
	}
	return nil
}

// backtrack lists the steps from the start to at.
func backtrack(via []*step, from []int, at, start int) []step {
	var path []step
	for ; at != start; at = from[at] {
		path = append(path, *via[at])
	}
	slices.Reverse(path)
	return path
}
