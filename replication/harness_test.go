package replication_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/session"
)

// entry is one record of the model log: every batch takes one offset.
type entry struct {
	epoch record.LeaderEpoch
	value int
}

// modelLog is an idealised log: what is flushed survives a crash, the rest does not.
type modelLog struct {
	start   record.Offset
	entries []entry
	flushed record.Offset
}

func (l *modelLog) end() record.Offset { return l.start + record.Offset(len(l.entries)) }

func (l *modelLog) at(o record.Offset) entry { return l.entries[o-l.start] }

func (l *modelLog) cut(t replication.Truncate) {
	if t.Reset {
		*l = modelLog{start: t.To, flushed: t.To}
		return
	}
	l.entries = slices.Clone(l.entries[:t.To-l.start])
	l.flushed = min(l.flushed, t.To)
}

func (l *modelLog) moveStart(to record.Offset) {
	if to > l.start {
		l.entries = slices.Clone(l.entries[to-l.start:])
		l.start = to
	}
	l.flushed = max(l.flushed, to)
}

// crash loses what is not flushed.
func (l *modelLog) crash() { l.entries = slices.Clone(l.entries[:l.flushed-l.start]) }

func (l *modelLog) epochs() []record.EpochStart {
	var out []record.EpochStart
	for i, e := range l.entries {
		if len(out) == 0 || out[len(out)-1].Epoch != e.epoch {
			out = append(out, record.EpochStart{Epoch: e.epoch, Start: l.start + record.Offset(i)})
		}
	}
	return out
}

func (l *modelLog) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d[", l.start)
	for i, e := range l.entries {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d@%d", e.value, e.epoch)
	}
	fmt.Fprintf(&b, "]%d", l.end())
	return b.String()
}

// message is one thing on its way. Exactly one payload is set.
type message struct {
	from, to  cluster.BrokerID
	fromEpoch cluster.BrokerEpoch
	epoch     record.LeaderEpoch // leader epoch of an ack or of data
	subscribe *session.Subscribe
	ack       *session.Ack
	data      *session.Data
	entries   []entry
	refused   *session.Refused
	alter     *cluster.ISRChange
	answer    *replication.AlterPartitionResult
	image     *cluster.Partition
	peers     []replication.Peer
}

// controllerID is the address of the model controller.
const controllerID cluster.BrokerID = 100

func (m message) String() string {
	link := fmt.Sprintf("%d->%d ", m.from, m.to)
	switch {
	case m.subscribe != nil:
		return link + fmt.Sprintf("subscribe end=%d last-epoch=%d flushed=%d under %d", m.subscribe.LogEnd, m.subscribe.LastEpoch, m.subscribe.Flushed, m.subscribe.LeaderEpoch)
	case m.ack != nil:
		return link + fmt.Sprintf("ack end=%d flushed=%d", m.ack.LogEnd, m.ack.Flushed)
	case m.data != nil:
		return link + fmt.Sprintf("data %d+%d hw=%d", m.data.First, len(m.entries), m.data.HighWatermark)
	case m.refused != nil && m.refused.Diverged:
		return link + fmt.Sprintf("refused: diverged epoch=%d end=%d", m.refused.Divergence.Epoch, m.refused.Divergence.End)
	case m.refused != nil:
		return link + "refused: " + m.refused.Code.String()
	case m.alter != nil:
		return link + fmt.Sprintf("alter isr=%v at %d", isrOf(m.alter), m.alter.PartitionEpoch)
	case m.answer != nil:
		return link + "answer " + m.answer.Code.String()
	case m.image != nil:
		return link + fmt.Sprintf("image leader=%d epoch=%d isr=%v at %d", m.image.Leader, m.image.LeaderEpoch, m.image.ISR, m.image.PartitionEpoch)
	}
	return link + "?"
}

func isrOf(c *cluster.ISRChange) []cluster.BrokerID {
	var out []cluster.BrokerID
	for _, m := range c.ISR {
		out = append(out, m.Broker)
	}
	return out
}

// sender is the leader's end of one subscription.
type sender struct {
	id            session.SubscriptionID
	position      record.Offset
	watermark     record.Offset
	sentSomething bool
}

