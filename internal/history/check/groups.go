package check

import (
	"cmp"
	"fmt"
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
	// given is, for each group and partition, the end of what its members were given.
	given map[registerKey]given
	// starts are positions at which a new owner began behind what was given: an anomaly if something is known to be in between.
	starts []start
}

type ownerKey struct {
	registerKey
	generation int32
}

type owner struct {
	member string
	by     origin
}

type given struct {
	next int64
	by   origin
}

type start struct {
	registerKey
	from, to int64
	before   origin
	by       origin
}

func newGroups() groups {
	return groups{
		numbers: map[string]int32{}, of: map[int32]int32{}, registers: map[registerKey]*register{}, owners: map[ownerKey]owner{},
		given: map[registerKey]given{},
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
	group, ok := g.of[client]
	if !ok {
		return
	}
	key := registerKey{group, part}
	if next > g.given[key].next {
		g.given[key] = given{next, by}
	}
}

// assigned takes what a member owns now: it leaves the rest, and begins anew in what it did not have.
func (c *Checker) assigned(client int32, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	group := c.groups.group(e.Group)
	c.groups.of[client] = group
	by := origin{client: client, op: e.Op, time: e.Time}
	owned := map[int32]bool{}
	for i := range e.Records {
		r := &e.Records[i]
		p := c.part(r.Topic, r.Partition)
		if p == nil {
			continue
		}
		owned[p.index] = true
		c.own(p, registerKey{group, p.index}, e, by)
		if r.Offset == history.Kept {
			continue
		}
		c.move(client, p, r.Offset, e.Time)
		c.start(registerKey{group, p.index}, r.Offset, by)
		if reg := c.register(e.Group, r); r.Offset >= 0 && e.Generation > 0 {
			reg.begins = append(reg.begins, begin{e.Time, r.Offset, e.Generation, by})
		}
	}
	var left []sessionKey
	for key := range c.sessions {
		if key.client == client && !owned[key.part] {
			left = append(left, key)
		}
	}
	for _, key := range left {
		c.leave(key)
	}
}

// own holds an owner to the one that the generation has already.
func (c *Checker) own(p *part, key registerKey, e *history.Event, by origin) {
	if e.Generation == 0 {
		return
	}
	c.checked[TwoOwners]++
	member := cmp.Or(e.Member, e.Client)
	k := ownerKey{key, e.Generation}
	before, ok := c.groups.owners[k]
	if !ok {
		c.groups.owners[k] = owner{member, by}
		return
	}
	if before.member == member {
		return
	}
	c.foundAs(TwoOwners, p, -1, subject{group: key.group, more: int64(e.Generation)}, func(a *Anomaly) {
		a.Detail = fmt.Sprintf("group %s, generation %d: both %s and %s own it", e.Group, e.Generation, before.member, member)
		a.Evidence = []Evidence{c.action("assigned", before.by), c.action("assigned", by)}
	})
}

func (c *Checker) action(what string, o origin) Evidence {
	e := c.evidence(o)
	e.What = what
	return e
}

// start notes where a new owner begins, if that is behind what its group was given.
func (c *Checker) start(key registerKey, offset int64, by origin) {
	g, ok := c.groups.given[key]
	if !ok || offset < 0 {
		return
	}
	c.checked[StartSkip]++
	if offset > g.next {
		c.groups.starts = append(c.groups.starts, start{key, g.next, offset, g.by, by})
	}
}

// judgeStarts looks into what was left out between an owner and the next.
func (c *Checker) judgeStarts() {
	for _, s := range c.groups.starts {
		p := c.parts[s.part]
		p.slots.each(max(s.from, p.lowest), s.to, func(offset int64, at *slot) bool {
			if !at.read && !at.acked {
				return true
			}
			c.foundAs(StartSkip, p, offset, subject{offset: offset, group: s.group}, func(a *Anomaly) {
				a.Value = c.text(at.value)
				a.Detail = fmt.Sprintf("group %s: a new owner began at %d, and nobody was given what is from %d on", c.groups.texts[s.group], s.to, s.from)
				a.Evidence = append([]Evidence{c.evidence(s.before), c.action("assigned", s.by), c.saidFirst(at)}, c.sendOf(at.value)...)
			})
			return false
		})
	}
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
}
