package sim

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// bereft is a partition that has lost every copy that was on record as complete: their directories are gone for good. That is more than is promised to survive, so it
// stays without a leader until an operator forces an unclean election (docs/guarantees.md, docs/operations.md). One at a time, and nothing else is taken meanwhile.
type bereft struct {
	tp cluster.TopicPartition
	// taken are the brokers whose copy is gone and has not been begun anew.
	taken []cluster.BrokerID
	// elected says that an election was forced.
	elected bool
}

// uncleanFaults are those that take more than what is promised to survive.
func uncleanFaults() []faultKind {
	return []faultKind{{name: "lost-copies", apart: true, do: func(w *World, _ *broker) { w.loseCopies(12) }}}
}

// uncleanFloors are for them.
func uncleanFloors() []floor {
	return []floor{
		{"partitions without a complete copy", func(c *Coverage) int { return c.LostCopies }, 5},
		{"forced elections", func(c *Coverage) int { return c.UncleanElections }, 5},
		{"records lost by forced elections", func(c *Coverage) int { return c.RecordsLost }, 20},
		{"readers told of lost records", func(c *Coverage) int { return c.LossesTold }, 5},
	}
}

// loseCopies takes every complete copy of a partition away (cases 58 and 59). That is seldom possible, so it is tried for a while.
func (w *World) loseCopies(tries int) {
	if tp, ok := w.perishable(); ok {
		w.takeCopies(tp)
		return
	}
	w.after(250*time.Millisecond, func() {
		if w.faults && tries > 1 {
			w.loseCopies(tries - 1)
		}
	})
}

// perishable draws a partition that may lose its complete copies: mostly one that another replica is behind in, so that not everything is lost. No disk is in trouble,
// and nothing is being moved.
func (w *World) perishable() (cluster.TopicPartition, bool) {
	if w.spoilt != nil || w.bereft != nil || w.errands != 0 || w.retiring != nil || w.troubled(nil) {
		return cluster.TopicPartition{}, false
	}
	everything := w.chance(30)
	var fit []cluster.TopicPartition
	for _, tp := range w.live() {
		p, ok := w.meta.state.Image().Partition(tp)
		complete := len(p.ISR) + len(p.ELR)
		if ok && complete > 0 && len(p.Adding)+len(p.Removing) == 0 && (everything || complete < len(p.Replicas)) {
			fit = append(fit, tp)
		}
	}
	if len(fit) == 0 {
		return cluster.TopicPartition{}, false
	}
	return fit[w.rng.IntN(len(fit))], true
}

// takeCopies moves the directories of all complete copies away while their brokers are down, and sends the operator.
func (w *World) takeCopies(tp cluster.TopicPartition) {
	p, _ := w.meta.state.Image().Partition(tp)
	w.bereft = &bereft{tp: tp, taken: slices.Concat(p.ISR, p.ELR)}
	w.cov.LostCopies++
	w.note("lost copies", w.key(tp), int64(len(w.bereft.taken)), int64(len(p.Replicas)))
	for _, id := range w.bereft.taken {
		b := w.brokers[id]
		if b.up {
			b.crash()
		}
		if dir := filepath.Join(dataRoot, partitionsDir, tp.String()); slices.Contains(b.disk.directories(), dir) {
			w.moveAway(b, []string{dir})
		}
		delete(w.check.down, place{id, tp})
		delete(w.check.left, place{id, tp})
		w.restart(b)
	}
	w.after(w.between(500*time.Millisecond, 4*time.Second), w.force)
}

// isTaken reports whether b's copy of a partition was taken away.
func (w *World) isTaken(b *broker, tp cluster.TopicPartition) bool {
	return w.bereft != nil && w.bereft.tp == tp && slices.Contains(w.bereft.taken, b.id)
}

// begunAnew notes that a broker has a directory for a partition again.
func (w *World) begunAnew(b *broker, tp cluster.TopicPartition) {
	if w.isTaken(b, tp) {
		w.bereft.taken = slices.DeleteFunc(w.bereft.taken, func(id cluster.BrokerID) bool { return id == b.id })
	}
}

// hopeless reports whether nobody who has a complete copy of the partition can come back.
func (w *World) hopeless(tp cluster.TopicPartition, p *cluster.Partition) bool {
	return w.bereft != nil && w.bereft.tp == tp && p.Leader == cluster.NoBroker &&
		!slices.ContainsFunc(slices.Concat(p.ISR, p.ELR), func(id cluster.BrokerID) bool { return !slices.Contains(w.bereft.taken, id) })
}

// force is a look of the operator at the partition: where nothing else can heal it, an election is forced, as often as that takes, until it is whole again.
func (w *World) force() {
	f := w.bereft
	if w.unforced() == "" {
		w.note("whole again", w.key(f.tp))
		w.bereft = nil
		return
	}
	if p, _ := w.meta.state.Image().Partition(f.tp); w.hopeless(f.tp, p) {
		w.run(&errand{what: "force", always: true, command: func(b *broker) (cluster.Command, bool) { return w.electForced(b, f.tp) }})
	}
	w.after(w.between(repairEvery, 2*repairEvery), w.force)
}

// unforced says why the bereft partition is not whole yet, empty for nothing.
func (w *World) unforced() string {
	f := w.bereft
	p, ok := w.meta.state.Image().Partition(f.tp)
	missing := func(id cluster.BrokerID) bool { return slices.Contains(f.taken, id) }
	if !ok || p.Leader != cluster.NoBroker && len(p.ISR) == len(p.Replicas) && len(p.Adding)+len(p.Removing) == 0 && !slices.ContainsFunc(p.Replicas, missing) {
		return ""
	}
	return fmt.Sprintf("%s, whose complete copies were taken from %v, has leader %d in epoch %d, ISR %v, ELR %v of %v: %s", w.named(f.tp), f.taken, p.Leader, p.LeaderEpoch,
		p.ISR, p.ELR, p.Replicas, w.replicas(f.tp, p))
}

// electForced is what a broker does that is asked to force an election, if the operator, who may be asking again, still finds that necessary: it asks the replicas
// what they have.
func (w *World) electForced(b *broker, tp cluster.TopicPartition) (cluster.Command, bool) {
	p, ok := b.image.Partition(tp)
	if now, _ := w.meta.state.Image().Partition(tp); !ok || p.Leader != cluster.NoBroker || now == nil || !w.hopeless(tp, now) {
		return nil, false
	}
	eligible := func(id cluster.BrokerID) bool {
		br, ok := b.image.Broker(id)
		return ok && br.Eligible()
	}
	leader, lossy := placement.Forced(p, eligible, func(id cluster.BrokerID) (placement.Copy, bool) { return w.copyOf(b, w.brokers[id], tp) })
	if leader == cluster.NoBroker {
		return nil, false
	}
	return cluster.ElectLeaders{Changes: []cluster.PartitionChange{{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: leader, Unclean: lossy}}}, true
}

// copyOf is what broker o tells broker b of its replica; false for no answer.
func (w *World) copyOf(b, o *broker, tp cluster.TopicPartition) (placement.Copy, bool) {
	if !o.up || w.now < o.paused || w.net.cut[direction{b.node(), o.node()}] || w.net.cut[direction{o.node(), b.node()}] {
		return placement.Copy{}, false
	}
	r := o.replica(tp)
	if r == nil {
		return placement.Copy{LastEpoch: record.NoEpoch, LogEnd: -1}, true
	}
	return placement.Copy{Works: r.at.Role != partition.RoleOffline, LastEpoch: r.at.LastEpoch, LogEnd: r.at.LogEnd}, true
}
