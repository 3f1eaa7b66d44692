package sim

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/driver"
	"github.com/moldau-log/moldau/controller/state"
)

// metadata is the controller over an idealised Raft: one log whose entries are applied in order, late, and exactly once or never. A change of
// its leader loses some of what was proposed and leaves the fate of the rest unknown to who proposed it.
type metadata struct {
	w      *World
	state  *state.State
	twin   *state.State // what was once restored from a snapshot, nil for nothing
	driver *driver.Driver
	leads  bool
	term   int // leaderships so far
	queue  []*proposed
	busy   bool
	tickAt time.Duration // of the tick that is scheduled, 0 for none
	// stalled is until when nothing is committed.
	stalled time.Duration
}

// proposed is a command on its way into the log. done is told the result, or that it is not known; nil when nobody waits any more.
type proposed struct {
	cmd  cluster.Command
	done func(res cluster.Result, failed bool)
}

func newMetadata(w *World) *metadata {
	return &metadata{w: w, state: state.New(), driver: driver.New(driver.DefaultConfig())}
}

// propose puts a command into the log, later.
func (m *metadata) propose(cmd cluster.Command, done func(cluster.Result, bool)) {
	if !m.leads {
		if done != nil {
			done(cluster.Result{}, true)
		}
		return
	}
	m.queue = append(m.queue, &proposed{cmd: cmd, done: done})
	m.commitLater()
}

// commitLater lets the first of the queue be applied after the time that a majority takes.
func (m *metadata) commitLater() {
	if m.busy || len(m.queue) == 0 {
		return
	}
	m.busy = true
	d := m.w.between(500*time.Microsecond, 5*time.Millisecond)
	if m.w.chance(30) {
		d = m.w.between(10*time.Millisecond, 250*time.Millisecond)
	}
	m.w.after(max(d, m.stalled-m.w.now), m.commit)
}

// commit applies the first of the queue and tells everybody.
func (m *metadata) commit() {
	m.busy = false
	if len(m.queue) == 0 {
		return
	}
	p := m.queue[0]
	m.queue = m.queue[1:]
	before, groups := m.state.Image(), m.state.Groups()
	res := m.state.Apply(before.Index()+1, p.cmd)
	m.applyToTwin(p.cmd, &res)
	m.w.note("apply", int64(res.Index), int64(res.Code), commandKind(p.cmd))
	switch cmd := p.cmd.(type) {
	case cluster.AlterConfigs:
		m.w.note(fmt.Sprint("configs of ", cmd.Resource.Name, cmd.Ops))
	case cluster.Reassign:
		m.w.note(fmt.Sprint("reassign ", m.w.named(cmd.Partition), " to ", cmd.Replicas))
	}
	m.w.check.applied(before, m.state.Image(), p.cmd)
	m.w.groups.logged(p.cmd, res, before, groups)
	tell := func() {
		if p.done != nil {
			p.done(res, false)
		}
	}
	if m.w.chance(500) {
		tell()
		m.changed()
	} else {
		m.changed()
		tell()
	}
	for _, b := range m.w.brokers {
		m.push(b)
	}
	m.commitLater()
}

// changed tells the driver of the newest image.
func (m *metadata) changed() {
	if m.leads {
		m.step(driver.ImageChanged{Image: m.state.Image()})
	}
}

// step feeds the driver and does what it asks for.
func (m *metadata) step(in driver.Input) *driver.HeartbeatReply {
	e := m.driver.Step(m.w.now, in)
	term := m.term
	for _, p := range e.Propose {
		id := p.ID
		m.propose(p.Command, func(res cluster.Result, failed bool) {
			if m.leads && m.term == term {
				m.step(driver.ProposalDone{ID: id, Result: res, Failed: failed})
			}
		})
	}
	if e.Deadline != driver.NoDeadline && (m.tickAt == 0 || e.Deadline < m.tickAt) {
		m.tickAt = e.Deadline
		at := e.Deadline
		m.w.at(at, func() {
			if m.leads && m.term == term && m.tickAt == at {
				m.tickAt = 0
				m.step(driver.Tick{})
			}
		})
	}
	return e.Reply
}

