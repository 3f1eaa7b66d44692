package replication

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// TestLagMaxChangesWhileLeading: a shorter replica.lag.time.max counts from then on, also for a follower that is behind already.
func TestLagMaxChangesWhileLeading(t *testing.T) {
	for _, c := range []struct {
		name    string
		lagMax  time.Duration
		shrinks bool
	}{
		{"shorter", time.Second, true},
		{"unchanged", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(Config{Partition: cluster.TopicPartition{Topic: cluster.TopicID{1}}, Self: 1, LagMax: time.Minute}, Opened{})
			state := &cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1, 2}, Leader: 1, LeaderEpoch: 1, PartitionEpoch: 1}
			peers := []Peer{{Broker: 1, Epoch: 1, Eligible: true}, {Broker: 2, Epoch: 1, Eligible: true}}
			r.Step(0, &ConfigChanged{MinISR: 1})
			r.Step(0, &PartitionChanged{State: state, Peers: peers})
			r.Step(0, &ProduceRequested{Request: 1, LeaderEpoch: 1, Offsets: 1, Acks: AcksISR, Deadline: time.Hour})
			r.Step(0, &Appended{End: 1})
			r.Step(0, &Flushed{End: 1})
			r.Step(0, &ConfigChanged{MinISR: 1, LagMax: c.lagMax})
			out := r.Step(2*time.Second, &Tick{})
			if got := out.Alter != nil; got != c.shrinks {
				t.Errorf("two seconds behind: proposes to shrink the ISR: %v, want %v", got, c.shrinks)
			}
		})
	}
}
