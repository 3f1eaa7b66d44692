package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// tape reads inputs off a string of bytes; at its end it gives zeros.
type tape []byte

func (t *tape) next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

func (t *tape) partitions() []cluster.TopicPartition {
	n := t.next(6)
	if n == 5 {
		return nil
	}
	out := []cluster.TopicPartition{}
	for range n {
		out = append(out, cluster.TopicPartition{Topic: topicID("abz"[t.next(3):]), Partition: int32(t.next(6) - 1)})
	}
	return out
}

func (t *tape) offsets() []CommitOffset {
	var out []CommitOffset
	for _, tp := range t.partitions() {
		out = append(out, CommitOffset{Partition: tp, Offset: int64(t.next(5) - 1), Metadata: "123456789"[:t.next(10)]})
	}
	return out
}

// input reads one input that a client, a door or the coordinator could send, sensible or not.
func (t *tape) input(g *Group) Input {
	member := fmt.Sprint("m", t.next(5))
	epoch := int32(t.next(8) - 3)
	if m := g.member(member); m != nil && epoch > 1 {
		epoch = m.Epoch - int32(t.next(2))
	}
	instance := []string{"", "", "i1", "i2"}[t.next(4)]
	switch t.next(10) {
	case 0, 1, 2, 3:
		hb := Heartbeat{Group: "g", MemberID: member, InstanceID: instance, Epoch: epoch, Owned: t.partitions(), Seen: uint64(t.next(2)), Poll: t.next(4) == 0}
		hb.SessionTimeout = []time.Duration{0, time.Second, 10 * time.Second, time.Hour}[t.next(4)]
		hb.Topics = [][]string{nil, {}, {"a"}, {"b", "a", "b"}, {"z"}}[t.next(5)]
		hb.Assignor = []string{"", "", "range", "uniform", "none"}[t.next(5)]
		if m := g.member(member); m != nil && t.next(2) == 0 {
			hb.Owned, hb.Seen = subtract(m.Assigned, hb.Owned), version(m)
		}
		return hb
	case 4:
		return Commit{Group: "g", MemberID: member, InstanceID: instance, Epoch: epoch, Offsets: t.offsets()}
	case 5:
		return Commit{Group: "g", Epoch: NoMemberEpoch, Offsets: t.offsets()}
	case 6:
		return DeleteOffsets{Group: "g", Partitions: t.partitions()}
	case 7:
		return Expire{Retention: time.Duration(t.next(60)) * time.Second}
	case 8:
		return []Input{
			Delete{Group: "g"}, Describe{Group: "g"},
			FetchOffsets{Group: "g", MemberID: member, Epoch: epoch}, Reset{Group: "g", Offsets: t.offsets()},
		}[t.next(4)]
	}
	return []Input{TopicsChanged{}, NewCoordinator{}, Tick{}}[t.next(3)]
}

// FuzzInputs: no input breaks an invariant, a refusal records nothing, and the records alone rebuild the group.
func FuzzInputs(f *testing.F) {
	f.Add([]byte("join m1, join m2, rebalance, leave"))
	f.Add([]byte{0, 3, 0, 0, 5, 0, 1, 0, 2, 0, 0, 1, 3, 0, 0, 5, 0, 1, 0, 2, 0, 0, 0, 5, 0, 0, 2, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t)
		r.topics = fakeTopics{"a": 3, "b": 4}
		const longest = 600 // longer ones only make each run slower
		for in := tape(data[:min(len(data), longest)]); len(in) > 0; {
			if in.next(8) == 0 {
				r.topics = fakeTopics{"a": int32(3 + in.next(2)), "b": 4}
			}
			r.now += time.Duration(in.next(4)) * time.Second
			out := r.step(in.input(r.group))
			if out.Reply.Code != cluster.CodeNone && len(out.Records) > 0 {
				t.Fatalf("refused with %s and recorded %v", out.Reply.Code, out.Records)
			}
			checkInvariants(t, r.group)
			r.out.Reset()
		}
		before := r.describeDurable()
		r.takeOver()
		if after := r.describeDurable(); after != before {
			t.Fatalf("the records do not rebuild the group:\n%s\nbecame\n%s", before, after)
		}
	})
}

// describeDurable is what a takeover must keep: all of the group, after the look at the topics that a takeover takes.
func (r *rig) describeDurable() string {
	r.step(TopicsChanged{})
	r.out.Reset()
	r.show()
	defer r.out.Reset()
	return r.out.String()
}
