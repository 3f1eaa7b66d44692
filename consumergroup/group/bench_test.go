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

// BenchmarkClassicRebalance takes a group of a thousand members through one generation: every member joins and syncs.
func BenchmarkClassicRebalance(b *testing.B) {
	const members = 1000
	config := DefaultConfig()
	config.InitialRebalanceDelay = 0
	g := New("g", config)
	env := Env{Topics: fakeTopics{}}
	step := func(in Input) {
		env.Waiter++
		for _, record := range g.Step(env, in).Records {
			g.Replay(record)
		}
	}
	round := func(known bool) {
		for i := range members {
			j := Join{Group: "g", NewMemberID: fmt.Sprintf("m%04d", i), SessionTimeout: testSession, RebalanceTimeout: testSession,
				ProtocolType: ProtocolTypeConsumer, Protocols: []Protocol{{"range", metadataOf("a")}, {"sticky", metadataOf("a")}}}
			if known {
				j.MemberID = j.NewMemberID
			}
			step(j)
		}
		for i := range members {
			step(Sync{Group: "g", MemberID: fmt.Sprintf("m%04d", i), Generation: g.state.Epoch})
		}
	}
	for i := range 2 {
		round(i > 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		round(true)
	}
	if g.State() != StateStable || g.Members() != members {
		b.Fatalf("%s with %d members", g.State(), g.Members())
	}
}
