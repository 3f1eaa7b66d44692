package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/moldau-log/moldau/controller/driver"
)

// mixture is what one history is made of. Each seed draws its own, so that some histories are all power cuts and some are all network (swarm).
type mixture struct {
	brokers    int
	founders   int // of them are there from the beginning
	topics     []topicPlan
	lagMax     time.Duration
	overrun    int             // in 1000 frames, refused by a full inbox
	every      time.Duration   // between faults, at most
	adminEvery time.Duration   // between wishes of administrators, at most; 0 for none
	weights    []int           // of each fault, in the order of faultKinds
	flushTime  []time.Duration // of each broker's disk, at most
	faultTime  time.Duration   // how long faults go on
	reserve    int64           // bytes that produce leaves on a disk
	expiry     time.Duration   // of idle producers; 0 for the usual one
	late       int             // in 1000 ISR proposals, and of their answers, which lie in a queue
}

// faultKind is one thing that can go wrong.
type faultKind struct {
	name string
	rare bool // what everybody forgets at once ends many other stories
	do   func(w *World, b *broker)
	// admin says that it is no fault but a wish of an administrator, which comes at a pace of its own.
	admin bool
	// apart kinds draw their weight from a source of their own: histories without them are what they were before there were any. They are the last.
	apart bool
}

// faultKinds lists what can go wrong. A new one goes to the end of its list, so that the lists keep their order.
func faultKinds() []faultKind {
	return append([]faultKind{
		{name: "kill", do: (*World).kill},
		{name: "power-cut", do: func(w *World, b *broker) { w.powerCut(b, w.chance(500)) }},
		{name: "power-cut-of-all", rare: true, do: func(w *World, _ *broker) { w.powerCutOfAll() }},
		{name: "drain", do: (*World).drain},
		{name: "one-way-cut", do: (*World).oneWay},
		{name: "isolate", do: func(w *World, b *broker) { w.isolate(b, w.chance(300), w.between(200*time.Millisecond, 5*time.Second)) }},
		{name: "controller-move", do: func(w *World, _ *broker) { w.moveController() }},
		{name: "bad-network", do: func(w *World, _ *broker) { w.badNetwork() }},
		{name: "slow-disk", do: (*World).slowDisk},
		{name: "failed-fsync", do: (*World).failSync},
		{name: "pause", do: (*World).pause},
		{name: "kill-leader", do: func(w *World, _ *broker) {
			if b := w.leader(); b != nil {
				w.kill(b)
			}
		}},
		{name: "isolate-leader", do: func(w *World, _ *broker) {
			if b := w.leader(); b != nil {
				w.isolate(b, false, w.between(1500*time.Millisecond, 5*time.Second)) // long enough for another to lead
			}
		}},
		{name: "power-cut-while-flushing", rare: true, do: func(w *World, _ *broker) { w.cutWhileFlushing() }},
	}, slices.Concat(groupFaults(), adminKinds(), diskFaults(), clockFaults(), metaFaults(), uncleanFaults(), endFaults())...)
}

// drawMixture chooses a mixture.
func drawMixture(s *scheduler, kinds []faultKind, opts Options) mixture {
	m := mixture{
		brokers: 3 + s.rng.IntN(3),
		lagMax:  s.between(1100*time.Millisecond, 3*time.Second), overrun: s.rng.IntN(8), every: s.between(140*time.Millisecond, 1100*time.Millisecond),
		weights: make([]int, len(kinds)), faultTime: cmp.Or(opts.FaultTime, faultTime),
	}
	m.brokers = cmp.Or(opts.Brokers, m.brokers)
	m.founders = m.brokers
	if m.brokers > replicationFactor && s.chance(300) {
		m.founders--
	}
	m.topics = drawTopics(s, &m, opts)
	usual := slices.IndexFunc(kinds, func(k faultKind) bool { return k.apart })
	for i := range usual {
		if s.chance(600) {
			m.weights[i] = 1 + s.rng.IntN(10)
		}
	}
	m.weights[s.rng.IntN(usual)] += 5
	if s.chance(750) {
		m.adminEvery = s.between(300*time.Millisecond, 2*time.Second)
	}
	for i, kind := range kinds {
		if kind.rare {
			m.weights[i] = (m.weights[i] + 2) / 3
		}
	}
	apart := rand.New(rand.NewPCG(opts.Seed, 1<<62))
	for i := usual; i < len(kinds); i++ {
		from := apart
		if i > usual {
			from = rand.New(rand.NewPCG(opts.Seed, 1<<62+uint64(i-usual)))
		}
		if from.IntN(1000) < 300 {
			m.weights[i] = 2 + from.IntN(6)
		}
	}
	m.expiry = drawExpiry(apart)
	for range m.brokers {
		m.flushTime = append(m.flushTime, s.between(time.Millisecond, 3*time.Millisecond)<<(2*s.rng.IntN(3)))
	}
	if s.chance(500) {
		m.reserve = 2 << 10
	}
	m.late = []int{30, 30, 300}[s.rng.IntN(3)]
	return m
}

// trouble makes one fault and schedules the next.
func (w *World) trouble() {
	if !w.faults {
		return
	}
	w.after(drawBetween(w.chosen, w.mix.every/4, w.mix.every), w.trouble)
	w.happen(w.chosen, false)
}

// administer asks for one thing and schedules the next.
func (w *World) administer() {
	if !w.faults || w.mix.adminEvery == 0 {
		return
	}
	w.after(drawBetween(w.wished, w.mix.adminEvery/4, w.mix.adminEvery), w.administer)
	w.happen(w.wished, true)
}

