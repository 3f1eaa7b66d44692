package sim

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/record"
)

// groupChecker holds what the metadata log says of the groups, by its own account, and what clients were told (I7).
type groupChecker struct {
	w       *World
	commits []commitRequest // by number; 0 is unused
	groups  map[string]*groupLedger
	// applied counts entries with records of groups.
	applied int
}

// commitRequest is one commit or reset that a client has sent. Its number travels as the metadata of the offsets.
type commitRequest struct {
	in      group.Commit
	refused cluster.Code                   // a refusal that says that nothing was done, CodeNone for none
	offsets map[cluster.TopicPartition]int // versions that it became
	// losses is how many losses of a partition the member had come past that had read so far, where there were some.
	losses map[cluster.TopicPartition]int
}

// groupLedger is one group as the log has it.
type groupLedger struct {
	state   *cluster.GroupState
	highest int32 // epoch so far
	former  []groupLife
	// deleters is how many requests to delete have been carried out, may have been, or are under way.
	deleters int
	// hidden says that a state comes later in the batch: one before it, in which the group was empty, is left out then.
	hidden  bool
	since   map[string]int // members, and with which entry they came
	left    map[string]int // those that were members, and with which entry they went
	offsets map[cluster.TopicPartition]*offsetLedger
}

// groupLife is what a group was until it was deleted: an answer may still be on its way, or be in the same batch.
type groupLife struct {
	ended   int   // with this entry
	highest int32 // epoch
}

// offsetLedger is the history of one committed offset. Version 0 is none.
type offsetLedger struct {
	versions []offsetVersion
	// floor is the newest version that anybody has been told of.
	floor int
}

type offsetVersion struct {
	commit int // number of the request, 0 for none: never committed, or deleted
	offset record.Offset
	atMs   int64 // when it was committed
}

func newGroupChecker(w *World) *groupChecker {
	return &groupChecker{w: w, commits: make([]commitRequest, 1), groups: map[string]*groupLedger{}}
}

func (c *groupChecker) group(name string) *groupLedger {
	l := c.groups[name]
	if l == nil {
		l = &groupLedger{since: map[string]int{}, left: map[string]int{}, offsets: map[cluster.TopicPartition]*offsetLedger{}}
		c.groups[name] = l
	}
	return l
}

func (l *groupLedger) offset(tp cluster.TopicPartition) *offsetLedger {
	o := l.offsets[tp]
	if o == nil {
		o = &offsetLedger{versions: make([]offsetVersion, 1)}
		l.offsets[tp] = o
	}
	return o
}

func (o *offsetLedger) newest() *offsetVersion { return &o.versions[len(o.versions)-1] }

// nextCommit is the number that the next request has.
func (c *groupChecker) nextCommit() int { return len(c.commits) }

// sent notes a commit, of what was read after so many losses.
func (c *groupChecker) sent(in group.Commit, losses map[cluster.TopicPartition]int) {
	c.commits = append(c.commits, commitRequest{in: in, offsets: map[cluster.TopicPartition]int{}, losses: losses})
}

// lossesAt is how many losses of a partition lie behind an offset that was fetched: who goes on there has nothing to be told of them.
func (c *groupChecker) lossesAt(o group.FetchedOffset) int {
	number, _ := strconv.Atoi(o.Committed.Metadata)
	return c.commits[number].losses[o.Partition]
}

// answered notes what a client was told about its commit.
func (c *groupChecker) answered(number int, a groupAnswer) {
	r := &c.commits[number]
	cov := &c.w.cov
	switch {
	case a.lost || a.Code != cluster.CodeNone && !certain(a.Code):
		cov.CommitsUnknown++
	case a.Code != cluster.CodeNone:
		cov.CommitsRefused++
		r.refused = a.Code
		if len(r.offsets) > 0 {
			c.w.check.fail("I7: commit %d of group %s is refused with %s, and in the log", number, r.in.Group, a.Code)
		}
	default:
		cov.CommitsAcknowledged++
		for i, o := range r.in.Offsets {
			version, ok := r.offsets[o.Partition]
			switch {
			case a.Codes[i] != cluster.CodeNone:
			case !ok && c.w.gone(o.Partition):
				// the topic was deleted before the commit came into the log
			case !ok:
				c.w.check.fail("I7: commit %d of group %s for partition %d is acknowledged, and not in the log", number, r.in.Group, o.Partition.Partition)
			default:
				l := c.group(r.in.Group).offset(o.Partition)
				l.floor = max(l.floor, version)
			}
		}
	}
}

