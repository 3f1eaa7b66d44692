package partition

import (
	"log/slog"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/segment"
)

// RetryPause is how long to wait between two calls of Manager.Retry.
const RetryPause = 5 * time.Second

// awaitRoom remembers a replica that could not be opened because the disk was full. Any other failure is final in this life of the broker.
func (m *Manager) awaitRoom(o opening) {
	if segment.Full(o.err) {
		m.waiting = append(m.waiting, o.tp)
	}
}

// openWaiting opens a replica that has waited for room.
func (m *Manager) openWaiting(at place) opening {
	o := m.openAgain(at)
	if o.log != nil && o.report.Doubtful && slices.Contains(m.counted, at.tp) {
		o.log.Abandon()
		o.log, o.err = nil, errDoubtful
	}
	return o
}

// Retry opens or creates again what could not be because the disk was full, as far as it is still wanted: at most 64 replicas, so that news of others do not
// wait, and one first, so that a disk that stays full costs one attempt, and no line in the log, whatever waits. Such a replica was reported offline, and has
// taken part in nothing. To come late is for it like to be slow. But one that still counts as complete, and of which it turns out only now that it may lack records, stays offline: the next
// start reports that before anybody can count on it.
func (m *Manager) Retry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.planner.self == cluster.NoBrokerEpoch {
		return // before the broker is registered nobody has said what is wanted
	}
	seen := map[cluster.TopicPartition]bool{} // one that was removed and created again waits twice
	m.waiting = slices.DeleteFunc(m.waiting, func(tp cluster.TopicPartition) bool {
		r, ok := m.Get(tp)
		gone := !ok || !r.noRoom || seen[tp]
		seen[tp] = true
		return gone
	})
	before := len(m.waiting)
	for _, n := range []int{1, createPass - 1} {
		n = min(n, len(m.waiting))
		list := m.waiting[:n:n]
		m.waiting = m.waiting[n:]
		opened := m.openAll(list, m.planner.last, m.openWaiting)
		left := slices.DeleteFunc(slices.Clone(opened), func(o opening) bool { return !segment.Full(o.err) })
		m.takeIn(slices.DeleteFunc(opened, func(o opening) bool { return segment.Full(o.err) }), m.planner.last)
		for _, o := range left {
			m.awaitRoom(o)
		}
		if len(left) > 0 {
			break
		}
	}
	if done := before - len(m.waiting); done > 0 {
		m.options.Log.Info("replicas opened for which the disk had been too full", slog.Int("replicas", done), slog.Int("waiting", len(m.waiting)))
	}
}
