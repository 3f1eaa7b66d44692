package driver

import (
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/controller/state"
)

// BenchmarkBrokerGone is the step in which one of 30 brokers with 10,000 partitions in all is seen fenced.
func BenchmarkBrokerGone(b *testing.B) {
	s := state.New()
	apply := func(cmd cluster.Command) {
		if res := s.Apply(s.Image().Index()+1, cmd); res.Code != cluster.CodeNone {
			b.Fatalf("%T: %s %s", cmd, res.Code, res.Message)
		}
	}
	apply(cluster.InitCluster{Cluster: uid("c"), FeatureLevel: 1})
	for id := range cluster.BrokerID(30) {
		apply(cluster.RegisterBroker{PreviousEpoch: -1, Broker: cluster.Broker{ID: id, Directory: cluster.UUID{1, byte(id)}, Incarnation: cluster.UUID{2, byte(id)}, MinLevel: 1, MaxLevel: 1}})
		br, _ := s.Image().Broker(id)
		apply(cluster.UnfenceBroker{Broker: id, Epoch: br.Epoch})
	}
	for n := range 100 {
		a, err := placement.Assign(placement.Request{Brokers: placement.Brokers(s.Image()), Partitions: 100, ReplicationFactor: 3, Seed: uint64(n)})
		if err != nil {
			b.Fatal(err)
		}
		apply(cluster.CreateTopic{ID: cluster.UUID{byte(n * 37), byte(n), 3}, Name: fmt.Sprint("topic", n), Assignment: a})
	}
	before := s.Image()
	br, _ := before.Broker(7)
	apply(cluster.FenceBroker{Broker: 7, Epoch: br.Epoch})
	for b.Loop() {
		d := New(DefaultConfig())
		d.Step(0, BecameLeader{Image: before})
		if e := d.Step(time.Millisecond, ImageChanged{Image: s.Image()}); len(e.Propose) != 0 {
			b.Fatal(describe(e.Propose[0].Command))
		}
	}
}

// BenchmarkHeartbeat is a beat of a broker of a big cluster at rest.
func BenchmarkHeartbeat(b *testing.B) {
	s := state.New()
	s.Apply(1, cluster.InitCluster{Cluster: uid("c"), FeatureLevel: 1})
	for id := range cluster.BrokerID(100) {
		s.Apply(s.Image().Index()+1, cluster.RegisterBroker{PreviousEpoch: -1, Broker: cluster.Broker{ID: id, Directory: cluster.UUID{1, byte(id)}, Incarnation: cluster.UUID{2, byte(id)}, MinLevel: 1, MaxLevel: 1}})
	}
	d := New(DefaultConfig())
	d.Step(0, BecameLeader{Image: s.Image()})
	br, _ := s.Image().Broker(7)
	for now := time.Duration(0); b.Loop(); now += time.Microsecond {
		d.Step(now, Heartbeat{Broker: 7, Epoch: br.Epoch})
	}
}
