package partition

import (
	"maps"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// ProducerStatus is what a partition remembers of one idempotent producer.
type ProducerStatus struct {
	ID           record.ProducerID
	Epoch        record.ProducerEpoch
	LastSequence record.Sequence // of its newest batch
	LastMs       int64           // wall clock of its newest append, or of a repeat, ms since 1970
}

// Producers lists the producers that the partition remembers, in the order of their ids. It waits for the runner, at most a second; then, and when the
// replica is being closed, it answers CodeTimedOut or CodeShuttingDown.
func (r *Runner) Producers() ([]ProducerStatus, cluster.Code) {
	answer := make(chan []ProducerStatus, 1)
	if !r.put(message{kind: kindProducers, other: (chan<- []ProducerStatus)(answer)}, 0) {
		return nil, cluster.CodeShuttingDown
	}
	timer := time.NewTimer(statusTimeout)
	defer timer.Stop()
	select {
	case list := <-answer:
		return list, cluster.CodeNone
	case <-timer.C:
		return nil, cluster.CodeTimedOut
	}
}

// list is what is known, in the order of ids.
func (t *Producers) list() []ProducerStatus {
	out := make([]ProducerStatus, 0, len(t.known))
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		p := t.known[id]
		out = append(out, ProducerStatus{ID: id, Epoch: p.epoch, LastSequence: p.newest().last, LastMs: p.lastMs})
	}
	return out
}
