package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// Bounds of what administrators do.
const (
	maxErrands     = 4 // under way at once
	errandAttempts = 6
	errandTimeout  = time.Second
)

// adminKinds lists what administrators ask for. These are no faults, but are drawn and left out as faults are.
func adminKinds() []faultKind {
	return []faultKind{
		{name: "create-topic", admin: true, do: func(w *World, _ *broker) { w.createTopic("") }},
		{name: "delete-topic", admin: true, do: func(w *World, _ *broker) { w.deleteTopic() }},
		{name: "add-partitions", admin: true, do: func(w *World, _ *broker) { w.addPartitions() }},
		{name: "trim", admin: true, do: func(w *World, _ *broker) { w.trim() }},
		{name: "retention", admin: true, do: func(w *World, _ *broker) { w.changeRetention() }},
		{name: "min-isr", admin: true, do: func(w *World, _ *broker) { w.changeMinISR() }},
		{name: "reassign", admin: true, do: func(w *World, _ *broker) { w.reassign() }},
		{name: "cancel-reassignment", admin: true, do: func(w *World, _ *broker) { w.cancelReassignment() }},
		{name: "retire-broker", admin: true, do: (*World).retire},
		{name: "prefer-leader", admin: true, do: func(w *World, _ *broker) { w.preferLeader() }},
	}
}

// errand is one wish of an administrator: a client asks a broker, which proposes a command to the controller. Answers get lost, and the client asks again,
// a few times: what is asked for may happen more than once, or long after.
type errand struct {
	w    *World
	what string
	// ask chooses the broker to be asked, nil for any.
	ask func() *broker
	// command says what to propose, by what that broker knows; without one the client asks again later.
	command func(b *broker) (cluster.Command, bool)
	// done, if not nil, is told that the command was accepted.
	done func()
	// always says that it goes on when all is healed.
	always   bool
	attempts int
}

// run begins an errand, unless too many are under way; then it returns false.
func (w *World) run(e *errand) bool {
	if w.errands >= maxErrands {
		return false
	}
	w.errands++
	e.w = w
	e.try()
	return true
}

// try makes one attempt.
func (e *errand) try() {
	w := e.w
	if e.attempts == errandAttempts || !w.faults && !e.always {
		w.errands--
		return
	}
	e.attempts++
	attempt := e.attempts
	b := w.brokers[w.rng.IntN(len(w.brokers))]
	if e.ask != nil {
		b = e.ask()
	}
	current := func() bool { return e.attempts == attempt }
	again := func() {
		if current() {
			e.attempts = min(attempt+1, errandAttempts)
			w.after(w.between(50*time.Millisecond, 300*time.Millisecond), e.try)
		}
	}
	w.after(errandTimeout, again)
	if b == nil {
		return
	}
	w.load.call(w.load.admin, b, func() {
		cmd, ok := e.command(b)
		if !ok {
			w.net.send(b.node(), w.load.admin, again)
			return
		}
		w.net.send(b.node(), controllerNode, func() {
			w.meta.propose(cmd, func(res cluster.Result, failed bool) {
				w.net.send(controllerNode, w.load.admin, func() {
					if !current() {
						return
					}
					if failed || !accepted(&res) {
						again()
						return
					}
					e.finished()
				})
			})
		})
	}, again)
}

// accepted reports whether a command, and the only part of it that it may have, was accepted.
func accepted(res *cluster.Result) bool {
	return res.Code == cluster.CodeNone && !slices.ContainsFunc(res.Items, func(i cluster.ItemResult) bool { return i.Code != cluster.CodeNone })
}

func (e *errand) finished() {
	e.attempts = errandAttempts + 1 // later answers find it over
	e.w.errands--
	e.w.cov.Errands++
	e.w.note("done " + e.what)
	if e.done != nil {
		e.done()
	}
}

// somePartition draws a partition that is there.
func (w *World) somePartition() (cluster.TopicPartition, bool) {
	live := w.live()
	if len(live) == 0 {
		return cluster.TopicPartition{}, false
	}
	return live[w.rng.IntN(len(live))], true
}

// createTopic creates a topic under a name that is free, or that one.
func (w *World) createTopic(name string) {
	plan := drawTopic(w.scheduler, &w.mix, w.rng.IntN(maxTopics))
	if name != "" {
		plan.name = name
	}
	w.run(&errand{what: "create", command: func(b *broker) (cluster.Command, bool) {
		if _, taken := b.image.TopicByName(plan.name); taken || b.image.TopicCount() >= maxTopics || b.image.PartitionCount()+plan.partitions > maxLivePartitions {
			return nil, false
		}
		cmd, err := w.createCommand(plan, b.image)
		return cmd, err == nil
	}})
}