// node is a broker with one replica: the machine, the model log, and the harness's stand-ins for partition, fetcher and sender.
type node struct {
	world   *world
	id      cluster.BrokerID
	epoch   cluster.BrokerEpoch // of the present registration
	up      bool
	replica *replication.Replica
	log     modelLog

	wantFlush bool
	flushing  []replication.Flushed // begun and not reported, oldest first
	senders   map[cluster.BrokerID]*sender
	nextID    session.SubscriptionID
	current   session.SubscriptionID // of the local follower
	asked     map[session.SubscriptionID]record.LeaderEpoch
	values    map[replication.RequestID]int
	arrived   []entry // of the Delivered in progress
	queue     []replication.Input
	offline   error
	deadline  time.Duration
}

// world is a cluster of nodes, a model controller and what is on the wire.
type world struct {
	now     time.Duration
	config  replication.Config
	minISR  int
	relaxed bool
	nodes   []*node
	ctl     *modelController
	wire    []message
	sent    int // messages ever
	// answers holds every response, by request.
	answers map[replication.RequestID]replication.Response
	// written holds the value of every request, and acks its level.
	written   map[replication.RequestID]int
	acksOf    map[replication.RequestID]replication.Acks
	next      replication.RequestID
	onAppend  func(n *node, e replication.Append)
	onRespond func(n *node, r replication.Response)
	trace     func(format string, args ...any)
}

var partitionKey = cluster.TopicPartition{Topic: cluster.TopicID{1}, Partition: 0}

