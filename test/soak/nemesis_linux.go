package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moldau-log/moldau/internal/history"
	"github.com/moldau-log/moldau/test/soak/plan"
)

// settlePatience bounds how long a cluster without a fault may take, between two steps, to become healthy.
const settlePatience = 60 * time.Second

// errSkipped is a fault that was not made because it could lose what nothing protects.
var errSkipped = errors.New("soak: not now")

// nemesis makes faults and takes them back.
type nemesis struct {
	*soak
	op    int64
	steps []plan.Step
}

// fault is one that holds: end takes it back. What could not be made has an end all the same.
type fault struct {
	plan.Fault
	detail string
	end    func() error
}

func newNemesis(s *soak) *nemesis {
	return &nemesis{soak: s, steps: plan.Draw(s.seed, s.duration, s.brokers, s.families)}
}

// run executes steps until their time is over.
func (n *nemesis) run(ctx context.Context) {
	over := time.Now().Add(n.duration)
	for _, step := range n.steps {
		if !pause(ctx, step.Quiet) || time.Now().After(over) {
			return
		}
		n.step(ctx, step)
		if !step.Settle || ctx.Err() != nil {
			continue
		}
		took, err := n.cluster.awaitHealthy(ctx, settlePatience)
		n.report.settled(took, err)
		if err != nil && ctx.Err() == nil {
			n.report.fail("not healthy without a fault: %v", err)
		}
	}
}

func (n *nemesis) step(ctx context.Context, step plan.Step) {
	var held []fault
	for _, f := range step.Faults {
		h := n.begin(ctx, f)
		held = append(held, h)
	}
	pause(ctx, step.Hold)
	for _, h := range slices.Backward(held) {
		if err := h.end(); err != nil {
			n.report.fail("%s: end: %v", h.Family, err)
		}
	}
}

// begin makes a fault and notes it in the history; so does its end.
func (n *nemesis) begin(ctx context.Context, f plan.Fault) fault {
	n.op++
	e := history.Event{Client: "nemesis", Op: n.op, Kind: history.Fault, Action: string(f.Family)}
	h := fault{Fault: f, end: func() error { return nil }}
	note := func(t history.Type) {
		e.Time, e.Type = history.Now(), t
		n.rec.Write(e)
	}
	note(history.Invoke)
	err := faults[f.Family](ctx, n, &h)
	n.say("%s %s", f.Family, strings.TrimSpace(fmt.Sprint(targets(f), " ", h.detail)))
	switch {
	case errors.Is(err, errSkipped):
		n.say("  left out: %v", err)
		n.report.skipped(f.Family)
	case err != nil && ctx.Err() == nil:
		n.say("  %v", err)
		n.report.fail("%s: %v", f.Family, err)
	default:
		n.report.made(f.Family)
	}
	end := h.end
	h.end = func() error {
		err := end()
		e.Error = h.detail
		note(history.OK)
		return err
	}
	return h
}

func targets(f plan.Fault) string {
	if len(f.Targets) == 0 {
		return ""
	}
	return fmt.Sprint(f.Targets)
}

// pause waits; it reports whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
