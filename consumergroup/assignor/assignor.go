package assignor

import (
	"cmp"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// Name selects a strategy. It is stored in group records.
type Name string

// The strategies.
const (
	Uniform Name = "uniform"
	Range   Name = "range"
)

// Known reports whether there is a strategy of that name.
func (n Name) Known() bool { return n == Uniform || n == Range }

// Topic is a topic that at least one member may subscribe to.
type Topic struct {
	ID         cluster.TopicID
	Partitions int32
}

// Member is one member as an assignor sees it.
type Member struct {
	// Key orders members: the instance id of static members, so that a restart under a new member id changes nothing, else the member id.
	// It is unique in a group.
	Key string
	// Topics are the ids of the subscribed topics that exist.
	Topics []cluster.TopicID
	// Current is what the member was last meant to have. Partitions that it no longer subscribes to, or that are gone, are skipped.
	Current []cluster.TopicPartition
}

// Assign returns what each member should have, in the order of members, each sorted. A name that is not known counts as Uniform.
func Assign(name Name, members []Member, topics []Topic) [][]cluster.TopicPartition {
	p := newPlan(members, topics)
	switch {
	case len(members) == 0:
	case name == Range:
		p.assignRange()
	case p.sameSubscriptions():
		p.keepCurrent()
		p.assignEven()
	default:
		p.keepCurrent()
		p.assignMixed()
	}
	return p.result()
}

// plan is the work space of one assignment. Members and topics are sorted in it and named by their index.
type plan struct {
	order   []int // plan member -> index in the caller's slice
	members []Member
	topics  []Topic
	// subscribers holds, per topic, its members in order.
	subscribers [][]int
	// owner holds, per topic and partition, the member that gets it, or nobody.
	owner [][]int
	load  []int // partitions per member
}

const nobody = -1

func newPlan(members []Member, topics []Topic) *plan {
	p := &plan{topics: slices.Clone(topics), load: make([]int, len(members))}
	slices.SortFunc(p.topics, func(a, b Topic) int { return compareIDs(a.ID, b.ID) })
	for i := range members {
		p.order = append(p.order, i)
	}
	slices.SortFunc(p.order, func(a, b int) int { return cmp.Compare(members[a].Key, members[b].Key) })
	for _, i := range p.order {
		p.members = append(p.members, members[i])
	}
	p.subscribers = make([][]int, len(p.topics))
	p.owner = make([][]int, len(p.topics))
	for t, topic := range p.topics {
		p.owner[t] = slices.Repeat([]int{nobody}, int(topic.Partitions))
	}
	for m, member := range p.members {
		for _, id := range member.Topics {
			if t, ok := p.topic(id); ok && !slices.Contains(tail(p.subscribers[t]), m) {
				p.subscribers[t] = append(p.subscribers[t], m)
			}
		}
	}
	return p
}

// tail is the last element, if any: members are appended in order, so a repeated one can only be there.
func tail(s []int) []int { return s[max(0, len(s)-1):] }

func compareIDs(a, b cluster.TopicID) int { return slices.Compare(a[:], b[:]) }

// topic finds a topic's index.
func (p *plan) topic(id cluster.TopicID) (int, bool) {
	return slices.BinarySearchFunc(p.topics, id, func(t Topic, id cluster.TopicID) int { return compareIDs(t.ID, id) })
}

// sameSubscriptions reports whether every topic that has subscribers has all members.
func (p *plan) sameSubscriptions() bool {
	for _, s := range p.subscribers {
		if len(s) != 0 && len(s) != len(p.members) {
			return false
		}
	}
	return true
}

// give makes m the owner of a partition.
func (p *plan) give(t, partition, m int) {
	if old := p.owner[t][partition]; old != nobody {
		p.load[old]--
	}
	p.owner[t][partition] = m
	p.load[m]++
}

// keepCurrent starts from what members have. A partition that two of them claim stays with the first.
func (p *plan) keepCurrent() {
	for m, member := range p.members {
		for _, tp := range member.Current {
			t, ok := p.topic(tp.Topic)
			if !ok || tp.Partition < 0 || int(tp.Partition) >= len(p.owner[t]) || p.owner[t][tp.Partition] != nobody {
				continue
			}
			if _, subscribed := slices.BinarySearch(p.subscribers[t], m); subscribed {
				p.give(t, int(tp.Partition), m)
			}
		}
	}
}

// result turns owners into sorted lists, in the caller's order.
func (p *plan) result() [][]cluster.TopicPartition {
	out := make([][]cluster.TopicPartition, len(p.members))
	for m, i := range p.order {
		out[i] = make([]cluster.TopicPartition, 0, p.load[m])
	}
	for t, owners := range p.owner {
		for partition, m := range owners {
			if m != nobody {
				i := p.order[m]
				out[i] = append(out[i], cluster.TopicPartition{Topic: p.topics[t].ID, Partition: int32(partition)})
			}
		}
	}
	return out
}
