package driver

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
)

// session is what the controller knows of one life of a broker.
type session struct {
	epoch     cluster.BrokerEpoch
	heard     time.Duration // when it gave its last sign of life
	applied   uint64
	wantDrain bool
	// refused is when its peer port first refused a connection since then; dead says that it did so again, RefusalGap later.
	refused    time.Duration
	hasRefused bool
	dead       bool
	drainedAt  uint64 // index of the image that showed it draining, 0 while it does not
	fencedAt   uint64 // index of the image that showed it fenced, 0 while it is not
	busy       bool   // a proposal about it is outstanding
	fencing    bool   // ... and it is to fence it
	retry      time.Duration
}

func eligible(b *cluster.Broker) bool { return b != nil && b.Eligible() }

func epochOf(b *cluster.Broker) cluster.BrokerEpoch {
	if b == nil {
		return cluster.NoBrokerEpoch
	}
	return b.Epoch
}

// brokerChanged follows registrations and removals.
func (d *Driver) brokerChanged(now time.Duration, c cluster.Change[cluster.BrokerID, *cluster.Broker]) {
	if c.New == nil {
		delete(d.brokers, c.Key)
		return
	}
	s, ok := d.brokers[c.Key]
	if !ok || s.epoch != c.New.Epoch {
		s = &session{epoch: c.New.Epoch, heard: now}
		d.brokers[c.Key] = s
		d.forgetOffline(c.Key)
	}
	s.see(c.New, d.img.Index())
}

// see notes since which entry the broker drains and is fenced.
func (s *session) see(b *cluster.Broker, index uint64) {
	if b.Draining && s.drainedAt == 0 {
		s.drainedAt = index
	}
	if !b.Fenced {
		s.fencedAt = 0
		return
	}
	s.fencing = false
	if s.fencedAt == 0 {
		s.fencedAt = index
	}
}

// heartbeat renews a session and answers.
func (d *Driver) heartbeat(now time.Duration, in Heartbeat) {
	b, ok := d.img.Broker(in.Broker)
	switch {
	case !ok:
		d.effects.Reply = &HeartbeatReply{Code: cluster.CodeUnknownBroker}
		return
	case b.Epoch != in.Epoch:
		d.effects.Reply = &HeartbeatReply{Code: cluster.CodeStaleBrokerEpoch}
		return
	}
	s := d.brokers[in.Broker]
	s.heard, s.hasRefused, s.dead = now, false, false
	s.applied = max(s.applied, in.Applied)
	s.wantDrain = s.wantDrain || in.WantDrain
	for _, tp := range in.Offline {
		d.offline[replica{tp, in.Broker}] = in.Epoch
		delete(d.opened, replica{tp, in.Broker})
		d.todo[tp] = true
	}
	for _, tp := range in.Online {
		delete(d.offline, replica{tp, in.Broker})
		d.opened[replica{tp, in.Broker}] = true
		d.todo[tp] = true
	}
	for _, other := range in.Refusing {
		if o, ok := d.brokers[other]; ok && other != in.Broker {
			o.dead = true
		}
	}
	d.effects.Reply = &HeartbeatReply{Fenced: b.Fenced || s.fencing && !planted.On(planted.LeaseWhileFencing), MayShutDown: s.wantDrain && b.Fenced}
}

// peerRefused counts refused connections of the controller itself.
func (d *Driver) peerRefused(now time.Duration, id cluster.BrokerID) {
	s, ok := d.brokers[id]
	switch {
	case !ok:
	case !s.hasRefused:
		s.hasRefused, s.refused = true, now
	case now-s.refused >= d.cfg.RefusalGap:
		s.dead = true
	}
}

// sessionDeadline is when the silence of a broker that counts becomes too long, or a retry about it is due.
func (d *Driver) sessionDeadline(now time.Duration, id cluster.BrokerID) time.Duration {
	b, ok := d.img.Broker(id)
	s := d.brokers[id]
	switch {
	case !ok || s.busy:
		return NoDeadline
	case b.Fenced:
		if d.mayUnfence(b, s) && now < s.retry {
			return s.retry
		}
		return NoDeadline
	}
	at := s.heard + d.cfg.Session
	if s.dead {
		at = min(at, s.heard+d.cfg.MissedBeat)
	}
	if s.wantDrain && (!b.Draining || s.knowsItDrains(b)) {
		at = min(at, s.retry)
	}
	return max(at, s.retry)
}

// Live reports whether a broker has a session at the time now: it was heard in its present life, and not too long ago. Without leadership nobody has.
func (d *Driver) Live(now time.Duration, id cluster.BrokerID) bool {
	if d.img == nil {
		return false
	}
	s, ok := d.brokers[id]
	return ok && now < s.heard+d.cfg.Session && !(s.dead && now >= s.heard+d.cfg.MissedBeat)
}

// watchSessions proposes what the sessions ask for, one thing at a time for each broker.
func (d *Driver) watchSessions(now time.Duration) {
	for _, id := range sortedKeys(d.brokers) {
		b, ok := d.img.Broker(id)
		s := d.brokers[id]
		if !ok || s.busy || now < s.retry {
			continue
		}
		about := &outstanding{session: s}
		switch {
		case !b.Fenced && !d.Live(now, id):
			s.fencing = true
			d.propose(cluster.FenceBroker{Broker: id, Epoch: s.epoch}, about)
		case !b.Fenced && s.wantDrain && !b.Draining:
			d.propose(cluster.DrainBroker{Broker: id, Epoch: s.epoch}, about)
		case !b.Fenced && s.wantDrain && s.knowsItDrains(b):
			// Its leaderships have moved and it knows: nothing that it answers from its lease can be overtaken any more.
			s.fencing = true
			d.propose(cluster.FenceBroker{Broker: id, Epoch: s.epoch}, about)
		case b.Fenced && d.mayUnfence(b, s) && d.Live(now, id):
			d.propose(cluster.UnfenceBroker{Broker: id, Epoch: s.epoch}, about)
		}
	}
}

// mayUnfence reports whether a broker wants to work and has caught up with the entry that fenced it, which is its registration or a later one. A
// broker that a new leader has not heard yet has not.
func (d *Driver) mayUnfence(b *cluster.Broker, s *session) bool {
	return !s.wantDrain && !b.Draining && s.applied >= max(s.fencedAt, uint64(s.epoch))
}

// knowsItDrains reports whether a broker has applied the entry that made it drain.
func (s *session) knowsItDrains(b *cluster.Broker) bool {
	return b.Draining && s.drainedAt != 0 && s.applied >= s.drainedAt
}

func (d *Driver) eligibleBrokers() []cluster.BrokerID {
	var out []cluster.BrokerID
	for b := range d.img.Brokers() {
		if b.Eligible() {
			out = append(out, b.ID)
		}
	}
	return out
}
