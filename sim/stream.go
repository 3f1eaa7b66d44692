package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// Times of the network shell.
const (
	dialTimeout = time.Second
	redialMin   = 50 * time.Millisecond
	redialMax   = time.Second
)

// streamLimits are small, so that credit runs out in these short histories.
func streamLimits() session.Limits {
	return session.Limits{StreamCredit: 16 << 10, PartitionCredit: 8 << 10, MaxSend: 4 << 10, MaxSubscriptions: 64}
}

// incoming is what a broker has for one leader: the following end of the session, and a stream while something is wanted. It does what
// fetcher.Fetcher does.
type incoming struct {
	b      *broker
	leader cluster.BrokerID
	core   *session.Follower

	conn     *stream
	far      *outgoing // the leader's end of conn
	epoch    cluster.BrokerEpoch
	dialing  int // number of the attempt under way, 0 for none
	attempts int
	failures int
	pumping  bool
	retry    bool // a redial is scheduled
}

// incoming finds or makes the end for a leader.
func (b *broker) incoming(leader cluster.BrokerID) *incoming {
	for _, in := range b.in {
		if in.leader == leader {
			return in
		}
	}
	in := &incoming{b: b, leader: leader, core: session.NewFollower(session.DefaultBackoff())}
	b.in = append(b.in, in)
	return in
}

func (in *incoming) follow(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	in.core.Follow(in.b.Now(), session.Wanted{Partition: tp, LeaderEpoch: epoch})
	in.pumpSoon()
}

func (in *incoming) unfollow(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	in.core.Unfollow(session.Wanted{Partition: tp, LeaderEpoch: epoch})
	in.pumpSoon()
}

func (in *incoming) acknowledge(tp cluster.TopicPartition, epoch record.LeaderEpoch, p partition.Progress) {
	if in.core.Acknowledge(session.Wanted{Partition: tp, LeaderEpoch: epoch}, session.Ack{LogEnd: p.LogEnd, Flushed: p.Flushed, LogStart: p.LogStart}) {
		in.pumpSoon()
	}
}

func (in *incoming) pumpSoon() {
	if !in.pumping {
		in.pumping = true
		in.b.later(in.b.w.between(0, 100*time.Microsecond), in.pump)
	}
}

// pump sends what is to be sent, and opens or closes the stream.
func (in *incoming) pump() {
	in.pumping = false
	wanted := in.core.Len() > 0 && in.b.epoch != cluster.NoBrokerEpoch
	if in.conn == nil {
		if wanted && in.dialing == 0 && !in.retry {
			in.dial()
		}
		return
	}
	if !wanted || in.epoch != in.b.epoch {
		in.conn.breakUp()
		in.lost(in.conn)
		return
	}
	for {
		w, ok := in.core.Due(in.b.Now())
		if !ok {
			break
		}
		in.subscribe(w)
	}
	for _, f := range in.core.Frames(nil) {
		f, far := in.planted(f), in.far
		in.conn.send(0, func() { far.b.do(func() { far.receive(f) }) })
	}
	if at, ok := in.core.NextDue(); ok {
		in.b.later(max(0, at-in.b.Now()), in.pumpSoon)
	}
}

func (in *incoming) subscribe(w session.Wanted) {
	r := in.b.replica(w.Partition)
	if r == nil {
		in.core.Absent(in.b.Now(), w)
		return
	}
	at, ok := r.Position(w.LeaderEpoch)
	if !ok {
		in.core.Absent(in.b.Now(), w)
		return
	}
	in.core.Begin(in.b.Now(), session.Subscribe{Partition: w.Partition, LeaderEpoch: w.LeaderEpoch, LogEnd: at.LogEnd, LastEpoch: at.LastEpoch, Flushed: at.Flushed, LogStart: at.LogStart})
}

// planted makes a frame lie where that is the plant.
func (in *incoming) planted(f session.Up) session.Up {
	if in.b.w.opts.Plant != PlantAcksUnflushed {
		return f
	}
	switch f := f.(type) {
	case session.Ack:
		f.Flushed = f.LogEnd
		return f
	case session.Subscribe:
		f.Flushed = f.LogEnd
		return f
	}
	return f
}