// floors is what everybody may know of a group's offsets at present: an answer to what is asked from now on must not be older.
func (c *groupChecker) floors(name string) map[cluster.TopicPartition]int {
	out := map[cluster.TopicPartition]int{}
	for tp, o := range c.group(name).offsets {
		out[tp] = o.floor
	}
	return out
}

// fetched checks an answer to a fetch of offsets.
func (c *groupChecker) fetched(name string, floor map[cluster.TopicPartition]int, got []group.FetchedOffset) {
	l := c.group(name)
	for _, f := range got {
		if c.w.gone(f.Partition) {
			continue
		}
		o := l.offset(f.Partition)
		version := len(o.versions) - 1
		if f.Found {
			number, _ := strconv.Atoi(f.Committed.Metadata)
			var ok bool
			if version, ok = c.commits[number].offsets[f.Partition]; !ok || o.versions[version].offset != f.Committed.Offset {
				c.w.check.fail("I7: a fetch of partition %d of group %s says %d by commit %d, which is not in the log", f.Partition.Partition, name, f.Committed.Offset, number)
				return
			}
		} else {
			for version > floor[f.Partition] && o.versions[version].commit != 0 {
				version--
			}
			if o.versions[version].commit != 0 {
				c.w.check.fail("I7: a fetch of partition %d of group %s says that nothing is committed, %d was", f.Partition.Partition, name, o.versions[version].offset)
				return
			}
		}
		if version < floor[f.Partition] {
			c.w.check.fail("I7: a fetch of partition %d of group %s says %d, before it was asked %d was known to be committed", f.Partition.Partition, name,
				o.versions[version].offset, o.versions[floor[f.Partition]].offset)
			return
		}
		o.floor = max(o.floor, version)
	}
}

// watch looks at the answer to a request of a member: nobody is sent away who is in the log, and has been since before it was asked, and nobody is told
// that it goes on whom the log has not got.
func (c *groupChecker) watch(b *broker, name string, in group.Input, reply func(group.Reply)) func(group.Reply) {
	id, instance := speaker(in)
	before := c.applied
	return func(r group.Reply) {
		since, known := c.group(name).since[id]
		if id != "" && known && since <= before && (r.Code == cluster.CodeUnknownMember || r.Code == cluster.CodeFencedInstance) {
			c.w.check.fail("case 148: broker %d tells member %s (%s) of group %s: %s; the log has it", b.id, id, instance, name, r.Code)
		}
		if id != "" && !known && c.group(name).left[id] <= before && r.Code == cluster.CodeNone && keepsUp(in) {
			c.w.check.fail("I7: broker %d tells member %s (%s) of group %s that it goes on; the log has not got it: %+v", b.id, id, instance, name, c.group(name).state)
		}
		reply(r)
	}
}

// keepsUp reports whether a request asks for nothing but to stay in the group.
func keepsUp(in group.Input) bool {
	switch in.(type) {
	case group.Heartbeat, group.ClassicHeartbeat:
		return true
	}
	return false
}

// speaker is the member that an input speaks for.
func speaker(in group.Input) (id, instance string) {
	switch in := in.(type) {
	case group.Heartbeat:
		if in.Epoch > 0 {
			return in.MemberID, in.InstanceID
		}
	case group.Commit:
		return in.MemberID, in.InstanceID
	case group.ClassicHeartbeat:
		return in.MemberID, in.InstanceID
	case group.Sync:
		return in.MemberID, in.InstanceID
	}
	return "", ""
}