func newWorld(count, minISR int) *world {
	w := &world{
		config:  replication.Config{Partition: partitionKey, LagMax: 10 * time.Second},
		minISR:  minISR,
		answers: map[replication.RequestID]replication.Response{},
		written: map[replication.RequestID]int{},
		acksOf:  map[replication.RequestID]replication.Acks{},
	}
	w.ctl = newModelController(w, count, minISR)
	for i := range count {
		n := &node{world: w, id: cluster.BrokerID(i + 1)}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

func (w *world) node(id cluster.BrokerID) *node { return w.nodes[id-1] }

func (w *world) send(m message) {
	w.sent++
	w.wire = append(w.wire, m)
}

// start opens the log and registers the broker.
func (n *node) start() {
	n.up = true
	n.log.flushed = n.log.end() // recovery ends with an fsync of everything it kept
	config := n.world.config
	config.Self = n.id
	n.replica = replication.New(config, replication.Opened{
		Epochs: n.log.epochs(), LogStart: n.log.start, LogEnd: n.log.end(), Flushed: n.log.flushed,
	})
	n.wantFlush, n.flushing, n.queue, n.offline = false, nil, nil, nil
	n.senders = map[cluster.BrokerID]*sender{}
	n.values = map[replication.RequestID]int{}
	n.current, n.asked = 0, map[session.SubscriptionID]record.LeaderEpoch{}
	n.epoch = n.world.ctl.register(n.id)
	n.step(&replication.ConfigChanged{MinISR: n.world.minISR, Relaxed: n.world.relaxed})
}

// crash loses the process and everything that was not flushed. What it sent may still arrive.
func (n *node) crash() {
	n.up = false
	n.log.crash()
	n.world.wire = slices.DeleteFunc(n.world.wire, func(m message) bool { return m.to == n.id })
}

// step feeds one input and everything that follows from its effects.
func (n *node) step(in replication.Input) {
	n.queue = append(n.queue, in)
	for len(n.queue) > 0 {
		in := n.queue[0]
		n.queue = n.queue[1:]
		n.execute(n.replica.Step(n.world.now, in))
	}
	n.pump()
}

// execute does what the effects ask for, in their order.
func (n *node) execute(e *replication.Effects) {
	w := n.world
	if e.Truncate.To >= 0 {
		if w.trace != nil {
			w.trace("%d truncates to %d, reset %v", n.id, e.Truncate.To, e.Truncate.Reset)
		}
		n.log.cut(e.Truncate)
		n.queue = append(n.queue, &replication.Truncated{End: n.log.end()})
	}
	if e.MoveStart >= 0 {
		n.log.moveStart(e.MoveStart)
		n.queue = append(n.queue, &replication.LogStartMoved{Start: e.MoveStart})
	}
	n.append(e.Append)
	n.wantFlush = n.wantFlush || e.Flush
	for _, r := range e.Respond {
		w.answers[r.Request] = r
		if w.trace != nil {
			w.trace("%d answers request %d: %s at %d", n.id, r.Request, r.Code, r.Base)
		}
		if w.onRespond != nil {
			w.onRespond(n, r)
		}
	}
	if e.RoleChanged {
		n.senders = map[cluster.BrokerID]*sender{}
	}
	for _, a := range e.Admit {
		n.admit(a)
	}
	if e.Unsubscribe {
		n.current = 0
	}
	if e.Subscribe {
		n.subscribe()
	}
	if e.Ack && n.current != 0 {
		r := n.replica
		w.send(message{from: n.id, to: r.Leader(), fromEpoch: n.epoch, epoch: r.LeaderEpoch(),
			ack: &session.Ack{ID: n.current, LogEnd: r.LogEnd(), Flushed: r.Flushed(), LogStart: r.LogStart()}})
	}
	if e.Alter != nil {
		change := *e.Alter
		w.send(message{from: n.id, to: controllerID, fromEpoch: n.epoch, alter: &change})
	}
	if e.Offline != nil {
		n.offline = e.Offline
	}
	n.deadline = e.Deadline
}

func (n *node) append(appends []replication.Append) {
	for _, a := range appends {
		if a.Verbatim {
			n.log.entries = append(n.log.entries, n.arrived...)
			continue
		}
		if n.world.onAppend != nil {
			n.world.onAppend(n, a)
		}
		n.log.entries = append(n.log.entries, entry{epoch: a.Epoch, value: n.values[a.Request]})
	}
	if len(appends) > 0 {
		n.queue = append(n.queue, &replication.Appended{End: n.log.end()})
	}
}

func (n *node) admit(a replication.Admission) {
	if a.Accepted {
		f := n.replicaFollower(a.Follower)
		n.senders[a.Follower] = &sender{id: a.Refused.ID, position: f.LogEnd, watermark: -1}
		return
	}
	delete(n.senders, a.Follower)
	refused := a.Refused
	n.world.send(message{from: n.id, to: a.Follower, refused: &refused})
}

func (n *node) replicaFollower(b cluster.BrokerID) replication.Progress {
	for _, f := range n.replica.Followers(nil) {
		if f.Broker == b {
			return f
		}
	}
	panic("harness: admitted a stranger")
}

// subscribe sends a subscription from the present log end.
func (n *node) subscribe() {
	r := n.replica
	n.nextID++
	n.current = n.nextID
	n.asked[n.current] = r.LeaderEpoch()
	n.world.send(message{from: n.id, to: r.Leader(), fromEpoch: n.epoch, subscribe: &session.Subscribe{
		ID: n.current, Partition: partitionKey, LeaderEpoch: r.LeaderEpoch(),
		LogEnd: r.LogEnd(), LastEpoch: r.LastEpoch(), Flushed: r.Flushed(), LogStart: r.LogStart(),
	}})
}

// pump sends what subscribers do not have.
func (n *node) pump() {
	if n.replica.Role() != replication.Leader {
		return
	}
	for _, id := range []cluster.BrokerID{1, 2, 3, 4, 5} {
		s := n.senders[id]
		if s == nil || (s.position >= n.log.end() && s.watermark >= n.replica.HighWatermark() && s.sentSomething) {
			continue
		}
		s.sentSomething = true
		s.watermark = n.replica.HighWatermark()
		d := session.Data{ID: s.id, First: s.position, HighWatermark: s.watermark, LogStart: n.log.start}
		var entries []entry
		if s.position < n.log.end() && s.position >= n.log.start {
			entries = slices.Clone(n.log.entries[s.position-n.log.start:])
		}
		s.position += record.Offset(len(entries))
		n.world.send(message{from: n.id, to: id, epoch: n.replica.LeaderEpoch(), data: &d, entries: entries})
	}
}

// receive handles one message.
func (n *node) receive(m message) {
	switch {
	case m.subscribe != nil:
		n.step(&replication.SubscribeRequested{Follower: m.from, Epoch: m.fromEpoch, Subscribe: *m.subscribe})
	case m.ack != nil:
		n.step(&replication.FollowerAck{Follower: m.from, Epoch: m.fromEpoch, ID: m.ack.ID, LeaderEpoch: m.epoch, LogEnd: m.ack.LogEnd, Flushed: m.ack.Flushed})
	case m.data != nil:
		n.deliver(m)
	case m.refused != nil:
		n.step(&replication.SubscribeRefused{LeaderEpoch: n.asked[m.refused.ID], Refused: *m.refused})
	case m.answer != nil:
		n.step(m.answer)
	case m.image != nil:
		for _, p := range m.peers {
			if p.Broker == n.id && p.Epoch != n.epoch {
				return // from before the registration of this life: a broker acts on no such image
			}
		}
		n.step(&replication.PartitionChanged{State: m.image, Peers: m.peers})
	}
}

// deliver hands data to the machine, without what the log has already.
func (n *node) deliver(m message) {
	first, entries := m.data.First, m.entries
	if end := n.log.end(); first < end {
		skip := min(record.Offset(len(entries)), end-first)
		first, entries = first+skip, entries[skip:]
	}
	in := &replication.Delivered{LeaderEpoch: m.epoch, First: first, End: first + record.Offset(len(entries)),
		HighWatermark: m.data.HighWatermark, LogStart: m.data.LogStart}
	last := record.NoEpoch
	for i, e := range entries {
		if e.epoch != last {
			in.Epochs = append(in.Epochs, record.EpochStart{Epoch: e.epoch, Start: first + record.Offset(i)})
			last = e.epoch
		}
	}
	n.arrived = entries
	n.step(in)
}

// beginFlush starts an fsync; finishFlush reports the oldest.
func (n *node) beginFlush() {
	if n.wantFlush || n.world.relaxed {
		n.wantFlush = false
		n.flushing = append(n.flushing, replication.Flushed{Generation: n.replica.Generation(), End: n.log.end()})
	}
}

func (n *node) finishFlush() {
	if len(n.flushing) == 0 {
		return
	}
	f := n.flushing[0]
	n.flushing = n.flushing[1:]
	if f.Generation == n.replica.Generation() {
		n.log.flushed = max(n.log.flushed, f.End)
	}
	n.step(&f)
}

// flush flushes everything.
func (n *node) flush() {
	n.beginFlush()
	for len(n.flushing) > 0 {
		n.finishFlush()
	}
}

// produce asks for one record and returns its request.
func (n *node) produce(acks replication.Acks, deadline time.Duration) replication.RequestID {
	w := n.world
	w.next++
	value := int(w.next)
	w.written[w.next] = value
	w.acksOf[w.next] = acks
	n.values[w.next] = value
	n.step(&replication.ProduceRequested{Request: w.next, LeaderEpoch: record.NoEpoch, Offsets: 1, Acks: acks, Deadline: deadline})
	return w.next
}

// take removes one message from the wire.
func (w *world) take(i int) message {
	m := w.wire[i]
	w.wire = slices.Delete(w.wire, i, i+1)
	return m
}

// deliver hands one message over, if its receiver is there.
func (w *world) deliver(m message) {
	if w.trace != nil {
		w.trace("%s", m)
	}
	if m.to == controllerID {
		w.ctl.receive(m)
		return
	}
	if n := w.node(m.to); n.up {
		n.receive(m)
	}
}

// settle delivers messages in order, flushing everywhere, until nothing happens any more. Links for which blocked returns true keep theirs.
func (w *world) settle(blocked func(m message) bool) {
	for range 10_000 {
		i := slices.IndexFunc(w.wire, func(m message) bool { return blocked == nil || !blocked(m) })
		if i >= 0 {
			w.deliver(w.take(i))
			continue
		}
		idle := true
		for _, n := range w.nodes {
			if n.up && n.wantFlush {
				n.flush()
				idle = false
			}
		}
		if idle {
			return
		}
	}
	panic("harness: does not settle")
}
