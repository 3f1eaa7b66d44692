package sim

import (
	"errors"
	"maps"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/controller/state"
)

// errUnknownOutcome says that nobody knows what became of an append.
var errUnknownOutcome = errors.New("sim: the connection to the controller is gone")

// append proposes a command once and hands the outcome to the loop: its result, that it is not known, or that it was never proposed. How long it
// takes to notice that an answer does not come is up to chance. It returns how that goes.
func (s *groupShell) append(cmd cluster.GroupAppend) *attempt {
	w := s.b.w
	w.cov.GroupAppends++
	answered := false
	answer := func(res cluster.Result, err error) {
		if answered {
			return
		}
		answered = true
		if err != nil {
			if w.opts.Plant == PlantEternalCoordinator {
				err = cluster.Refuse(cluster.CodeNoController, "no controller")
			}
			w.cov.GroupAppendsUnknown++
		}
		s.outcomes = append(s.outcomes, func() { s.core.Appended(s.env(), res, err) })
		s.wake()
	}
	patience := s.config.AppendTimeout
	if w.chance(700) {
		patience = w.between(300*time.Millisecond, 1500*time.Millisecond)
	}
	tried := &attempt{deadline: w.now + patience, answer: answer}
	s.propose(cmd, tried)
	s.b.later(patience, func() {
		if tried.waits {
			tried.over = !answered
			answer(cluster.Result{}, cluster.Refuse(cluster.CodeNoController, "no controller"))
			return
		}
		answer(cluster.Result{}, errUnknownOutcome)
	})
	breaks := 15
	if s.b.applies > w.now {
		breaks = 250 // what delays the metadata is often that connection
	}
	if w.chance(breaks) { // the connection ends while the answer, or the request itself, is on its way
		s.b.later(w.between(0, 8*time.Millisecond), func() {
			if !tried.waits {
				answer(cluster.Result{}, errUnknownOutcome)
			}
		})
	}
	return tried
}

// attempt is one append on its way. While it waits it is certain that nothing was proposed.
type attempt struct {
	deadline time.Duration
	answer   func(cluster.Result, error)
	waits    bool
	over     bool // its sender was told that nothing was proposed
}

// propose sends a command to the controller, and again as long as there is none.
func (s *groupShell) propose(cmd cluster.GroupAppend, t *attempt) {
	w, b, life := s.b.w, s.b, s.b.life
	home := func(what func()) {
		w.net.send(controllerNode, b.node(), func() {
			if b.up && b.life == life {
				b.do(what)
			}
		})
	}
	t.waits = false
	deliver := func() {
		if !w.meta.leads {
			home(func() {
				t.waits = true
				b.later(proposePause, func() {
					if w.now < t.deadline && !t.over { // a fast clock has given it up earlier
						s.propose(cmd, t)
					}
				})
			})
			return
		}
		w.meta.propose(cmd, func(res cluster.Result, failed bool) {
			if failed && w.opts.Plant == PlantResentAppend {
				w.after(w.between(0, 2*time.Second), func() { w.groups.resend(cmd) })
			}
			home(func() {
				if failed {
					t.answer(cluster.Result{}, errUnknownOutcome)
					return
				}
				t.answer(res, nil)
			})
		})
		w.groups.proposed()
	}
	if w.groups.holds(cmd) || w.chance(15) { // it lies in a buffer for a while, maybe after its sender has given it up
		late := deliver
		deliver = func() { w.after(w.between(0, 2*time.Second), late) }
	}
	w.net.send(b.node(), controllerNode, deliver)
}

// load brings the content of a shard, once this broker has applied what it must include.
func (s *groupShell) load(l coordinator.Load) {
	d := s.b.w.between(0, 3*time.Millisecond)
	if l.Attempt > 0 {
		d += s.config.LoadRetry
	}
	deadline := s.b.Now() + d + s.config.LoadTimeout
	s.b.later(d, func() { s.await(l, deadline) })
}

// await waits until an entry is applied here, and takes the shard.
func (s *groupShell) await(l coordinator.Load, deadline time.Duration) {
	w, view := s.b.w, s.b.view
	switch {
	case view.Index() >= l.MinIndex:
		at := view.Shard(l.Shard)
		content := coordinator.ShardContent{Epoch: at.Epoch, NextSequence: at.NextSequence, Records: view.Records(l.Shard)}
		if w.opts.Plant == PlantStaleLoad {
			content.Records = w.groups.former(l.Shard, view).Records(l.Shard)
		}
		s.contents = append(s.contents, func() { s.loaded(l, content) })
		s.wake()
	case s.b.Now() >= deadline:
		s.contents = append(s.contents, func() { s.core.LoadFailed(l) })
		s.wake()
	default:
		s.b.later(10*time.Millisecond, func() { s.await(l, deadline) })
	}
}

func (s *groupShell) loaded(l coordinator.Load, content coordinator.ShardContent) {
	w := s.b.w
	s.served[l.Shard] = s.b.Now()
	maps.DeleteFunc(s.suspect, func(m coordinator.Watched, _ time.Duration) bool { return cluster.ShardOf(m.Group) == l.Shard })
	if w.groups.uses(l.Shard) && l.Epoch > 1 {
		w.cov.Takeovers++
		w.note("takeover", int64(s.b.id), int64(l.Shard), int64(l.Epoch), content.NextSequence)
	}
	s.core.Loaded(s.env(), l, content)
}

// apply takes the groups as of a newer entry of the metadata log.
func (b *broker) apply(view *state.GroupView) {
	if b.view == nil || view.Index() > b.view.Index() {
		b.view = view
	}
}