// removed takes note that a member was removed without having asked for it.
func (c *groupChecker) removed(s *groupShell, r coordinator.Removed) {
	c.w.note("removed "+r.Reason, int64(s.b.id))
	if l := c.group(r.Group); l.since[r.Member] > 0 {
		l.since[r.Member] = c.applied // it is there again, by a later record of the same batch
	}
	who := coordinator.Watched{Group: r.Group, Member: r.Member}
	if r.Reason == group.ReasonSession {
		c.w.cov.SessionsEnded++
		if after, ok := s.suspect[who]; ok {
			c.w.check.fail("case 148: broker %d removes member %s of group %s %s after it heard of it or took over; its session is %s", s.b.id, r.Member, r.Group,
				after, c.sessionOf(r.Group))
		}
	}
	delete(s.suspect, who)
}

// ticked notes members that were removed before they had the time of a session with this coordinator. It is wrong if that was for their silence.
func (c *groupChecker) ticked(s *groupShell, now time.Duration, before, after []coordinator.Watched) {
	for _, m := range before {
		since := max(s.served[cluster.ShardOf(m.Group)], s.heard[m])
		if !slices.Contains(after, m) && now-since < c.sessionOf(m.Group) {
			s.suspect[m] = now - since
		}
	}
}

// log takes an entry of the metadata log.
func (c *groupChecker) log(cmd cluster.Command, res cluster.Result, before *cluster.Image) {
	switch cmd := cmd.(type) {
	case cluster.GroupAppend:
		for i := range cmd.Batches {
			if res.Code == cluster.CodeNone && res.Items[i].Code == cluster.CodeNone {
				c.batch(cmd.Batches[i].Records, before, cmd.NowMs)
			}
		}
	case cluster.DeleteTopic:
		if res.Code == cluster.CodeNone {
			c.topicDeleted(before)
		}
	}
}

// topicDeleted drops the offsets of topics that are gone, and checks that the log has done the same in the same step (case 90).
func (c *groupChecker) topicDeleted(*cluster.Image) {
	view := c.w.meta.state.Groups()
	for name, l := range c.groups { // the order does not matter
		for tp, o := range l.offsets {
			if _, ok := c.w.meta.state.Image().Topic(tp.Topic); ok {
				continue
			}
			if o.newest().commit != 0 {
				o.versions = append(o.versions, offsetVersion{})
			}
			if found, ok := view.Offset(name, tp); ok {
				c.w.check.fail("case 90: a topic is deleted, group %s has %d committed of its partition %d", name, found.Offset, tp.Partition)
			}
		}
	}
}

// batch takes the records of one accepted batch.
func (c *groupChecker) batch(records []cluster.GroupRecord, image *cluster.Image, nowMs int64) {
	c.applied++
	view := c.w.meta.state.Groups()
	for i, rec := range records {
		l := c.group(rec.GroupID())
		l.hidden = slices.ContainsFunc(records[i+1:], func(next cluster.GroupRecord) bool {
			state, ok := next.(cluster.GroupState)
			return ok && state.Group == rec.GroupID()
		})
		switch r := rec.(type) {
		case cluster.GroupState:
			c.state(l, r)
		case cluster.GroupDeleted:
			c.deleted(l, r, nowMs)
		case cluster.OffsetCommitted:
			if topic, ok := image.Topic(r.Partition.Topic); ok && r.Partition.Partition < topic.Partitions {
				c.committed(l, r)
			}
		case cluster.OffsetDeleted:
			o := l.offset(r.Partition)
			c.goes(r.Group, l, o, nowMs)
			o.versions = append(o.versions, offsetVersion{})
		}
	}
	for _, rec := range records {
		if r, ok := rec.(cluster.OffsetCommitted); ok {
			want := c.group(r.Group).offset(r.Partition).newest()
			if has, ok := view.Offset(r.Group, r.Partition); ok != (want.commit != 0) || ok && has.Offset != want.offset {
				c.w.check.fail("I7: the log has %d committed of partition %d of group %s, it should be %d", has.Offset, r.Partition.Partition, r.Group, want.offset)
			}
		}
	}
}