// happen draws one of the faults, or of the wishes, by their weights.
func (w *World) happen(from *rand.Rand, admin bool) {
	total := 0
	for i, n := range w.mix.weights {
		if w.kinds[i].admin == admin {
			total += n
		}
	}
	if total == 0 {
		return
	}
	roll := from.IntN(total)
	for i, n := range w.mix.weights {
		if w.kinds[i].admin != admin {
			continue
		}
		if roll < n {
			w.strike(i, w.brokers[from.IntN(len(w.brokers))])
			return
		}
		roll -= n
	}
}

// moveController takes the controller's leadership away, and gives it back later.
func (w *World) moveController() {
	w.meta.resign()
	w.after(w.between(100*time.Millisecond, 1500*time.Millisecond), w.meta.lead)
}

// badNetwork makes the network lose messages and be slow for a while.
func (w *World) badNetwork() {
	w.net.loss = w.rng.IntN(100)
	w.net.slow = time.Duration(1 + w.rng.IntN(20))
	w.after(w.between(100*time.Millisecond, 2*time.Second), w.net.calm)
}

// kill ends a process; its host and what it has written stay. Its peer port refuses connections, which others may notice.
func (w *World) kill(b *broker) {
	if !b.up {
		return
	}
	w.cov.Kills++
	b.crash()
	if w.chance(500) {
		for _, d := range []time.Duration{20 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
			w.after(d, func() {
				if !b.up && w.meta.leads {
					w.meta.step(driver.PeerRefused{Broker: b.id})
				}
			})
		}
	}
	w.restart(b)
}

// restart starts a broker again: often before its session has ended.
func (w *World) restart(b *broker) {
	d := w.between(20*time.Millisecond, 400*time.Millisecond)
	if w.chance(500) {
		d = w.between(400*time.Millisecond, 2500*time.Millisecond)
	}
	w.after(d, b.start)
}

// leader is who leads some partition, nil for nobody.
func (w *World) leader() *broker {
	live := w.live()
	if len(live) == 0 {
		return nil
	}
	tp := live[w.rng.IntN(len(live))]
	if p, ok := w.meta.state.Image().Partition(tp); ok && p.Leader >= 0 {
		return w.brokers[p.Leader]
	}
	return nil
}

// powerCut ends a host: what was not synced is lost, in whole or in part.
func (w *World) powerCut(b *broker, tearing bool) {
	if b.up {
		w.check.goingDown(b)
		b.crash()
	}
	w.cov.PowerCuts++
	b.disk.powerCut(w.scheduler, tearing)
	w.restart(b)
}

// powerCutOfAll ends every host at one moment.
func (w *World) powerCutOfAll() {
	w.cov.PowerCutsOfAll++
	tearing := w.chance(500)
	for _, b := range w.brokers {
		w.powerCut(b, tearing)
	}
}

// cutWhileFlushing makes the disks of some brokers slow, so that much is written and not yet flushed, and then ends every host.
func (w *World) cutWhileFlushing() {
	for _, b := range w.brokers {
		if w.chance(600) {
			w.slowDisk(b)
		}
	}
	w.after(w.between(50*time.Millisecond, 600*time.Millisecond), func() {
		if w.faults {
			w.powerCutOfAll()
		}
	})
}

// drain begins an orderly restart. A broker that is not let go in time is killed.
func (w *World) drain(b *broker) {
	if !b.up || b.draining {
		return
	}
	b.draining = true
	b.later(3*time.Second, func() { w.kill(b) })
}

// ends of links: brokers, the controller and clients.
func (w *World) anyNode() node {
	switch n := w.rng.IntN(10); {
	case n < 6:
		return w.brokers[w.rng.IntN(len(w.brokers))].node()
	case n < 8:
		return controllerNode
	}
	nodes := w.load.nodes()
	return nodes[w.rng.IntN(len(nodes))]
}

// oneWay cuts one direction between a broker and another node for a while.
func (w *World) oneWay(b *broker) {
	d := direction{b.node(), w.anyNode()}
	if w.chance(500) {
		d = direction{d.to, d.from}
	}
	if d.from == d.to {
		return
	}
	w.cov.Cuts++
	w.net.sever(d)
	w.after(w.between(100*time.Millisecond, 4*time.Second), func() { w.net.mend(d) })
}

// isolate cuts a broker off from all other brokers and the controller, and perhaps from clients.
func (w *World) isolate(b *broker, fromClients bool, d time.Duration) {
	w.cov.Isolations++
	others := []node{controllerNode}
	for _, o := range w.brokers {
		if o != b {
			others = append(others, o.node())
		}
	}
	if fromClients {
		others = append(others, w.load.nodes()...)
	}
	for _, o := range others {
		w.net.sever(direction{b.node(), o})
		w.net.sever(direction{o, b.node()})
	}
	w.after(d, func() {
		for _, o := range others {
			w.net.mend(direction{b.node(), o})
			w.net.mend(direction{o, b.node()})
		}
	})
}

// slowDisk makes every flush of a broker slow for a while.
func (w *World) slowDisk(b *broker) {
	w.cov.SlowDisks++
	b.slowDisk = true
	w.after(w.between(500*time.Millisecond, 4*time.Second), func() { b.slowDisk = false })
}

// failSync lets an fsync of a broker fail; later somebody restarts it.
func (w *World) failSync(b *broker) {
	if !b.up || !w.mayFail(b) {
		return
	}
	w.cov.SyncFailures++
	b.disk.failing = true
	b.disk.failSync(1 + w.rng.IntN(5))
	b.later(w.between(300*time.Millisecond, 3*time.Second), func() { w.kill(b) })
}

// pause stops a process for a while: nothing that comes is handled, nothing is answered.
func (w *World) pause(b *broker) {
	if !b.up || w.now < b.paused {
		return
	}
	w.cov.Pauses++
	b.paused = w.now + w.between(100*time.Millisecond, 3*time.Second)
}