// deleteTopic deletes a topic, and mostly makes it anew under the same name (case 55).
func (w *World) deleteTopic() {
	tp, ok := w.somePartition()
	if !ok || w.meta.state.Image().TopicCount() == 1 {
		return // there is always something for clients to do
	}
	name := w.topics[tp.Topic].name
	anew := w.chance(800)
	w.run(&errand{what: "delete", command: func(*broker) (cluster.Command, bool) { return cluster.DeleteTopic{ID: tp.Topic}, true }, done: func() {
		if anew {
			w.after(w.between(0, 500*time.Millisecond), func() { w.createAnew(name) })
		}
	}})
}

// createAnew creates a topic under the name of one that was deleted, as soon as nothing that is created now could count on a disk that was spoilt meanwhile.
func (w *World) createAnew(name string) {
	if w.fragile() {
		w.after(w.between(50*time.Millisecond, 300*time.Millisecond), func() { w.createAnew(name) })
		return
	}
	w.createTopic(name)
}

// addPartitions makes a topic grow under load (case 57).
func (w *World) addPartitions() {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	w.run(&errand{what: "add", command: func(b *broker) (cluster.Command, bool) {
		t, ok := b.image.Topic(tp.Topic)
		if !ok || b.image.PartitionCount() >= maxLivePartitions {
			return nil, false
		}
		assignment, err := placement.Assign(placement.Request{Brokers: placement.Brokers(b.image), Partitions: 1, ReplicationFactor: int(t.ReplicationFactor), Seed: w.rng.Uint64()})
		return cluster.AddPartitions{Topic: t.ID, Have: t.Partitions, Assignment: assignment}, err == nil
	}, done: func() { w.cov.PartitionsAdded++ }})
}

// trim deletes records up to some offset, as the leader of a partition does when it is asked (case 65).
func (w *World) trim() {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	w.trimPart(tp, w.chance(300))
	if w.chance(300) { // somebody else has the same wish, and asks for less
		w.trimPart(tp, false)
	}
}

// trimPart trims a partition, at its watermark or somewhere below.
func (w *World) trimPart(tp cluster.TopicPartition, all bool) {
	w.run(&errand{what: "trim", ask: func() *broker { return w.leaderOf(tp) }, command: func(b *broker) (cluster.Command, bool) {
		r := b.replica(tp)
		if r == nil || r.at.Role != partition.RoleLeader || r.at.HighWatermark <= r.at.LogStart {
			return nil, false
		}
		before := r.at.HighWatermark
		if !all {
			before = r.at.LogStart + 1 + record.Offset(w.rng.Int64N(int64(before-r.at.LogStart)))
		}
		return cluster.SetLogStart{Partition: tp, LeaderEpoch: r.at.LeaderEpoch, LogStart: before}, true
	}, done: func() { w.cov.Trims++ }})
}

// leaderOf is who leads a partition by the newest metadata, nil for nobody.
func (w *World) leaderOf(tp cluster.TopicPartition) *broker {
	if p, ok := w.meta.state.Image().Partition(tp); ok && p.Leader >= 0 {
		return w.brokers[p.Leader]
	}
	return nil
}

// changeTopic changes configs of a topic.
func (w *World) changeTopic(what string, ops ...cluster.ConfigOp) {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	name := w.topics[tp.Topic].name
	w.run(&errand{what: what, command: func(*broker) (cluster.Command, bool) {
		return cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigTopic, Name: name}, Ops: ops}, true
	}, done: func() { w.cov.ConfigChanges++ }})
}

// changeRetention makes a topic keep less, or everything.
func (w *World) changeRetention() {
	bytes, ms := cluster.ConfigOp{Key: "retention.bytes", Delete: true}, cluster.ConfigOp{Key: "retention.ms", Delete: true}
	if w.chance(600) {
		bytes = cluster.ConfigOp{Key: "retention.bytes", Value: fmt.Sprint(2048 << w.rng.IntN(4))}
	}
	if w.chance(400) {
		ms = cluster.ConfigOp{Key: "retention.ms", Value: fmt.Sprint(1500 + w.rng.IntN(4000))}
	}
	w.changeTopic("retention", bytes, ms)
}

