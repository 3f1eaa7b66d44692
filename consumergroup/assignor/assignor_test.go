package assignor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

func id(n int) cluster.TopicID { return cluster.TopicID{0: byte(n + 1)} }

// scene is a random group: members, topics, and what the members had before.
func scene(r *rand.Rand, same bool) ([]Member, []Topic) {
	var topics []Topic
	for i := range 1 + r.IntN(5) {
		topics = append(topics, Topic{ID: id(i), Partitions: int32(r.IntN(9))})
	}
	members := make([]Member, 1+r.IntN(8))
	for i := range members {
		members[i].Key = fmt.Sprintf("m%02d", i)
		for _, t := range topics {
			if same || r.IntN(2) == 0 {
				members[i].Topics = append(members[i].Topics, t.ID)
			}
		}
	}
	for _, t := range topics {
		for partition := range t.Partitions + 1 { // one too many: gone since
			if r.IntN(3) > 0 {
				m := &members[r.IntN(len(members))]
				m.Current = append(m.Current, cluster.TopicPartition{Topic: t.ID, Partition: partition})
			}
		}
	}
	return members, topics
}

// check fails unless every partition with subscribers has exactly one owner, which subscribes to it.
func check(t *testing.T, members []Member, topics []Topic, got [][]cluster.TopicPartition) {
	t.Helper()
	owners := map[cluster.TopicPartition]int{}
	for i, list := range got {
		if !slices.IsSortedFunc(list, cluster.TopicPartition.Compare) {
			t.Fatalf("the list of member %d is not sorted", i)
		}
		for _, tp := range list {
			if !slices.Contains(members[i].Topics, tp.Topic) {
				t.Fatalf("member %d got %v without subscribing", i, tp)
			}
			owners[tp]++
		}
	}
	for _, topic := range topics {
		subscribed := slices.ContainsFunc(members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
		for partition := range topic.Partitions {
			tp := cluster.TopicPartition{Topic: topic.ID, Partition: partition}
			if want := map[bool]int{true: 1}[subscribed]; owners[tp] != want {
				t.Fatalf("%v has %d owners, want %d", tp, owners[tp], want)
			}
			delete(owners, tp)
		}
	}
	if len(owners) > 0 {
		t.Fatalf("partitions that do not exist were given: %v", owners)
	}
}

// withCurrent returns the members as they are after an assignment.
func withCurrent(members []Member, got [][]cluster.TopicPartition) []Member {
	out := slices.Clone(members)
	for i := range out {
		out[i].Current = got[i]
	}
	return out
}

func TestAssign_CompleteDeterministicAndAFixedPoint(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		members, topics := scene(r, seed%2 == 0)
		for _, name := range []Name{Uniform, Range} {
			got := Assign(name, members, topics)
			check(t, members, topics, got)
			if again := Assign(name, withCurrent(members, got), topics); !reflect.DeepEqual(again, got) {
				t.Fatalf("seed %d, %s: not a fixed point:\n%v\n%v", seed, name, got, again)
			}
			perm := r.Perm(len(members))
			shuffled := make([]Member, len(members))
			for i, j := range perm {
				shuffled[i] = members[j]
			}
			slices.Reverse(topics)
			for i, list := range Assign(name, shuffled, topics) {
				if !reflect.DeepEqual(list, got[perm[i]]) {
					t.Fatalf("seed %d, %s: depends on the order of its input", seed, name)
				}
			}
		}
	}
}

func TestUniform_BalancedWithinOnePerTopicSet(t *testing.T) {
	for seed := range uint64(2000) {
		members, topics := scene(rand.New(rand.NewPCG(seed, 2)), seed%2 == 0)
		got := Assign(Uniform, members, topics)
		for i := range members {
			for j := range members {
				if slices.Equal(members[i].Topics, members[j].Topics) && len(got[i]) > len(got[j])+1 {
					t.Fatalf("seed %d: same subscriptions, %d and %d partitions", seed, len(got[i]), len(got[j]))
				}
			}
		}
	}
}

// With one subscription for all, no assignment that is balanced keeps more: a member keeps all it has up to its quota.
func TestUniform_MovesTheFewest(t *testing.T) {
	for seed := range uint64(2000) {
		members, topics := scene(rand.New(rand.NewPCG(seed, 3)), true)
		got := Assign(Uniform, members, topics)
		kept, total, loads := 0, 0, []int{}
		for i, m := range members {
			valid := 0
			for _, tp := range m.Current {
				if n := slices.IndexFunc(topics, func(t Topic) bool { return t.ID == tp.Topic }); tp.Partition < topics[n].Partitions {
					valid++
				}
			}
			loads = append(loads, valid)
			total += len(got[i])
			for _, tp := range got[i] {
				if slices.Contains(m.Current, tp) {
					kept++
				}
			}
		}
		slices.SortFunc(loads, func(a, b int) int { return b - a })
		best := 0
		for i, load := range loads { // the most loaded get the larger quotas
			quota := total / len(members)
			if i < total%len(members) {
				quota++
			}
			best += min(load, quota)
		}
		if kept != best {
			t.Fatalf("seed %d: %d partitions stayed, %d could have", seed, kept, best)
		}
	}
}

func TestUniform_AFourthMemberTakesOnlyItsShare(t *testing.T) {
	topics := []Topic{{ID: id(0), Partitions: 12}}
	members := []Member{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	for i := range members {
		members[i].Topics = []cluster.TopicID{id(0)}
	}
	members = withCurrent(members, Assign(Uniform, members, topics))
	members = append(members, Member{Key: "0-first", Topics: []cluster.TopicID{id(0)}})
	got := Assign(Uniform, members, topics)
	moved := 0
	for i := range 3 {
		for _, tp := range members[i].Current {
			if !slices.Contains(got[i], tp) {
				moved++
			}
		}
	}
	if moved != 3 || len(got[3]) != 3 {
		t.Fatalf("%d partitions moved, the new member has %d; want 3 and 3", moved, len(got[3]))
	}
}

func TestRange_RunsLineUpAcrossTopics(t *testing.T) {
	both := []cluster.TopicID{id(0), id(1)}
	members := []Member{{Key: "b", Topics: both}, {Key: "a", Topics: both}}
	got := Assign(Range, members, []Topic{{ID: id(0), Partitions: 3}, {ID: id(1), Partitions: 3}})
	tp := func(topic int, partition int32) cluster.TopicPartition {
		return cluster.TopicPartition{Topic: id(topic), Partition: partition}
	}
	want := [][]cluster.TopicPartition{{tp(0, 2), tp(1, 2)}, {tp(0, 0), tp(0, 1), tp(1, 0), tp(1, 1)}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, mixed := range []bool{false, true} {
		topics := make([]Topic, 100)
		for i := range topics {
			topics[i] = Topic{ID: cluster.TopicID{0: byte(i)}, Partitions: 100}
		}
		members := make([]Member, 500)
		for i := range members {
			members[i].Key = fmt.Sprintf("m%03d", i)
			for t := range topics {
				if !mixed || (t+i)%3 > 0 {
					members[i].Topics = append(members[i].Topics, topics[t].ID)
				}
			}
		}
		members = withCurrent(members, Assign(Uniform, members, topics))
		name := map[bool]string{false: "same subscriptions", true: "mixed"}[mixed]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Assign(Uniform, members[1:], topics)
			}
		})
	}
}
