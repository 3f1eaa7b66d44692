package check

import (
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// commit begins a commit by a member, of where it is.
func (m *model) commit() {
	c := m.members[m.random.IntN(2)]
	if c.busy || len(c.next) == 0 {
		return
	}
	e := history.Event{Client: c.name, Kind: history.Commit, Group: "g", Member: c.name, Generation: m.generation, Ordered: c.ordered}
	for p := range int32(modelPartitions) {
		if next, ok := c.next[p]; ok {
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: next, Epoch: history.Unknown})
		}
	}
	m.begin(e, func(e *history.Event) {
		if e.Generation != m.generation {
			e.Type = history.Fail
			return
		}
		for _, r := range e.Records {
			m.committed[r.Partition] = r.Offset
		}
	})
}

// seek moves a consumer by hand, now and then to a place that its history does not tell.
func (m *model) seek(c *modelMember, p int32, to int64) {
	_, has := c.next[p]
	if member := slices.Contains(m.members, c); c.busy || member && !has {
		return
	}
	c.next[p] = to
	if m.random.IntN(4) == 0 {
		to = history.Unknown
	}
	m.now(history.Event{Client: c.name, Kind: history.Seek, Records: []history.Record{{Topic: "t", Partition: p, Offset: to, Epoch: history.Unknown}}})
}

// deleteGroup lets both members leave, and begins the deletion of their group. Generations begin anew after it.
func (m *model) deleteGroup() {
	pending := slices.ContainsFunc(m.running, func(r *running) bool {
		return r.event.Kind == history.Commit && r.event.Generation > 0 && r.effect != nil
	})
	if m.members[0].busy || m.members[1].busy || m.deleting || pending {
		return
	}
	m.deleting = true
	for _, c := range m.members {
		c.next = map[int32]int64{}
		m.now(history.Event{Client: c.name, Kind: history.Assign, Group: "g", Member: c.name, Generation: m.generation})
	}
	m.begin(history.Event{Client: "a", Kind: history.Admin, Action: history.DeleteGroup, Group: "g"}, func(*history.Event) {
		clear(m.committed)
		m.generation = 0
		m.deleting = false
	})
	m.last().done = func() { m.deleting = false }
}

// latestReset is a partition of which members begin at the end where nothing is committed. They say so by a seek.
const latestReset = 1

// rebalance deals the partitions to the members, if neither is busy. A member that has a partition may keep it.
func (m *model) rebalance() {
	if m.members[0].busy || m.members[1].busy || m.deleting {
		return
	}
	m.generation++
	owner := make([]int, modelPartitions)
	for p := range owner {
		owner[p] = m.random.IntN(2)
	}
	for i, c := range m.members {
		e := history.Event{Client: c.name, Kind: history.Assign, Group: "g", Member: c.name, Generation: m.generation}
		next := map[int32]int64{}
		var moved []history.Record
		for p := range int32(modelPartitions) {
			if owner[p] != i {
				continue
			}
			r := history.Record{Topic: "t", Partition: p, Offset: history.Kept, Epoch: history.Unknown}
			if at, had := c.next[p]; had {
				next[p] = at
			} else {
				r.Offset, next[p] = m.start(p)
				if _, ok := m.committed[p]; !ok && p == latestReset {
					moved = append(moved, history.Record{Topic: "t", Partition: p, Offset: next[p], Epoch: history.Unknown})
				}
			}
			e.Records = append(e.Records, r)
		}
		c.next = next
		m.now(e)
		if len(moved) > 0 {
			m.now(history.Event{Client: c.name, Kind: history.Seek, Records: moved})
		}
	}
}

// start is where a new owner begins, and what its history tells of that.
func (m *model) start(p int32) (told, start int64) {
	committed, ok := m.committed[p]
	if !ok && p == latestReset {
		return history.Unknown, m.logs[p].high
	}
	start = max(committed, m.logs[p].start)
	if m.random.IntN(3) == 0 {
		return history.Unknown, start
	}
	return start, start
}
