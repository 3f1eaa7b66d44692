package sim

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/segment"
)

// What package partition's Manager does around its Planner: the decision is the product's own.

// Has implements partition.Local.
func (b *broker) Has(tp cluster.TopicPartition) bool {
	return b.replica(tp) != nil || slices.Contains(b.damaged, tp) || slices.Contains(b.noRoom, tp) || b.Lost(tp)
}

// Lost implements partition.Local.
func (b *broker) Lost(tp cluster.TopicPartition) bool { return slices.Contains(b.lost, tp) }

// Sorted implements partition.Local.
func (b *broker) Sorted() []cluster.TopicPartition {
	all := slices.Concat(b.damaged, b.noRoom, b.lost)
	for _, r := range b.parts {
		all = append(all, r.tp)
	}
	slices.SortFunc(all, cluster.TopicPartition.Compare)
	return all
}

// recoverAll opens every log that the disk holds. What is damaged, missing or doubtful is reported at the registration.
func (b *broker) recoverAll() {
	found, report, err := b.opener.Scan()
	b.w.check.must(err)
	b.w.check.returns(b)
	b.lost, b.suspect = report.Missing, slices.Clone(report.Missing)
	for _, tp := range b.lost {
		b.w.check.missing(b, tp)
	}
	for _, f := range found {
		s, err := b.opener.Open(f.Partition, f.Identity)
		r := b.adopt(f.Partition, s, err)
		if r == nil {
			if b.broken(f.Partition, err); !partition.FromDisk(err) {
				b.suspect, b.rotten = append(b.suspect, f.Partition), append(b.rotten, f.Partition)
			}
			continue
		}
		if r.Report.Doubtful {
			b.w.cov.DoubtfulEnds++
			b.suspect = append(b.suspect, f.Partition)
		}
	}
}

// adopt takes in an opened replica; nil when its log could not be opened.
func (b *broker) adopt(tp cluster.TopicPartition, s *partition.Standalone, err error) *replica {
	if err != nil {
		b.w.check.damaged(b, tp, err)
		return nil
	}
	b.w.begunAnew(b, tp)
	r := &replica{b: b, tp: tp, Standalone: s}
	s.OnDamage(func(d *segment.DamageError) { r.post(func() { r.Damaged(d) }) })
	r.at = s.Status()
	r.seen = int64(r.at.LogStart)
	b.w.check.recovered(r)
	b.parts = append(b.parts, r)
	slices.SortFunc(b.parts, func(a, c *replica) int { return a.tp.Compare(c.tp) })
	r.maintainLater()
	for _, head := range b.early.Take(tp) {
		r.post(func() { r.NoteRefused(head) })
	}
	return r
}

// reconcile makes the local replicas what the metadata says. Removing and parking wait for flushes that are under way; newer metadata waits for them.
func (b *broker) reconcile(image *cluster.Image, self cluster.BrokerEpoch) {
	if b.reconciling {
		return // it looks again when it is done
	}
	plan := b.planner.Next(image, self, b)
	if plan == nil {
		return
	}
	var leaving []*replica
	for _, t := range plan.Remove {
		if r := b.replica(t.Partition); r != nil {
			leaving = append(leaving, r)
		}
	}
	for _, tp := range plan.Park {
		if r := b.replica(tp); r != nil {
			leaving = append(leaving, r)
		}
	}
	for _, r := range leaving {
		r.halt()
	}
	b.reconciling, b.planned = true, image
	b.carryOut(plan, image, leaving)
}

// carryOut does what is planned once nobody who leaves is flushing.
func (b *broker) carryOut(plan *partition.Plan, image *cluster.Image, leaving []*replica) {
	if slices.ContainsFunc(leaving, func(r *replica) bool { return !r.atRest() }) {
		b.later(flushPoll, func() { b.carryOut(plan, image, leaving) })
		return
	}
	gone := slices.DeleteFunc(slices.Clone(plan.Remove), func(t cluster.Tombstone) bool { return !b.remove(t.Partition) })
	if len(gone) > 0 {
		b.Removed(gone)
	}
	for _, tp := range plan.Park {
		b.park(tp)
	}
	for _, tp := range plan.Tell {
		if r := b.replica(tp); r != nil {
			r.inform(image)
		}
	}
	for _, tp := range plan.Create {
		b.create(tp, image)
	}
	for _, tp := range plan.Report {
		b.Offline(tp, partition.ErrMissing)
	}
	b.reconciling = false
	if image != b.image {
		b.learn(b.image)
		return
	}
	b.acted(image)
}

// acted notes that the broker has done what the metadata asks for, once every replica has taken the turn that was waiting for it.
func (b *broker) acted(image *cluster.Image) {
	if slices.ContainsFunc(b.parts, func(r *replica) bool { return r.turning }) {
		b.later(flushPoll, func() { b.acted(image) })
		return
	}
	b.handled = max(b.handled, image.Index())
	b.takeLease()
}

