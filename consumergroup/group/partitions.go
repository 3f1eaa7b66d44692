package group

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// Lists of partitions are sets, sorted by TopicPartition.Compare, except where they come from a client. Empty sets are nil.

func contains(set []cluster.TopicPartition, tp cluster.TopicPartition) bool {
	_, ok := slices.BinarySearchFunc(set, tp, cluster.TopicPartition.Compare)
	return ok
}

// intersect returns what of a is also in b; b may be in any order.
func intersect(a, b []cluster.TopicPartition) []cluster.TopicPartition {
	return filter(a, b, true)
}

// subtract returns what of a is not in b; b may be in any order.
func subtract(a, b []cluster.TopicPartition) []cluster.TopicPartition {
	return filter(a, b, false)
}

func filter(a, b []cluster.TopicPartition, want bool) []cluster.TopicPartition {
	if !slices.IsSortedFunc(b, cluster.TopicPartition.Compare) {
		b = slices.SortedFunc(slices.Values(b), cluster.TopicPartition.Compare)
	}
	var out []cluster.TopicPartition
	for _, tp := range a {
		if contains(b, tp) == want {
			out = append(out, tp)
		}
	}
	return out
}

// union returns a new set of what is in a or b.
func union(a, b []cluster.TopicPartition) []cluster.TopicPartition {
	if len(b) == 0 {
		return a
	}
	out := slices.Concat(a, b)
	slices.SortFunc(out, cluster.TopicPartition.Compare)
	return slices.Compact(out)
}

// containsAll reports whether every element of list, which may be in any order, is in one of the sets.
func containsAll(list []cluster.TopicPartition, sets ...[]cluster.TopicPartition) bool {
	for _, tp := range list {
		if !slices.ContainsFunc(sets, func(s []cluster.TopicPartition) bool { return contains(s, tp) }) {
			return false
		}
	}
	return true
}
