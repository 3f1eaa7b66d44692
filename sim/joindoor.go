package sim

import (
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// joinDoor is a broker's end of the stream of a native member. It makes one heartbeat at a time: see grpcapi.
type joinDoor struct {
	s      *groupShell
	conn   *joinStream
	m      *nativeMember
	base   group.Heartbeat
	static bool
	sent   uint64 // the version last told
	queue  []joinRequest
	woken  bool
	busy   bool
	opened bool
	closed bool
}

// receive takes a frame of the member; the first one opens the door.
func (s *joinStream) receive(m *nativeMember, req joinRequest) {
	d := s.door
	if d == nil {
		d = &joinDoor{s: s.b.groups, conn: s, m: m, static: req.InstanceID != ""}
		d.base = group.Heartbeat{Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Epoch: req.Epoch}
		s.door = d
		s.onEnd[1] = d.close
		d.s.doors = append(d.s.doors, d)
	}
	d.queue = append(d.queue, req)
	d.next()
}

func (d *joinDoor) watched() coordinator.Watched {
	return coordinator.Watched{Group: d.base.Group, Member: d.base.MemberID}
}

func (d *joinDoor) close() {
	d.closed = true
	d.s.doors = slices.DeleteFunc(d.s.doors, func(o *joinDoor) bool { return o == d })
}

// poke says that a heartbeat of the member would have news.
func (d *joinDoor) poke() {
	d.woken = true
	d.next()
}

// next makes the next heartbeat: one that the member sent, or one on its behalf.
func (d *joinDoor) next() {
	polls := d.woken && d.opened
	switch {
	case d.closed || d.busy || len(d.queue) == 0 && !polls:
	case polls && (len(d.queue) == 0 || d.s.b.w.chance(500)):
		d.woken = false
		beat := d.base
		beat.Poll, beat.Seen = true, d.sent
		d.heartbeat(beat, false)
	default:
		req := d.queue[0]
		d.queue = d.queue[1:]
		d.request(req)
	}
}

// request passes a heartbeat of the client on.
func (d *joinDoor) request(req joinRequest) {
	beat := d.base
	if !d.opened {
		if code := d.s.b.coordinates(req.Group); code != cluster.CodeNone {
			d.refuse(code)
			return
		}
		beat = req.Heartbeat
	}
	if req.Epoch > 0 {
		beat.Epoch = req.Epoch
	}
	beat.Seen, beat.Owned = req.Seen, req.Owned
	switch {
	case req.leave && d.static:
		beat.Epoch = group.EpochStaticLeave
	case req.leave:
		beat.Epoch = group.EpochLeave
	}
	d.heartbeat(beat, true)
}

// heartbeat asks the coordinator and tells the client. always answers even if nothing changed.
func (d *joinDoor) heartbeat(beat group.Heartbeat, always bool) { //nolint:revive // answer or push
	d.busy = true
	check := d.s.b.w.groups.check
	asked := check.applied
	d.s.submit(beat.Group, beat, check.watch(d.s.b, beat.Group, beat, func(r group.Reply) {
		d.busy = false
		if d.closed {
			return
		}
		if r.Code != cluster.CodeNone {
			d.refuse(r.Code)
			return
		}
		resp := r.Member
		if resp.Epoch > 0 {
			d.base.Epoch = resp.Epoch
		}
		if !d.opened {
			d.opened, d.woken = true, true // what changed between the join and the watch would wake nobody
		}
		if always || resp.Changed {
			d.sent = resp.Version
			d.tell(joinResponse{MemberReply: resp, over: resp.Epoch < 0, asked: asked})
		}
		d.next()
	}))
}

// refuse ends the stream with a reason.
func (d *joinDoor) refuse(code cluster.Code) {
	d.close()
	leader := cluster.NoBroker
	if code == cluster.CodeNotCoordinator {
		if leader = d.s.b.image.Shard(cluster.ShardOf(d.base.Group)).Leader; leader == d.s.b.id {
			code = cluster.CodeCoordinatorLoading // about to take over, or just moved
		}
	}
	d.tell(joinResponse{code: code, leader: leader, over: true})
}

func (d *joinDoor) tell(r joinResponse) {
	m, conn := d.m, d.conn
	conn.send(1, func() { m.do(func() { m.told(conn, r) }) })
}

func contains(set []cluster.TopicPartition, tp cluster.TopicPartition) bool {
	return slices.Contains(set, tp)
}
