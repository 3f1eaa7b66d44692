package sim

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// nativeMember keeps a member in its group by heartbeats on a stream, as package client does: what goes is committed and given up, then what comes
// is read, then the coordinator hears what is read.
type nativeMember struct {
	*member
	epoch    int32
	seen     uint64
	heard    time.Duration
	interval time.Duration
	stream   *joinStream
	// applying says that an assignment is being carried out, next is the one after it.
	applying bool
	next     *group.MemberReply
}

// joinStream is one stream of a member to one life of a broker.
type joinStream struct {
	*stream
	b    *broker
	life int
	door *joinDoor
}

// joinRequest is a frame of a member, joinResponse one of a broker: an answer, or a refusal, which ends the stream.
type joinRequest struct {
	group.Heartbeat
	leave bool
}

type joinResponse struct {
	group.MemberReply
	code   cluster.Code
	leader cluster.BrokerID
	over   bool
	asked  int // the newest entry with records of groups when the coordinator was asked: for the checks
}

func (n *nativeMember) start() {
	n.id = fmt.Sprintf("m%d-%d", n.number, n.life)
	n.epoch, n.heard, n.interval, n.stream, n.next = 0, n.w.now, n.group.session/3, nil, nil
	n.connect()
}

func (n *nativeMember) stopped() { n.hangUp() }

func (n *nativeMember) identity() (string, int32) { return n.id, n.epoch }

func (n *nativeMember) unsettled() string {
	state, _ := n.w.meta.state.Groups().Group(n.group.name)
	switch {
	case state == nil:
		return "the group is not there"
	case n.stream == nil || n.applying || n.next != nil:
		return "member " + n.id + " is about to join or to follow"
	case n.epoch != state.Epoch:
		return fmt.Sprintf("member %s is at epoch %d of %d", n.id, n.epoch, state.Epoch)
	}
	return ""
}

// leave says good-bye and ends the process when the broker has heard it, or soon.
func (n *nativeMember) leave() {
	s := n.stream
	if s != nil && n.epoch > 0 {
		bye := n.beat(true)
		bye.leave = true
		n.send(bye)
	}
	n.stream = nil // what the broker says now is of no interest
	n.later(500*time.Millisecond, func() {
		if s != nil {
			s.breakUp()
		}
		n.crash()
	})
}

// connect opens a stream to whom the member takes for its coordinator and sends everything that there is to know.
func (n *nativeMember) connect() {
	s := &joinStream{stream: n.w.net.open(n.node, n.coordinator.node()), b: n.coordinator, life: n.coordinator.life}
	s.lanes[0].last = n.last[s.b.id]
	n.stream, n.seen, n.applying, n.next = s, 0, false, nil
	s.onEnd[0] = func() { n.do(func() { n.ended(s, joinResponse{over: true}) }) }
	first := n.beat(true)
	first.Group, first.InstanceID, first.Topics = n.group.name, n.instance, []string{groupTopic}
	first.SessionTimeout, first.RebalanceTimeout = n.group.session, n.group.rebalance
	n.send(first)
	n.later(n.interval, func() { n.keepUp(s) })
}

// keepUp sends heartbeats as long as the stream is the present one, and ends one on which nothing comes any more.
func (n *nativeMember) keepUp(s *joinStream) {
	if n.stream != s {
		return
	}
	if n.w.now-n.heard > silenceLimit+n.interval {
		n.heard = n.w.now - silenceLimit // the next stream has a little time too
		n.ended(s, joinResponse{over: true})
		return
	}
	n.send(n.beat(false))
	n.later(n.interval, func() { n.keepUp(s) })
}

// beat is a heartbeat, with what is owned if that may have changed.
func (n *nativeMember) beat(owned bool) joinRequest { //nolint:revive // two kinds of one message
	req := joinRequest{Heartbeat: group.Heartbeat{MemberID: n.id, Epoch: n.epoch, Seen: n.seen}}
	if owned {
		req.Owned = n.partitions()
	}
	return req
}

func (n *nativeMember) send(req joinRequest) {
	s := n.stream
	s.send(0, func() {
		if !s.b.up || s.b.life != s.life {
			s.breakUp()
			return
		}
		s.b.do(func() { s.receive(n, req) })
	})
	n.last[s.b.id] = max(n.last[s.b.id], s.lanes[0].last)
}

func (n *nativeMember) hangUp() {
	if n.stream != nil {
		n.stream.breakUp()
		n.stream = nil
	}
}

// told takes a frame of the broker.
func (n *nativeMember) told(s *joinStream, r joinResponse) {
	if n.stream != s {
		return
	}
	if r.over {
		n.ended(s, r)
		return
	}
	if n.epoch == 0 && r.Epoch > 0 {
		n.w.cov.Joins++
	}
	n.w.groups.check.told(n.group.name, r.asked, r.Epoch)
	n.heard, n.interval, n.epoch = n.w.now, r.HeartbeatInterval, r.Epoch
	n.w.note("member at", int64(n.number), int64(r.Epoch), int64(len(r.Assigned)), int64(len(r.Revoke)))
	if r.Changed && r.Version != n.seen {
		n.next = &r.MemberReply
		n.follow(s)
	}
}

// ended decides what a broken membership means.
func (n *nativeMember) ended(s *joinStream, r joinResponse) {
	if n.stream != s {
		return
	}
	n.hangUp()
	switch r.code {
	case cluster.CodeUnknownMember, cluster.CodeFencedMemberEpoch:
		n.w.cov.MembersFenced++
		n.lose()
	case cluster.CodeFencedInstance:
		n.w.cov.InstancesFenced++
		n.lose()
		n.fencedForGood = true
		n.crash()
		return
	default:
		if n.w.now-n.heard > n.group.session {
			n.lose()
		}
	}
	if r.code == cluster.CodeNotCoordinator && r.leader >= 0 {
		n.coordinator = n.w.brokers[r.leader]
	} else {
		n.refresh()
	}
	n.later(n.w.between(20*time.Millisecond, 200*time.Millisecond), func() {
		if n.stream == nil {
			n.connect()
		}
	})
}

// lose drops every partition: the group has given this member up.
func (n *nativeMember) lose() {
	n.epoch = 0
	n.dropAll()
}

// follow makes what is read what the group assigned: first what goes, then what comes.
func (n *nativeMember) follow(s *joinStream) {
	if n.applying || n.next == nil || n.stream != s {
		return
	}
	r := *n.next
	n.next, n.applying, n.seen = nil, true, r.Version
	current := func() bool { return n.stream == s }
	applied := func() {
		if !current() {
			return
		}
		n.applying = false
		n.send(n.beat(true))
		n.follow(s)
	}
	begin := func() {
		var coming []cluster.TopicPartition
		for _, tp := range r.Assigned {
			if n.holding(tp) == nil {
				coming = append(coming, tp)
			}
		}
		if len(coming) == 0 {
			applied()
			return
		}
		n.begin(coming, current, applied)
	}
	var going []cluster.TopicPartition
	for _, tp := range n.partitions() {
		if !contains(r.Assigned, tp) {
			going = append(going, tp)
		}
	}
	if len(going) == 0 {
		begin()
		return
	}
	n.w.cov.Revocations++
	n.commit(going, func() {
		if current() {
			n.drop(going)
			begin()
		}
	})
}