// create opens or creates a replica that the metadata places here.
func (b *broker) create(tp cluster.TopicPartition, image *cluster.Image) {
	b.found(tp)
	s, err := b.opener.Create(tp, image)
	r := b.adopt(tp, s, err)
	switch {
	case r != nil:
		r.inform(image)
	case segment.Full(err):
		b.w.note("no room", int64(b.id), b.w.key(tp))
		b.reportOffline(tp)
	default:
		b.Offline(tp, errDisk)
	}
	if r == nil {
		b.broken(tp, err)
	}
}

// broken notes a replica that could not be opened.
func (b *broker) broken(tp cluster.TopicPartition, err error) {
	if segment.Full(err) {
		b.noRoom = append(b.noRoom, tp)
		return
	}
	b.damaged = append(b.damaged, tp)
}

// tryRoom opens again, now and then, what the disk was too full for, as Manager.Retry does.
func (b *broker) tryRoom() {
	b.later(roomRetry, b.tryRoom)
	if b.reconciling || b.planned == nil {
		return // nothing is opened before the metadata has spoken
	}
	for _, tp := range slices.Clone(b.noRoom) {
		s, err := b.opener.Create(tp, b.planned)
		if segment.Full(err) {
			return
		}
		b.noRoom = without(b.noRoom, tp)
		if err == nil && s.Report.Doubtful && !slices.Contains(b.suspect, tp) {
			s.Abandon() // nobody was told: the next start does that
			b.Offline(tp, errDisk)
			b.damaged = append(b.damaged, tp)
			continue
		}
		if r := b.adopt(tp, s, err); r != nil {
			b.w.cov.RoomFound++
			b.Online(tp)
			r.inform(b.planned)
			continue
		}
		b.Offline(tp, errDisk)
		b.broken(tp, err)
	}
}

// remove deletes the files of a replica for which there is a tombstone; false when the disk does not let it, which leaves it for the next start.
func (b *broker) remove(tp cluster.TopicPartition) bool {
	b.w.cov.ReplicasRemoved++
	b.w.note("removed", int64(b.id), b.w.key(tp))
	r := b.replica(tp)
	if r != nil {
		err := r.Remove()
		b.w.check.closed(b, err)
		b.forget(r)
		if err != nil {
			b.damaged = append(b.damaged, tp)
			return false
		}
	}
	b.dropped(tp, r)
	b.found(tp)
	delete(b.w.check.down, place{b.id, tp})
	delete(b.w.check.left, place{b.id, tp})
	err := b.opener.Remove(tp)
	b.w.check.closed(b, err)
	return err == nil
}

// park closes a replica that the metadata does not know, and keeps its files (case 149).
func (b *broker) park(tp cluster.TopicPartition) {
	b.w.cov.ReplicasParked++
	b.w.note("parked", int64(b.id), b.w.key(tp))
	r := b.replica(tp)
	if r != nil {
		b.w.check.closed(b, r.Close())
		b.forget(r)
	}
	b.dropped(tp, r)
	if b.Lost(tp) {
		b.found(tp)
		b.opener.Forget(tp)
	}
}

// dropped forgets a replica that is not here any more, nil for one that was never opened, as Manager.drop does.
func (b *broker) dropped(tp cluster.TopicPartition, r *replica) {
	b.damaged, b.rotten, b.noRoom = without(b.damaged, tp), without(b.rotten, tp), without(b.noRoom, tp)
	if r == nil || r.at.Role == partition.RoleOffline {
		b.Online(tp)
	}
}

// found ends the search for a directory that is missing.
func (b *broker) found(tp cluster.TopicPartition) {
	b.lost = without(b.lost, tp)
}

func (b *broker) forget(gone *replica) {
	gone.closed = true
	b.parts = slices.DeleteFunc(b.parts, func(r *replica) bool { return r == gone })
}

// Removed implements partition.Outputs: the controller is told, and told again while the metadata has the tombstones.
func (b *broker) Removed(tombstones []cluster.Tombstone) {
	if len(tombstones) == 0 {
		return
	}
	tombstones = slices.Clone(tombstones)
	cmd := cluster.ConfirmRemoved{Tombstones: tombstones}
	b.w.net.send(b.node(), controllerNode, func() { b.w.meta.propose(cmd, nil) })
	b.later(confirmRetry, func() {
		b.Removed(slices.DeleteFunc(slices.Clone(tombstones), func(t cluster.Tombstone) bool { return !b.image.HasTombstone(t) }))
	})
}

// Parked implements partition.Outputs. Only a Manager calls it.
func (b *broker) Parked([]string) {}