// dial opens a stream: the hello, and its answer or a timeout.
func (in *incoming) dial() {
	in.attempts++
	attempt, b, life, epoch := in.attempts, in.b, in.b.life, in.b.epoch
	in.dialing = attempt
	leader := b.w.brokers[in.leader]
	b.w.net.send(b.node(), leader.node(), func() {
		leader.do(func() {
			conn := b.w.net.open(b.node(), leader.node())
			far := leader.serve(conn, b.id, epoch)
			b.w.net.send(leader.node(), b.node(), func() {
				if !b.up || b.life != life || in.dialing != attempt || conn.broken {
					conn.breakUp()
					return
				}
				b.do(func() { in.connected(conn, far, epoch) })
			})
		})
	})
	b.later(dialTimeout, func() {
		if in.dialing == attempt {
			in.dialing = 0
			in.redial()
		}
	})
}

// redial tries again after a pause that grows.
func (in *incoming) redial() {
	in.failures++
	in.retry = true
	in.b.later(min(redialMin<<min(in.failures, 10), redialMax), func() {
		in.retry = false
		in.pumpSoon()
	})
}

func (in *incoming) connected(conn *stream, far *outgoing, epoch cluster.BrokerEpoch) {
	if conn.broken || in.conn != nil {
		conn.breakUp()
		in.dialing = 0
		in.pumpSoon()
		return
	}
	in.dialing, in.failures = 0, 0
	in.conn, in.far, in.epoch = conn, far, epoch
	far.near = in
	life := in.b.life
	conn.onEnd[0] = func() {
		if in.b.up && in.b.life == life {
			in.b.do(func() { in.lost(conn) })
		}
	}
	in.core.Connected(in.b.Now())
	in.pumpSoon()
}

// lost notes that the stream is gone.
func (in *incoming) lost(conn *stream) {
	if in.conn != conn {
		return
	}
	in.conn, in.far = nil, nil
	in.core.Disconnected()
	in.redial()
}

// receive takes a frame from the leader.
func (in *incoming) receive(conn *stream, down session.Down) {
	if in.conn != conn {
		return
	}
	switch f := down.(type) {
	case session.Data:
		w, ok := in.core.Received(f.ID)
		r := in.b.replica(w.Partition)
		if !ok || r == nil {
			return
		}
		if in.b.w.chance(in.b.w.mix.overrun) {
			in.b.w.cov.Overruns++
			in.core.Overrun(in.b.Now(), f.ID)
			in.pumpSoon()
			return
		}
		r.post(func() { r.Deliver(w.LeaderEpoch, f, func() {}) })
	case session.Refused:
		w, ok := in.core.Refused(in.b.Now(), f)
		if r := in.b.replica(w.Partition); ok && r != nil {
			r.step(&replication.SubscribeRefused{LeaderEpoch: w.LeaderEpoch, Refused: f})
		}
		in.pumpSoon()
	}
}

// outgoing is a leader's end of one stream. It does what fetcher.Sender does.
type outgoing struct {
	b        *broker
	conn     *stream
	near     *incoming // the follower's end
	follower cluster.BrokerID
	epoch    cluster.BrokerEpoch // of the hello
	core     *session.Leader
	readers  map[session.SubscriptionID]fetcher.Reader
	refused  []session.Refused
	draining bool
}

var _ fetcher.Sink = (*outgoing)(nil)

// serve takes a stream that a follower has opened.
func (b *broker) serve(conn *stream, follower cluster.BrokerID, epoch cluster.BrokerEpoch) *outgoing {
	o := &outgoing{b: b, conn: conn, follower: follower, epoch: epoch, core: session.NewLeader(streamLimits()), readers: map[session.SubscriptionID]fetcher.Reader{}}
	b.out = append(b.out, o)
	life := b.life
	conn.onEnd[1] = func() {
		if b.up && b.life == life {
			b.do(o.end)
		}
	}
	return o
}

// Accepted implements fetcher.Sink.
func (o *outgoing) Accepted(id session.SubscriptionID, r fetcher.Reader) {
	if o.core.Accepted(id) {
		o.readers[id] = r
		o.drainSoon()
	}
}

// Wake implements fetcher.Sink.
func (o *outgoing) Wake(id session.SubscriptionID) {
	if o.core.Wake(id) {
		o.drainSoon()
	}
}

