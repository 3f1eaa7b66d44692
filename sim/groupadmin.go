package sim

import (
	"strconv"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/record"
)

// groupAdmin is somebody who resets and deletes offsets and groups, and commits for nobody. Mostly the group has members and refuses.
type groupAdmin struct{ groupClient }

// act does one thing and thinks about the next.
func (a *groupAdmin) act() {
	w := a.w
	if !w.faults {
		return
	}
	again := func() { a.later(w.between(20*time.Millisecond, 600*time.Millisecond), a.act) }
	switch roll := w.rng.IntN(100); {
	case roll < 40:
		a.overwrite(again)
	case roll < 70:
		a.deleteOffsets(again)
	default:
		a.deleteGroup(again)
	}
}

// overwrite resets offsets, or commits them for nobody: somewhere between the beginning and where the group was.
func (a *groupAdmin) overwrite(done func()) {
	w, check := a.w, a.w.groups.check
	number := check.nextCommit()
	var offsets []group.CommitOffset
	for _, tp := range w.live() {
		at := check.group(a.group.name).offset(tp).newest().offset
		if at > 0 && w.chance(700) {
			offsets = append(offsets, group.CommitOffset{Partition: tp, Offset: w.rng.Int64N(int64(at) + 1), LeaderEpoch: int32(record.NoEpoch), Metadata: strconv.Itoa(number)})
		}
	}
	if len(offsets) == 0 {
		done()
		return
	}
	commit := group.Commit{Group: a.group.name, Epoch: group.NoMemberEpoch, Offsets: offsets}
	check.sent(commit, nil)
	var in group.Input = commit
	if w.chance(600) {
		in = group.Reset{Group: a.group.name, Offsets: offsets}
	}
	a.ask(in, groupTimeout, func(r groupAnswer) {
		check.answered(number, r)
		if !r.lost && r.Code == cluster.CodeNone {
			w.cov.Resets++
		}
		a.refresh()
		done()
	})
}

// deleteOffsets removes single offsets.
func (a *groupAdmin) deleteOffsets(done func()) {
	w, check := a.w, a.w.groups.check
	in := group.DeleteOffsets{Group: a.group.name}
	for _, tp := range w.live() {
		if w.chance(600) {
			in.Partitions = append(in.Partitions, tp)
		}
	}
	floor := check.floors(a.group.name)
	deletions := check.deleting(a.group.name)
	a.ask(in, groupTimeout, func(r groupAnswer) {
		if !r.lost && certain(r.Code) {
			deletions.answered(r.Code == cluster.CodeNone)
		}
		if !r.lost && r.Code == cluster.CodeNone {
			for i, tp := range in.Partitions {
				if r.Codes[i] == cluster.CodeNone {
					w.cov.OffsetsDeleted++
					check.absent(a.group.name, tp, floor[tp])
				}
			}
		}
		a.refresh()
		done()
	})
}

// deleteGroup removes the group.
func (a *groupAdmin) deleteGroup(done func()) {
	w, check := a.w, a.w.groups.check
	floor := check.floors(a.group.name)
	deletions := check.deleting(a.group.name)
	a.ask(group.Delete{Group: a.group.name}, groupTimeout, func(r groupAnswer) {
		if !r.lost && certain(r.Code) {
			deletions.answered(r.Code == cluster.CodeNone)
		}
		if !r.lost && r.Code == cluster.CodeNone {
			w.cov.GroupsDeleted++
			for _, tp := range w.live() {
				check.absent(a.group.name, tp, floor[tp])
			}
		}
		a.refresh()
		done()
	})
}

// deletion is one request to delete that is under way: it may explain that an offset goes.
type deletion struct{ ledger *groupLedger }

// deleting notes that somebody asks for a deletion.
func (c *groupChecker) deleting(name string) deletion {
	l := c.group(name)
	l.deleters++
	return deletion{l}
}

// answered notes how it ended. One that was carried out, or may have been, explains what it did for good.
func (d deletion) answered(done bool) {
	if !done {
		d.ledger.deleters--
	}
}

// absent checks that an offset that is said to be deleted is, or was after a version.
func (c *groupChecker) absent(name string, tp cluster.TopicPartition, floor int) {
	o := c.group(name).offset(tp)
	for version := len(o.versions) - 1; version >= floor; version-- {
		if o.versions[version].commit == 0 {
			o.floor = max(o.floor, version)
			return
		}
	}
	c.w.check.fail("I7: the offset of group %s in partition %d is said to be deleted, and was there all the time", name, tp.Partition)
}

// goes checks that an offset goes because somebody asked for it, or because it has expired: the group has had no members, and the offset has not been
// touched, for the time that offsets are kept (case 85).
func (c *groupChecker) goes(name string, l *groupLedger, o *offsetLedger, nowMs int64) {
	if l.deleters > 0 || o.newest().commit == 0 {
		return
	}
	c.w.cov.OffsetsExpired++
	since := o.newest().atMs
	if l.state != nil {
		since = max(since, l.state.EmptySinceMs)
	}
	if l.state != nil && len(l.state.Members) > 0 && !l.hidden || nowMs-since < c.w.groups.retention.Milliseconds() {
		c.w.check.fail("case 85: an offset of group %s goes after %d ms, nobody has asked for that; offsets are kept for %s; the group is %+v", name, nowMs-since,
			c.w.groups.retention, l.state)
	}
}
