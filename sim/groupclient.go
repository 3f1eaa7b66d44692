package sim

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// groupClient is the end of a client that talks to the coordinator of one group.
type groupClient struct {
	w     *World
	group *simGroup
	node  node

	up     bool
	life   int
	paused time.Duration
	// coordinator is whom the client takes for the group's coordinator.
	coordinator *broker
	// last is when the newest request arrives at each broker: one client's requests do not overtake each other on the way to one broker.
	last map[cluster.BrokerID]time.Duration
}

func newGroupClient(sg *simGroup) groupClient {
	w := sg.w
	return groupClient{w: w, group: sg, node: w.load.client(), coordinator: w.brokers[w.rng.IntN(len(w.brokers))], last: map[cluster.BrokerID]time.Duration{}}
}

// do runs something in this process: at once, or when a pause is over.
func (c *groupClient) do(what func()) {
	life := c.life
	if c.w.now < c.paused {
		c.w.at(c.paused, func() {
			if c.up && c.life == life {
				c.do(what)
			}
		})
		return
	}
	if c.up {
		what()
	}
}

// later is do after a time.
func (c *groupClient) later(d time.Duration, what func()) {
	life := c.life
	c.w.after(d, func() {
		if c.up && c.life == life {
			c.do(what)
		}
	})
}

// refresh asks some broker who coordinates the group, as far as it knows.
func (c *groupClient) refresh() {
	b := c.w.brokers[c.w.rng.IntN(len(c.w.brokers))]
	for range c.w.brokers { // one that is down answers nothing
		if b.up {
			break
		}
		b = c.w.brokers[(int(b.id)+1)%len(c.w.brokers)]
	}
	if leader := b.image.Shard(cluster.ShardOf(c.group.name)).Leader; leader >= 0 {
		c.coordinator = c.w.brokers[leader]
	}
}

// groupAnswer is what became of a request. lost says that nobody knows.
type groupAnswer struct {
	group.Reply
	lost bool
}

// ask sends a request to the coordinator and calls done once: with the answer, or when the client gives up.
func (c *groupClient) ask(in group.Input, timeout time.Duration, done func(groupAnswer)) {
	w, b, life := c.w, c.coordinator, c.life
	w.cov.GroupRequests++
	over := false
	finish := func(a groupAnswer) {
		if c.up && c.life == life {
			c.do(func() {
				if !over {
					over = true
					done(a)
				}
			})
		}
	}
	home := func(a groupAnswer) { w.net.send(b.node(), c.node, func() { finish(a) }) }
	reset := func() {
		if w.chance(800) {
			home(groupAnswer{lost: true})
		}
	}
	at := c.last[b.id]
	w.net.sendAfter(c.node, b.node(), &at, func() {
		if !b.up {
			reset()
			return
		}
		b.hangUp = append(b.hangUp, reset)
		b.do(func() { b.serveGroup(c.group.name, in, func(r group.Reply) { home(groupAnswer{Reply: r}) }) })
	})
	c.last[b.id] = at
	w.after(timeout, func() { finish(groupAnswer{lost: true}) })
}

// sendAfter is send with a message that arrives at *last or later, and puts its arrival there: on one connection nothing overtakes.
func (n *network) sendAfter(from, to node, last *time.Duration, deliver func()) {
	if n.cut[direction{from, to}] || n.chance(n.loss) {
		n.cov.MessagesLost++
		return
	}
	*last = max(*last, n.now+n.delay())
	n.at(*last, func() {
		if !n.cut[direction{from, to}] {
			deliver()
		}
	})
}

// serveGroup is a broker's door for a request about a group.
func (b *broker) serveGroup(name string, in group.Input, reply func(group.Reply)) {
	if code := b.coordinates(name); code != cluster.CodeNone {
		reply(group.Reply{Code: code})
		return
	}
	b.groups.submit(name, in, b.w.groups.check.watch(b, name, in, reply))
}

// coordinates says whether a group is to be asked about here, as far as the broker knows.
func (b *broker) coordinates(name string) cluster.Code {
	switch leader := b.image.Shard(cluster.ShardOf(name)).Leader; leader {
	case b.id:
		return cluster.CodeNone
	case cluster.NoBroker:
		return cluster.CodeNoCoordinator
	}
	return cluster.CodeNotCoordinator
}

// certain reports whether a refusal says that nothing was done.
func certain(code cluster.Code) bool {
	return code != cluster.CodeTimedOut && code != cluster.CodeShuttingDown
}

// observer asks for all committed offsets of a group now and then. It stays with its coordinator until that refuses.
type observer struct{ groupClient }

func (o *observer) look() {
	check := o.w.groups.check
	floor := check.floors(o.group.name)
	o.ask(group.FetchOffsets{Group: o.group.name, Epoch: group.NoMemberEpoch, Partitions: o.w.live()}, groupTimeout, func(a groupAnswer) {
		if a.lost || a.Code != cluster.CodeNone {
			o.refresh()
		} else {
			o.w.cov.OffsetReads++
			check.fetched(o.group.name, floor, a.Offsets)
		}
		o.later(o.w.between(10*time.Millisecond, 150*time.Millisecond), o.look)
	})
}