// Refused implements fetcher.Sink.
func (o *outgoing) Refused(r session.Refused) {
	if _, ok := o.core.End(r.ID); ok {
		delete(o.readers, r.ID)
		o.refused = append(o.refused, r)
		o.drainSoon()
	}
}

func (o *outgoing) drainSoon() {
	if !o.draining {
		o.draining = true
		o.b.later(o.b.w.between(0, 100*time.Microsecond), o.drain)
	}
}

// receive takes a frame from the follower.
func (o *outgoing) receive(up session.Up) {
	if o.conn.learnt[1] {
		return
	}
	switch f := up.(type) {
	case session.Subscribe:
		old, superseded, err := o.core.Subscribe(f)
		delete(o.readers, old)
		if superseded {
			o.unsubscribe(f.Partition, old)
		}
		if err != nil {
			o.b.w.check.fail("broker %d breaks the protocol: %v", o.follower, err)
			return
		}
		r := o.b.replica(f.Partition)
		if r == nil {
			o.Refused(session.Refused{ID: f.ID, Code: cluster.CodeNotLeader, LeaderEpoch: record.NoEpoch, LogStart: -1})
			return
		}
		r.post(func() { r.Subscribe(o.follower, o.epoch, f, o) })
	case session.Unsubscribe:
		if tp, ok := o.core.End(f.ID); ok {
			delete(o.readers, f.ID)
			o.unsubscribe(tp, f.ID)
		}
		o.drainSoon()
	case session.Ack:
		of, ok := o.core.Acked(f)
		o.drainSoon()
		if r := o.b.replica(of.Partition); ok && r != nil {
			r.ack(replication.FollowerAck{Follower: o.follower, Epoch: o.epoch, ID: f.ID, LeaderEpoch: of.LeaderEpoch, LogEnd: f.LogEnd, Flushed: f.Flushed})
		}
	}
}

func (o *outgoing) unsubscribe(tp cluster.TopicPartition, id session.SubscriptionID) {
	if r := o.b.replica(tp); r != nil {
		r.post(func() { r.Unsubscribe(o.follower, o.epoch, id) })
	}
}

// drain sends everything that may be sent now.
func (o *outgoing) drain() {
	o.draining = false
	for !o.conn.broken {
		for _, r := range o.refused {
			o.sendDown(r)
		}
		o.refused = nil
		send, ok := o.core.Next()
		if !ok {
			return
		}
		o.turn(send)
	}
}

// turn reads one stretch of one partition and sends it.
func (o *outgoing) turn(send session.Send) {
	r, end, watermark, start, err := o.readers[send.ID].ReadReplica(send.From, send.Max)
	if err != nil {
		o.unreadable(send, err)
		return
	}
	data := session.Data{ID: send.ID, HighWatermark: watermark, LogStart: start, First: send.From}
	found := session.Found{HighWatermark: watermark, LogStart: start}
	if r != nil {
		data.Bytes, err = r.AppendTo(nil)
		r.Release()
		if err != nil {
			o.unreadable(send, err)
			return
		}
		found.Bytes, found.End = len(data.Bytes), end
	}
	if o.core.Sent(send.ID, found) {
		o.sendDown(data)
	}
}

func (o *outgoing) sendDown(f session.Down) {
	o.conn.send(1, func() {
		if in := o.near; in != nil {
			in.b.do(func() { in.receive(o.conn, f) })
		}
	})
}

// unreadable ends a subscription whose position cannot be read any more.
func (o *outgoing) unreadable(send session.Send, err error) {
	code := cluster.CodeStorage
	var refusal *cluster.Error
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	if tp, ok := o.core.End(send.ID); ok {
		delete(o.readers, send.ID)
		o.refused = append(o.refused, session.Refused{ID: send.ID, Code: code, LeaderEpoch: -1, LogStart: -1})
		o.unsubscribe(tp, send.ID)
	}
}

// end takes the stream out of the broker.
func (o *outgoing) end() {
	for _, s := range o.core.Subscriptions() {
		o.core.End(s.ID)
		o.unsubscribe(s.Partition, s.ID)
	}
	o.b.out = slices.DeleteFunc(o.b.out, func(other *outgoing) bool { return other == o })
}
