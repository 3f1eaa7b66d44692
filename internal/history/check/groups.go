package check

import (
	"cmp"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// groups is what is known of consumer groups.
type groups struct {
	numbers   map[string]int32
	texts     []string
	of        map[int32]int32 // by client: its group
	registers map[registerKey]*register
	owners    map[ownerKey]owner
	tenures   map[tenureKey]tenure
	// returns are members that say that they kept what they may have lost.
	returns []tenure
	// given is, for each group and partition, the end of what its members were given, or where the first of them began.
	given map[registerKey]given
	// parts are, by group, the partitions that it has a register for or was given something of.
	parts  map[int32]map[int32]bool
	lives  map[int32]*life
	told   map[toldKey]*told
	series map[seriesKey]int32
	// starts are positions at which a new owner began behind where its group was: an anomaly if something is known to be in between.
	starts []start
}

type given struct {
	next  int64
	by    origin
	drift drift
}

// drift says what is known of where a group is, after its member has moved by hand to a place that is not known.
type drift uint8

const (
	anchored drift = iota
	adrift         // the next record that it is given tells
	lost           // it moved on from there, and may have committed it: only a new owner's beginning tells
)

type start struct {
	registerKey
	from, to int64
	before   origin
	by       origin
}

func newGroups() groups {
	return groups{
		numbers: map[string]int32{}, of: map[int32]int32{}, registers: map[registerKey]*register{}, owners: map[ownerKey]owner{}, tenures: map[tenureKey]tenure{},
		given: map[registerKey]given{}, parts: map[int32]map[int32]bool{}, lives: map[int32]*life{}, told: map[toldKey]*told{}, series: map[seriesKey]int32{},
	}
}

func (g *groups) group(name string) int32 {
	i, ok := g.numbers[name]
	if !ok {
		i = int32(len(g.texts))
		g.numbers[name] = i
		g.texts = append(g.texts, name)
	}
	return i
}

// processed notes that a client was given the records below next. A client without a group is not a member of one.
func (g *groups) processed(client, part int32, next int64, by origin) {
	if group, ok := g.of[client]; ok {
		key := registerKey{group, part}
		after := anchored
		if g.given[key].drift == lost {
			after = lost
		}
		g.reached(key, next, by, after)
	}
}

// reached notes where a group is. What it was given once stays so.
func (g *groups) reached(key registerKey, next int64, by origin, after drift) {
	at, ok := g.given[key]
	if !ok {
		g.concerns(key)
	}
	if !ok || next > at.next {
		at.next, at.by = next, by
	}
	at.drift = after
	g.given[key] = at
}

// concerns notes that a group has to do with a partition.
func (g *groups) concerns(key registerKey) {
	if g.parts[key.group] == nil {
		g.parts[key.group] = map[int32]bool{}
	}
	g.parts[key.group][key.part] = true
}

// skipped notes that a member has moved by itself: what is below its new position is given up.
func (g *groups) skipped(client, part int32, offset int64, by origin) {
	group, ok := g.of[client]
	if !ok {
		return
	}
	key := registerKey{group, part}
	after := anchored
	switch {
	case g.given[key].drift != anchored:
		after = lost
	case offset < 0:
		after = adrift
	}
	g.reached(key, max(offset, 0), by, after)
}

// assigned takes what a member owns now: it leaves the rest, and begins anew in what it did not have. Where its group may have been deleted since the operation began, it may belong
// to what was before.
func (c *Checker) assigned(client int32, op *operation, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	group := c.groups.group(e.Group)
	c.groups.of[client] = group
	c.groups.tell(client, op, e)
	began := beganAt(op, e)
	life := c.groups.life(group)
	whole := life.whole(began)
	by := origin{client: client, op: e.Op, time: e.Time, what: byAssign}
	owned := map[int32]bool{}
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil {
			continue
		}
		key := registerKey{group, p.index}
		owned[p.index] = true
		c.own(p, key, e, r.Offset == history.Kept, whole, by)
		if r.Offset == history.Kept {
			continue
		}
		session := c.move(client, p, r.Offset, e.Time)
		if whole {
			session.taken = r.Offset < 0
			c.start(key, r.Offset, began, by)
		}
		if reg := c.register(e.Group, r); r.Offset >= 0 && e.Generation > 0 && !life.overtook(began) {
			reg.begins = append(reg.begins, begin{e.Time, r.Offset, e.Generation, by})
		}
	}
	var left []int32
	for part := range c.sessions[client] {
		if !owned[part] {
			left = append(left, part)
		}
	}
	for _, part := range left {
		c.leave(client, part)
	}
}

func (c *Checker) action(what string, o origin) Evidence {
	e := c.evidence(o)
	e.What = what
	return e
}

// start takes where a new owner begins that was assigned the partition at a time, and notes it if that is behind where its group was: what is in between is not given to anybody any
// more. The next owner is held to this one.
func (c *Checker) start(key registerKey, offset, assigned int64, by origin) {
	if offset < 0 || c.parts[key.part].topic.gone() {
		return
	}
	if g, ok := c.groups.given[key]; ok && g.drift == anchored && c.groups.life(key.group).whole(assigned) {
		c.checked[StartSkip]++
		if offset > g.next {
			c.groups.starts = append(c.groups.starts, start{key, g.next, offset, g.by, by})
		}
	}
	c.groups.reached(key, offset, by, anchored)
}

// judgeGroups judges every committed offset, in the order of groups and partitions.
func (c *Checker) judgeGroups() {
	keys := make([]registerKey, 0, len(c.groups.registers))
	for key := range c.groups.registers {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b registerKey) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.part, b.part)) })
	for _, key := range keys {
		c.judgeRegister(key, c.groups.registers[key])
	}
	c.judgeStarts()
	c.judgeReturns()
}
