package group

import (
	"fmt"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// filled returns a group of n members that has settled.
func filled(b *testing.B, n int, partitions int32) (*Group, Env) {
	g := New("g", DefaultConfig())
	env := Env{NowMs: 1, Topics: fakeTopics{"a": partitions}}
	step := func(hb Heartbeat) {
		out := g.Step(env, hb)
		if out.Reply.Code != cluster.CodeNone {
			b.Fatal(out.Reply.Message)
		}
		for _, r := range out.Records {
			g.Replay(r)
		}
	}
	for i := range n {
		step(Heartbeat{MemberID: fmt.Sprintf("m%04d", i), Topics: []string{"a"}})
	}
	for range 3 {
		for i := range n {
			m := g.member(fmt.Sprintf("m%04d", i))
			step(Heartbeat{MemberID: m.ID, Epoch: m.Epoch, Owned: append([]cluster.TopicPartition{}, m.Assigned...)})
		}
	}
	if g.State() != StateStable {
		b.Fatal("not stable")
	}
	return g, env
}

// BenchmarkHeartbeat is the steady state: nothing is new.
func BenchmarkHeartbeat(b *testing.B) {
	for _, size := range []int{10, 1000} {
		b.Run(fmt.Sprintf("%d members", size), func(b *testing.B) {
			g, env := filled(b, size, 1000)
			m := g.member("m0003")
			hb := Heartbeat{MemberID: m.ID, Epoch: m.Epoch}
			b.ReportAllocs()
			for b.Loop() {
				g.Step(env, hb)
			}
		})
	}
}

// BenchmarkJoin is one more member in a group that has settled: the most work that one request can make.
func BenchmarkJoin(b *testing.B) {
	for _, size := range []int{10, 999} {
		b.Run(fmt.Sprintf("%d members", size), func(b *testing.B) {
			g, env := filled(b, size, 1000)
			b.ReportAllocs()
			for b.Loop() {
				g.Step(env, Heartbeat{MemberID: "new", Topics: []string{"a"}})
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	g, env := filled(b, 10, 1000)
	c := Commit{MemberID: "m0003", Epoch: g.state.Epoch, Offsets: []CommitOffset{{Partition: cluster.TopicPartition{Topic: topicID("a")}, Offset: 1}}}
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range g.Step(env, c).Records {
			g.Replay(r)
		}
	}
}
