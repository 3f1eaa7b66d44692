package sim

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// state takes the new state of a group.
func (c *groupChecker) state(l *groupLedger, now cluster.GroupState) {
	c.w.note("group", int64(now.Epoch), int64(len(now.Members)))
	if l.state != nil && l.state.Type != cluster.GroupNone && now.Epoch < l.state.Epoch {
		c.w.check.fail("I7: the epoch of group %s falls from %d to %d", now.Group, l.state.Epoch, now.Epoch)
	}
	if l.state == nil || now.Epoch > l.state.Epoch {
		c.w.cov.Generations++
	}
	since := map[string]int{}
	for i := range now.Members {
		id := now.Members[i].ID
		since[id] = c.applied
		if was, ok := l.since[id]; ok {
			since[id] = was
		}
	}
	was := l.state
	l.gone(since, c.applied)
	l.since, l.state, l.highest = since, &now, max(l.highest, now.Epoch)
	switch now.Type {
	case cluster.GroupNative:
		c.native(&now)
	case cluster.GroupClassic:
		c.classic(was, &now)
	}
}

// gone notes the members that an entry takes away.
func (l *groupLedger) gone(now map[string]int, entry int) {
	for id := range l.since { // the order does not matter
		if _, ok := now[id]; !ok {
			l.left[id] = entry
		}
	}
}

// told checks that an epoch that a member hears of is in the log. What it asked came to the coordinator after entry asked: a group that was deleted
// since then counts too.
func (c *groupChecker) told(name string, asked int, epoch int32) {
	l := c.group(name)
	for _, life := range l.former {
		if life.ended > asked && epoch <= life.highest {
			return
		}
	}
	if epoch > l.highest {
		c.w.check.fail("I7: a member of group %s is told of epoch %d, the log has had %d", name, epoch, l.highest)
	}
}

// joined checks the answer to a join that was sent after entry asked.
func (c *groupChecker) joined(m *classicMember, asked int, j *group.JoinReply) {
	if !j.MemberIDRequired {
		c.told(m.group.name, asked, j.Generation)
	}
}

// synced checks what a member is given against the log.
func (c *groupChecker) synced(m *classicMember, mine []cluster.TopicPartition) {
	state := c.group(m.group.name).state
	if state == nil || state.Epoch != m.generation {
		return
	}
	for i := range state.Members {
		if x := &state.Members[i]; x.ID == m.id && !slices.Equal(decodePartitions(x.Assignment), mine) {
			c.w.check.fail("case 81: member %s of group %s is given %v in generation %d, in the log it has %v", m.id, m.group.name, mine, m.generation, decodePartitions(x.Assignment))
		}
	}
}

// classic checks that within a generation nothing that was given changes its owner, and that no two have the same, as the log tells it and as the
// members do. A static member that is away keeps its place without giving anything up, so its own account does not count.
func (c *groupChecker) classic(was, now *cluster.GroupState) {
	owners := map[cluster.TopicPartition]string{}
	for i := range now.Members {
		m := &now.Members[i]
		if m.Epoch != now.Epoch {
			return // not assigned yet
		}
		for _, tp := range decodePartitions(m.Assignment) {
			if other, ok := owners[tp]; ok {
				c.w.check.fail("case 81: partition %d belongs to %s and to %s of group %s in generation %d", tp.Partition, other, m.ID, now.Group, now.Epoch)
			}
			owners[tp] = m.ID
		}
		if was == nil || was.Epoch != now.Epoch {
			continue
		}
		for k := range was.Members {
			before := &was.Members[k]
			same := before.ID == m.ID || m.InstanceID != "" && before.InstanceID == m.InstanceID
			if same && before.Epoch == was.Epoch && !slices.Equal(before.Assignment, m.Assignment) {
				c.w.check.fail("case 81: in generation %d of group %s member %s had %v, and now has %v", now.Epoch, now.Group, m.ID, decodePartitions(before.Assignment),
					decodePartitions(m.Assignment))
			}
		}
	}
	c.reading(now, owners, func(m *member, tp cluster.TopicPartition) bool {
		return m.instance == "" && owners[tp] != "" && owners[tp] != m.id
	})
}

// reading looks at what the members of a group read by their own account; bad says whether one must not.
func (c *groupChecker) reading(now *cluster.GroupState, owners map[cluster.TopicPartition]string, bad func(*member, cluster.TopicPartition) bool) {
	for _, sg := range c.w.groups.list {
		if sg.name != now.Group {
			continue
		}
		for _, m := range sg.members {
			if !m.up || !slices.ContainsFunc(now.Members, func(x cluster.GroupMember) bool { return x.ID == m.id }) {
				continue
			}
			for _, h := range m.owned {
				if bad(m, h.tp) {
					c.w.check.fail("case 81: member %s of group %s reads partition %d, which it gave up: it is of %q", m.id, now.Group, h.tp.Partition, owners[h.tp])
				}
			}
		}
	}
}

// native checks that nobody is given what another one has, as the log tells it and as the members themselves do.
func (c *groupChecker) native(now *cluster.GroupState) {
	owners := map[cluster.TopicPartition]string{}
	for i := range now.Members {
		m := &now.Members[i]
		if m.Epoch > now.Epoch {
			c.w.check.fail("I7: member %s of group %s is at epoch %d, the group at %d", m.ID, now.Group, m.Epoch, now.Epoch)
		}
		for _, tp := range slices.Concat(m.Assigned, m.Revoking) {
			if other, ok := owners[tp]; ok {
				c.w.check.fail("case 81: partition %d belongs to %s and to %s of group %s", tp.Partition, other, m.ID, now.Group)
			}
			owners[tp] = m.ID
		}
	}
	c.reading(now, owners, func(m *member, tp cluster.TopicPartition) bool { return owners[tp] != m.id })
}

func (c *groupChecker) sessionOf(name string) time.Duration {
	for _, sg := range c.w.groups.list {
		if sg.name == name {
			return sg.session
		}
	}
	return 0
}