// lead begins a leadership, with everything in the log applied.
func (m *metadata) lead() {
	if m.leads {
		return
	}
	for len(m.queue) > 0 {
		m.commit()
	}
	m.leads = true
	m.term++
	m.tickAt = 0
	m.w.note("controller leads", int64(m.term))
	m.step(driver.BecameLeader{Image: m.state.Image()})
}

// resign ends a leadership. Of what was proposed some is lost; the rest is applied, but who proposed it hears only that it does not know.
func (m *metadata) resign() {
	if !m.leads {
		return
	}
	m.w.cov.ControllerMoves++
	m.w.note("controller lost")
	m.leads = false
	m.driver.Step(m.w.now, driver.LostLeadership{})
	old := m.queue
	m.queue = nil
	for _, p := range old {
		if m.w.chance(500) {
			m.queue = append(m.queue, &proposed{cmd: p.cmd})
		}
		if p.done != nil {
			p.done(cluster.Result{}, true)
		}
	}
	m.commitLater()
}

// push sends the newest image to a broker, as replication of the log would, or as a snapshot (snapshots.go).
func (m *metadata) push(b *broker) {
	from := m.state
	if m.missed(b) {
		from = m.restored()
	}
	image, view := from.Image(), from.Groups()
	m.w.net.send(controllerNode, b.node(), func() {
		b.do(func() {
			b.whenApplying(func() {
				b.apply(view)
				b.hear(image)
			})
		})
	})
}

// heartbeat answers a broker, or stays silent without leadership.
func (m *metadata) heartbeat(in driver.Heartbeat, answer func(driver.HeartbeatReply)) {
	if !m.leads {
		return
	}
	if reply := m.step(in); reply != nil {
		answer(*reply)
	}
}

// alter takes an ISR proposal.
func (m *metadata) alter(cmd cluster.AlterPartition, answer func(cluster.Result, bool)) {
	if m.w.opts.Plant == PlantForgedISR && m.leads && m.w.chance(300) {
		if res, ok := m.forge(cmd); ok {
			answer(res, false)
			return
		}
	}
	m.propose(cmd, answer)
}

// forge answers a proposal as if it were in the log, and forgets it.
func (m *metadata) forge(cmd cluster.AlterPartition) (cluster.Result, bool) {
	res := cluster.Result{Index: m.state.Image().Index()}
	for _, c := range cmd.Changes {
		p, ok := m.state.Image().Partition(c.Partition)
		if !ok || p.PartitionEpoch != c.PartitionEpoch || p.LeaderEpoch != c.LeaderEpoch {
			return res, false
		}
		forged := p.Clone()
		forged.PartitionEpoch++
		forged.ISR = nil
		for _, member := range c.ISR {
			forged.ISR = append(forged.ISR, member.Broker)
		}
		res.Items = append(res.Items, cluster.ItemResult{Partition: forged})
	}
	return res, true
}

// commandKind numbers the kinds of commands that a history is made of.
func commandKind(cmd cluster.Command) int64 {
	switch cmd.(type) {
	case cluster.RegisterBroker:
		return 1
	case cluster.FenceBroker:
		return 2
	case cluster.UnfenceBroker:
		return 3
	case cluster.DrainBroker:
		return 4
	case cluster.ElectLeaders:
		return 5
	case cluster.AlterPartition:
		return 6
	case cluster.AssignShards:
		return 7
	case cluster.GroupAppend:
		return 8
	case cluster.CreateTopic, cluster.DeleteTopic, cluster.AddPartitions, cluster.ConfirmRemoved:
		return 9
	case cluster.AlterConfigs:
		return 10
	case cluster.Reassign, cluster.FinishReassign:
		return 11
	case cluster.SetLogStart:
		return 12
	case cluster.UnregisterBroker:
		return 13
	}
	return 0
}
