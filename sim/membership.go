package sim

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// retireSteps bounds how often a retirement looks at how far it is.
const (
	retireSteps = 25
	retireEvery = 300 * time.Millisecond
)

// joinLate starts the brokers that were not there when the cluster formed.
func (w *World) joinLate() {
	for _, b := range w.brokers[w.mix.founders:] {
		w.after(w.between(500*time.Millisecond, 6*time.Second), func() {
			if !b.up {
				w.cov.BrokersJoined++
				b.start()
			}
		})
	}
}

// retirement takes a broker out of the cluster: its replicas move away, it stops, and it is unregistered. Later it comes back with the disk that it had.
type retirement struct {
	w *World
	b *broker
	// dead brokers are not asked: they are killed first, their replicas move away without them, and nobody removes the files.
	dead  bool
	steps int
}

// retire begins to take a broker out, one at a time, where enough others are left.
func (w *World) retire(b *broker) {
	if w.retiring != nil || w.meta.state.Image().BrokerCount() <= replicationFactor {
		return
	}
	w.retiring = &retirement{w: w, b: b, dead: w.chance(500)}
	if w.retiring.dead {
		b.retired = true
		if b.up {
			b.crash()
		}
	}
	w.retiring.step()
}

// step does what comes next.
func (t *retirement) step() {
	w, image := t.w, t.w.meta.state.Image()
	me, registered := image.Broker(t.b.id)
	t.steps++
	switch holds := t.holds(image); {
	case !w.faults || t.steps > retireSteps || !registered:
		t.end()
		return
	case len(holds) > 0:
		for _, tp := range holds {
			t.moveAway(tp)
		}
	case t.b.up:
		t.b.retired = true
		w.drain(t.b)
	case me.Fenced:
		w.run(&errand{what: "unregister", command: func(*broker) (cluster.Command, bool) { return cluster.UnregisterBroker{Broker: t.b.id}, true },
			done: func() { w.cov.BrokersRetired++ }})
	}
	w.after(retireEvery, t.step)
}

// end lets the broker come back.
func (t *retirement) end() {
	t.w.retiring = nil
	t.b.retired = false
	t.w.after(t.w.between(0, 2*time.Second), t.b.start)
}

// holds lists the partitions of which the broker has a replica.
func (t *retirement) holds(image *cluster.Image) []cluster.TopicPartition {
	var out []cluster.TopicPartition
	for tp, p := range image.AllPartitions() {
		if p.HasReplica(t.b.id) {
			out = append(out, tp)
		}
	}
	return out
}

// moveAway moves a partition to other brokers, unless that is under way.
func (t *retirement) moveAway(tp cluster.TopicPartition) {
	w := t.w
	w.run(&errand{what: "move", command: func(b *broker) (cluster.Command, bool) {
		p, ok := b.image.Partition(tp)
		if !ok || len(p.Removing) > 0 {
			return nil, false
		}
		var to []cluster.BrokerID
		for br := range b.image.Brokers() {
			if br.ID != t.b.id && len(to) < len(p.Replicas)-len(p.Adding) {
				to = append(to, br.ID)
			}
		}
		return cluster.Reassign{Partition: tp, Replicas: to}, len(to) > 1
	}, done: func() { w.cov.ReassignmentsBegun++ }})
}
