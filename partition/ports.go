package partition

import (
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

var (
	_ fetcher.Target = (*Manager)(nil)
	_ fetcher.Source = (*Manager)(nil)
)

// Data implements fetcher.Target.
func (m *Manager) Data(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, d session.Data, recycle func()) bool {
	r, ok := m.Get(tp)
	return ok && r.put(message{kind: kindData, other: &delivery{leaderEpoch: leaderEpoch, data: d, recycle: recycle}}, m.options.InboxSize)
}

// Refused implements fetcher.Target.
func (m *Manager) Refused(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, refused session.Refused) {
	if r, ok := m.Get(tp); ok {
		r.put(message{kind: kindInput, other: &replication.SubscribeRefused{LeaderEpoch: leaderEpoch, Refused: refused}}, 0)
	}
}

// Lost implements fetcher.Target. There is nothing to do: the log is where it is, and the fetcher asks for the position when it has reconnected.
func (m *Manager) Lost(cluster.TopicPartition, record.LeaderEpoch) {}

// Position implements fetcher.Target.
func (m *Manager) Position(tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch) (fetcher.Position, bool) {
	r, ok := m.Get(tp)
	if !ok {
		return fetcher.Position{}, false
	}
	return r.reader.position(leaderEpoch)
}

func (r *reader) position(leaderEpoch record.LeaderEpoch) (fetcher.Position, bool) {
	v := r.view.Load()
	if v.role != RoleFollower || v.leaderEpoch != leaderEpoch {
		return fetcher.Position{}, false
	}
	return fetcher.Position{LogEnd: v.logEnd, Flushed: v.flushed, LogStart: v.logStart, LastEpoch: v.lastEpoch}, true
}

// Subscribe implements fetcher.Source.
func (m *Manager) Subscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s session.Subscribe, sink fetcher.Sink) {
	refused := session.Refused{ID: s.ID, Code: cluster.CodeNotLeader, LeaderEpoch: record.NoEpoch, LogStart: -1}
	r, ok := m.Get(s.Partition)
	if !ok {
		sink.Refused(refused)
		return
	}
	if !r.put(message{kind: kindSubscribe, other: &subscriber{follower: follower, epoch: epoch, request: s, sink: sink}}, m.options.InboxSize) {
		refused.Code = cluster.CodeOverloaded
		sink.Refused(refused)
	}
}

// Unsubscribe implements fetcher.Source.
func (m *Manager) Unsubscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, tp cluster.TopicPartition, id session.SubscriptionID) {
	if r, ok := m.Get(tp); ok {
		r.put(message{kind: kindUnsubscribe, other: &unsubscriber{follower: follower, epoch: epoch, id: id}}, 0)
	}
}

// Ack implements fetcher.Source. Only the newest of a subscription is kept: acks are never lost to a full inbox, and need no bound of their own.
func (m *Manager) Ack(follower cluster.BrokerID, epoch cluster.BrokerEpoch, tp cluster.TopicPartition, leaderEpoch record.LeaderEpoch, a session.Ack) {
	r, ok := m.Get(tp)
	if !ok {
		return
	}
	ack := replication.FollowerAck{
		Follower: follower, Epoch: epoch, ID: a.ID, LeaderEpoch: leaderEpoch, LogEnd: a.LogEnd, Flushed: a.Flushed,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for i := range r.acks {
		if r.acks[i].Follower == follower {
			r.acks[i] = ack
			return
		}
	}
	r.acks = append(r.acks, ack)
	r.start()
}
