package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/test/soak/plan"
)

// faults are what makes each family: it begins the fault and sets end and, for people, detail.
var faults = map[plan.Family]func(context.Context, *nemesis, *fault) error{
	plan.KillOne:          kill,
	plan.KillSeveral:      kill,
	plan.KillAll:          kill,
	plan.PauseShort:       freeze,
	plan.PauseLong:        freeze,
	plan.ControllerMove:   moveController,
	plan.RollingRestart:   rollingRestart,
	plan.Wipe:             wipe,
	plan.BitFlip:          bitFlip,
	plan.CrashLoop:        crashLoop,
	plan.PartitionFull:    partitionFull,
	plan.PartitionOneWay:  partitionOneWay,
	plan.PartitionPartial: partitionPartial,
	plan.PartitionClients: partitionClients,
	plan.LossyLink:        lossyLink,
	plan.SlowNetwork:      slowNetwork,
	plan.SlowDisk:         slowDisk,
	plan.DiskFull:         diskFull,
	plan.FsyncError:       fsyncError,
	plan.DiskDead:         diskDead,
	plan.PowerCutOne:      powerCut,
	plan.PowerCutAll:      powerCut,
	plan.Transfer:         transfer,
	plan.Reassign:         reassign,
}

// each does something to every target at once, and joins the errors.
func (n *nemesis) each(targets []int, f func(*node) error) error {
	errs := make([]error, len(targets))
	var done sync.WaitGroup
	for i, t := range targets {
		done.Go(func() { errs[i] = f(n.cluster.nodes[t]) })
	}
	done.Wait()
	return errors.Join(errs...)
}

// kill is kill -9, and a start at the end.
func kill(_ context.Context, n *nemesis, f *fault) error {
	f.end = func() error { return n.each(f.Targets, (*node).up) }
	return n.each(f.Targets, (*node).down)
}

// freeze stops processes with SIGSTOP: their connections stay.
func freeze(_ context.Context, n *nemesis, f *fault) error {
	f.end = func() error {
		return n.each(f.Targets, func(b *node) error { b.Signal(syscall.SIGCONT); return nil })
	}
	return n.each(f.Targets, func(b *node) error { b.Signal(syscall.SIGSTOP); return nil })
}

// moveController freezes the controller, or cuts it off from the other brokers, until another one controls.
func moveController(ctx context.Context, n *nemesis, f *fault) error {
	b, err := n.cluster.controller(ctx)
	if err != nil {
		f.detail = "none is known"
		return nil
	}
	f.Targets = []int{b.ID}
	if f.Draw%2 == 0 {
		f.detail = fmt.Sprintf("broker %d is frozen", b.ID)
		return freeze(ctx, n, f)
	}
	f.detail = fmt.Sprintf("broker %d is cut off", b.ID)
	return partitionFull(ctx, n, f)
}

// rollingPatience is how long a rolling restart waits for health between two brokers.
const rollingPatience = 60 * time.Second

// rollingRestart stops each broker with SIGTERM and starts it, and waits for health before the next, as docs/operations.md says.
func rollingRestart(ctx context.Context, n *nemesis, f *fault) error {
	for _, b := range n.cluster.nodes {
		if _, err := n.cluster.awaitHealthy(ctx, rollingPatience); err != nil {
			return fmt.Errorf("before broker %d: %w", b.ID, err)
		}
		if err := errors.Join(b.terminate(), b.up()); err != nil {
			return err
		}
	}
	return nil
}

// wipe removes the directory of a broker, as a lost disk does. That may lose data unless the others have all of it: it is done only while all replicas are in sync.
func wipe(ctx context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	if _, err := n.cluster.awaitHealthy(ctx, settlePatience); err != nil {
		return errors.Join(errSkipped, err)
	}
	f.end = b.up
	return errors.Join(b.down(), b.Wipe())
}