// changeMinISR raises or lowers min.insync.replicas, whoever is in the ELR (case 143).
func (w *World) changeMinISR() {
	if w.spoilt != nil {
		return // to lower it empties the ELR, and a copy that is spoilt may be the only other one
	}
	w.changeTopic("min-isr", cluster.ConfigOp{Key: "min.insync.replicas", Value: fmt.Sprint(1 + w.rng.IntN(3))})
}

// reassign moves a partition to other brokers, perhaps more or fewer (case 53).
func (w *World) reassign() {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	grow := []int{0, 0, 0, 1, -1}[w.rng.IntN(5)]
	w.run(&errand{what: "reassign", command: func(b *broker) (cluster.Command, bool) {
		p, ok := b.image.Partition(tp)
		if !ok {
			return nil, false
		}
		var to []cluster.BrokerID
		for br := range b.image.Brokers() {
			to = append(to, br.ID)
		}
		w.rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
		factor := len(p.Replicas) - len(p.Adding) + grow
		return cluster.Reassign{Partition: tp, Replicas: to[:max(2, min(factor, len(to), 4))]}, len(to) > 1
	}, done: func() { w.cov.ReassignmentsBegun++ }})
}

// cancelReassignment takes a reassignment back that is under way, and begins it again at once: what it brings goes, and comes back with nothing.
func (w *World) cancelReassignment() {
	for _, tp := range w.live() {
		if p, ok := w.meta.state.Image().Partition(tp); ok && len(p.Adding)+len(p.Removing) > 0 {
			target := slices.DeleteFunc(slices.Clone(p.Replicas), func(b cluster.BrokerID) bool { return slices.Contains(p.Removing, b) })
			again := func() {
				w.cov.ReassignmentsCancelled++
				w.run(&errand{what: "reassign", command: func(*broker) (cluster.Command, bool) { return cluster.Reassign{Partition: tp, Replicas: target}, true },
					done: func() { w.cov.ReassignmentsBegun++ }})
			}
			w.run(&errand{what: "cancel", command: func(*broker) (cluster.Command, bool) { return cluster.Reassign{Partition: tp}, true }, done: again})
			return
		}
	}
}

// preferLeader gives a partition its preferred leader.
func (w *World) preferLeader() {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	w.run(&errand{what: "prefer", command: func(b *broker) (cluster.Command, bool) {
		p, ok := b.image.Partition(tp)
		if !ok {
			return nil, false
		}
		leader, ok := placement.Preferred(p, func(id cluster.BrokerID) bool {
			br, ok := b.image.Broker(id)
			return ok && br.Eligible()
		})
		return cluster.ElectLeaders{Changes: []cluster.PartitionChange{{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: leader}}}, ok
	}, done: func() { w.cov.PreferredElections++ }})
}

// adminFloors are the floors of what administrators do and what follows from it.
func adminFloors() []floor {
	return []floor{
		{"errands of administrators", func(c *Coverage) int { return c.Errands }, 300},
		{"deleted partitions", func(c *Coverage) int { return c.PartitionsDeleted }, 50},
		{"removed replicas", func(c *Coverage) int { return c.ReplicasRemoved }, 150},
		{"added partitions", func(c *Coverage) int { return c.PartitionsAdded }, 30},
		{"trims", func(c *Coverage) int { return c.Trims }, 30},
		{"changed configs", func(c *Coverage) int { return c.ConfigChanges }, 80},
		{"retentions", func(c *Coverage) int { return c.Retentions }, 100},
		{"readers of deleted records", func(c *Coverage) int { return c.OutOfRange }, 50},
		{"reassignments", func(c *Coverage) int { return c.ReassignmentsBegun }, 60},
		{"cancelled reassignments", func(c *Coverage) int { return c.ReassignmentsCancelled }, 4},
		{"ended reassignments", func(c *Coverage) int { return c.Reassignments }, 20},
		{"snapshots of the metadata", func(c *Coverage) int { return c.Snapshots }, 300},
		{"late brokers", func(c *Coverage) int { return c.BrokersJoined }, 10},
		{"unregistered brokers", func(c *Coverage) int { return c.BrokersRetired }, 3},
		{"parked replicas", func(c *Coverage) int { return c.ReplicasParked }, 1},
		{"preferred elections", func(c *Coverage) int { return c.PreferredElections }, 8},
	}
}
