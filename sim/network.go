package sim

import "time"

// node is an end of the network: a broker, the controller, or a client.
type node int

const (
	controllerNode node = 100
	clientNode     node = 200 // and those above: one per client
)

// direction is one way between two nodes.
type direction struct{ from, to node }

// network delays, drops, reorders and cuts. There are two kinds of traffic: single messages, which may be lost and overtake each other, and streams
// (stream.go), which keep their order and break as a whole, as TCP does.
type network struct {
	*scheduler
	cut     map[direction]bool
	streams []*stream
	// slow multiplies delays; loss is how many of 1000 messages are lost.
	slow time.Duration
	loss int
	cov  *Coverage
}

func newNetwork(s *scheduler, cov *Coverage) *network {
	return &network{scheduler: s, cut: map[direction]bool{}, slow: 1, cov: cov}
}

// delay is how long one message takes: mostly short, sometimes long, so that messages overtake.
func (n *network) delay() time.Duration {
	d := n.between(50*time.Microsecond, 500*time.Microsecond)
	if n.chance(20) {
		d = n.between(time.Millisecond, 60*time.Millisecond)
	}
	return d * n.slow
}

// send delivers a message, or loses it. Whoever needs an answer has a timeout.
func (n *network) send(from, to node, deliver func()) {
	if n.cut[direction{from, to}] || n.chance(n.loss) {
		n.cov.MessagesLost++
		return
	}
	n.after(n.delay(), func() {
		if !n.cut[direction{from, to}] {
			deliver()
		}
	})
}

// sever cuts one direction.
func (n *network) sever(d direction) {
	n.cut[d] = true
	n.note("cut", int64(d.from), int64(d.to))
}

// mend ends a cut; what streams have held back goes on.
func (n *network) mend(d direction) {
	if !n.cut[d] {
		return
	}
	delete(n.cut, d)
	n.note("mend", int64(d.from), int64(d.to))
	for _, s := range n.streams {
		s.resume(d)
	}
}

// mendAll ends every cut, in a fixed order.
func (n *network) mendAll(nodes []node) {
	for _, a := range nodes {
		for _, b := range nodes {
			n.mend(direction{a, b})
		}
	}
}

// calm ends loss and slowness.
func (n *network) calm() { n.slow, n.loss = 1, 0 }

// stream is one connection: two lanes that keep their order. Held back by a cut for too long it breaks, and each end learns of that by itself.
type stream struct {
	n      *network
	ends   [2]node
	lanes  [2]lane // by the sending end
	broken bool
	// lingers says that what was under way when the stream broke still arrives, at an end that has not learnt of it: it was in a buffer there.
	lingers bool
	learnt  [2]bool
	onEnd   [2]func() // what an end does when it learns that the stream is gone
}

// lane is one direction of a stream.
type lane struct {
	last time.Duration // arrival of the newest frame
	held []func()
}

// stallLimit is after how long a cut breaks a stream.
const stallLimit = 3 * time.Second

// open makes a stream between two nodes.
func (n *network) open(a, b node) *stream {
	s := &stream{n: n, ends: [2]node{a, b}}
	n.streams = append(n.streams, s)
	return s
}

// send hands a frame to the other end, in order.
func (s *stream) send(end int, deliver func()) {
	if s.broken {
		return
	}
	l := &s.lanes[end]
	if s.n.cut[direction{s.ends[end], s.ends[1-end]}] {
		if l.held = append(l.held, deliver); len(l.held) == 1 {
			s.n.after(s.n.between(stallLimit/3, stallLimit), func() {
				if len(l.held) > 0 {
					s.breakUp()
				}
			})
		}
		return
	}
	if s.n.chance(s.n.loss / 8) {
		s.breakUp() // a reset
		return
	}
	s.deliver(end, deliver)
}

func (s *stream) deliver(end int, deliver func()) {
	l := &s.lanes[end]
	l.last = max(l.last, s.n.now+s.n.delay())
	s.n.at(l.last, func() {
		if !s.broken || s.lingers && !s.learnt[1-end] {
			deliver()
		}
	})
}

// resume lets a mended direction go on.
func (s *stream) resume(d direction) {
	for end := range s.lanes {
		if (direction{s.ends[end], s.ends[1-end]}) != d {
			continue
		}
		held := s.lanes[end].held
		s.lanes[end].held = nil
		for _, f := range held {
			s.deliver(end, f)
		}
	}
}

// breakUp ends the stream. What was under way is lost, and the ends learn of it at different times.
func (s *stream) breakUp() {
	if s.broken {
		return
	}
	s.broken = true
	s.n.cov.StreamsBroken++
	for i, other := range s.n.streams {
		if other == s {
			s.n.streams = append(s.n.streams[:i:i], s.n.streams[i+1:]...)
			break
		}
	}
	s.lingers = s.n.chance(500)
	for end := range s.onEnd {
		d := s.n.delay()
		if s.n.chance(200) {
			d = s.n.between(10*time.Millisecond, stallLimit) // it takes a silence to notice
		}
		s.n.after(d, func() {
			s.learnt[end] = true
			if f := s.onEnd[end]; f != nil {
				f()
			}
		})
	}
}
