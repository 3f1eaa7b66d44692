package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

type ownerKey struct {
	registerKey
	generation int32
	life       int32 // life.number
}

type owner struct {
	member string
	by     origin
}

// tenure is that a member owns a partition, and, where it says that it kept it, since which generation without a break.
type tenure struct {
	registerKey
	member     string
	life       int32 // life.number
	generation int32 // 0: not known
	by         origin
	since      int32
	first      origin // of the assignment of since
}

type tenureKey struct {
	registerKey
	member string
}

// own holds an owner to the one that the generation has already. If its group is not whole, which generation that is is not known.
func (c *Checker) own(p *part, key registerKey, e *history.Event, kept, whole bool, by origin) {
	member := cmp.Or(e.Member, e.Client)
	life := c.groups.life(key.group).number
	generation := e.Generation
	if !whole {
		generation = 0
	}
	c.hold(key, tenure{member: member, life: life, generation: generation, by: by}, kept)
	if generation == 0 {
		return
	}
	c.checked[TwoOwners]++
	k := ownerKey{key, e.Generation, life}
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

// hold takes that a member owns a partition. If it kept it, nobody else may have owned it since it was last said to own it; that is judged at the end, when all owners are known.
func (c *Checker) hold(key registerKey, t tenure, kept bool) {
	t.registerKey = key
	k := tenureKey{key, t.member}
	before := c.groups.tenures[k]
	if kept && before.generation > 0 && before.life == t.life && t.generation > before.generation+1 {
		t.since, t.first = before.generation, before.by
		c.groups.returns = append(c.groups.returns, t)
	}
	c.groups.tenures[k] = t
}

// judgeReturns looks for other owners in the generations that a member says to have kept a partition over.
func (c *Checker) judgeReturns() {
	if len(c.groups.returns) == 0 {
		return
	}
	type lifeKey struct {
		registerKey
		life int32
	}
	generations := map[lifeKey][]int32{}
	for k := range c.groups.owners {
		key := lifeKey{k.registerKey, k.life}
		generations[key] = append(generations[key], k.generation)
	}
	for _, g := range generations {
		slices.Sort(g)
	}
	for _, t := range c.groups.returns {
		all := generations[lifeKey{t.registerKey, t.life}]
		at, _ := slices.BinarySearch(all, t.since+1)
		for ; at < len(all) && all[at] < t.generation; at++ {
			if other := c.groups.owners[ownerKey{t.registerKey, all[at], t.life}]; other.member != t.member {
				c.returned(t, all[at], other)
				break
			}
		}
	}
}

func (c *Checker) returned(t tenure, generation int32, other owner) {
	c.foundAs(TwoOwners, c.parts[t.part], -1, subject{group: t.group, more: int64(t.generation)}, func(a *Anomaly) {
		a.Detail = fmt.Sprintf("group %s: %s kept it from generation %d to %d, and %s owned it in %d", c.groups.texts[t.group], t.member, t.since, t.generation, other.member, generation)
		a.Evidence = []Evidence{c.action("assigned", t.first), c.action("assigned", other.by), c.action("assigned", t.by)}
	})
}
