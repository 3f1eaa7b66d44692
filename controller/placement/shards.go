package placement

import (
	"iter"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// ShardTarget gives one coordinator shard to a broker.
type ShardTarget struct {
	Shard  cluster.ShardID
	Leader cluster.BrokerID
}

// Keeping lists the brokers that drain and are not fenced yet. They coordinate what they do until they know that they drain, and get nothing new.
func Keeping(brokers iter.Seq[*cluster.Broker]) []cluster.BrokerID {
	var out []cluster.BrokerID
	for b := range brokers {
		if b.Draining && !b.Fenced {
			out = append(out, b.ID)
		}
	}
	return out
}

// Shards says who is to lead which shard: first every shard whose leader is neither among eligible nor among keeping goes to the broker that leads fewest, then at most
// maxMoves shards move from the brokers that lead most to those that lead fewest, until the counts differ by at most one. eligible must be
// sorted; when it is empty, every led shard loses its leader. Only changes are returned, in the order of shards.
func Shards(leaders, eligible, keeping []cluster.BrokerID, maxMoves int) []ShardTarget {
	now := slices.Clone(leaders)
	count := make([]int, len(eligible))
	index := func(b cluster.BrokerID) (int, bool) { return slices.BinarySearch(eligible, b) }
	for _, b := range now {
		if i, ok := index(b); ok {
			count[i]++
		}
	}
	for s, b := range now {
		if _, ok := index(b); ok || slices.Contains(keeping, b) {
			continue
		}
		now[s] = cluster.NoBroker
		if len(eligible) > 0 {
			i := argmin(count)
			now[s] = eligible[i]
			count[i]++
		}
	}
	for range maxMoves {
		if len(eligible) == 0 {
			break
		}
		most, least := argmax(count), argmin(count)
		if count[most]-count[least] <= 1 {
			break
		}
		s := slices.Index(now, eligible[most])
		now[s] = eligible[least]
		count[most]--
		count[least]++
	}
	var out []ShardTarget
	for s, b := range now {
		if b != leaders[s] {
			out = append(out, ShardTarget{Shard: cluster.ShardID(s), Leader: b})
		}
	}
	return out
}

func argmin(v []int) int {
	best := 0
	for i := range v {
		if v[i] < v[best] {
			best = i
		}
	}
	return best
}

func argmax(v []int) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}
