package sim

import (
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
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
	l.since, l.state = since, &now
	if now.Type == cluster.GroupNative {
		c.native(&now)
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
	for _, sg := range c.w.groups.list {
		if sg.name != now.Group {
			continue
		}
		for _, m := range sg.members {
			at := slices.IndexFunc(now.Members, func(x cluster.GroupMember) bool { return x.ID == m.id })
			if at < 0 || !m.up {
				continue
			}
			for _, h := range m.owned {
				if owners[h.tp] != m.id {
					c.w.check.fail("case 81: member %s of group %s reads partition %d, which it gave up: it is of %q", m.id, now.Group, h.tp.Partition, owners[h.tp])
				}
			}
		}
	}
}

func (c *groupChecker) sessionOf(name string) time.Duration {
	for _, sg := range c.w.groups.list {
		if sg.name == name {
			return sg.session
		}
	}
	return 0
}