// committed takes a committed offset: it must be what a client has sent, once, and not been told to have failed, in the place that it had in the
// group then, and it goes forward, unless records were lost: who was told goes back, at most to where they were.
func (c *groupChecker) committed(l *groupLedger, r cluster.OffsetCommitted) {
	number, _ := strconv.Atoi(r.Committed.Metadata)
	if number <= 0 || number >= len(c.commits) {
		c.w.check.fail("I7: the log has an offset of group %s that nobody committed: %+v", r.Group, r.Committed)
		return
	}
	req := &c.commits[number]
	o := l.offset(r.Partition)
	where := slices.IndexFunc(req.in.Offsets, func(x group.CommitOffset) bool { return x.Partition == r.Partition })
	_, twice := req.offsets[r.Partition]
	switch {
	case req.in.Group != r.Group || where < 0 || record.Offset(req.in.Offsets[where].Offset) != r.Committed.Offset:
		c.w.check.fail("I7: the log has %d for partition %d of group %s by commit %d, which says something else", r.Committed.Offset, r.Partition.Partition, r.Group, number)
	case twice:
		c.w.check.fail("case 147: commit %d of group %s is in the log twice", number, r.Group)
	case req.refused != cluster.CodeNone:
		c.w.check.fail("case 79: commit %d of group %s was refused with %s, and comes into the log", number, r.Group, req.refused)
	case !l.admits(req):
		c.w.check.fail("case 79: commit %d of group %s is accepted for member %q at epoch %d; the group is %+v", number, r.Group, req.in.MemberID, req.in.Epoch, l.state)
	case req.in.MemberID != "" && r.Committed.Offset < o.newest().offset && r.Committed.Offset < c.w.check.ledgers[r.Partition].cutSince(0):
		c.w.check.fail("case 89: commit %d of group %s moves partition %d from %d back to %d", number, r.Group, r.Partition.Partition, o.newest().offset, r.Committed.Offset)
	}
	o.versions = append(o.versions, offsetVersion{commit: number, offset: r.Committed.Offset, atMs: r.Committed.CommittedMs})
	req.offsets[r.Partition] = len(o.versions) - 1
}

// admits reports whether the group takes a commit in the state that it has in the log.
func (l *groupLedger) admits(req *commitRequest) bool {
	if req.in.MemberID == "" {
		return l.hidden || l.state == nil || len(l.state.Members) == 0
	}
	if l.state == nil {
		return false
	}
	i := slices.IndexFunc(l.state.Members, func(m cluster.GroupMember) bool { return m.ID == req.in.MemberID })
	switch {
	case i < 0:
		return false
	case l.state.Type == cluster.GroupClassic:
		return l.state.Epoch == req.in.Epoch
	}
	return l.state.Members[i].Epoch == req.in.Epoch
}

func (c *groupChecker) deleted(l *groupLedger, r cluster.GroupDeleted, nowMs int64) {
	if l.state != nil && len(l.state.Members) > 0 && !l.hidden {
		c.w.check.fail("case 90: group %s is deleted with %d members", r.Group, len(l.state.Members))
	}
	for _, o := range l.offsets { // the order does not matter
		if o.newest().commit != 0 {
			c.goes(r.Group, l, o, nowMs)
			o.versions = append(o.versions, offsetVersion{})
		}
	}
	c.w.note("group deleted", int64(l.highest))
	life := groupLife{ended: c.applied, highest: l.highest}
	if l.hidden {
		life.highest = math.MaxInt32 // its last states are left out
	}
	l.former = append(l.former, life)
	l.state, l.highest = nil, 0
	l.gone(nil, c.applied)
	l.since = map[string]int{}
}
