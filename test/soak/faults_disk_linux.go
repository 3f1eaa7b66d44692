package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// excuse is how long after the end of a fault of its disk a broker may still end by itself.
const excuse = 15 * time.Second

// slowDisk makes each flush of a broker wait, and every system call of it slower.
func slowDisk(_ context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	delay := time.Duration(20+f.Draw%400) * time.Millisecond
	f.detail = fmt.Sprintf("%v a flush", delay)
	if !b.Running() {
		return nil
	}
	pid := b.Pid()
	trace, err := b.Inject("fsync,fdatasync", fmt.Sprintf("delay_enter=%d", delay.Microseconds()))
	if err != nil {
		return err
	}
	f.end = func() error { return trace.End(b.Pid() != pid) }
	return nil
}

// fsyncError makes a flush or a write of a broker fail, once or from then on; at the end the broker is started again, as an operator does.
func fsyncError(_ context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	if !b.Running() {
		return nil
	}
	rules := []struct{ calls, rule string }{
		{"fsync,fdatasync", "error=EIO:when=%d"},
		{"fsync,fdatasync", "error=EIO:when=%d+"},
		{"pwrite64", "error=EIO:when=%d"},
		{"pwrite64", "error=ENOSPC:when=%d+"},
	}
	r := rules[f.Draw%uint64(len(rules))]
	rule := fmt.Sprintf(r.rule, 1+f.Draw>>8%4) // strace counts each thread on its own
	f.detail = r.calls + " " + rule
	b.excuse(time.Hour)
	pid := b.Pid()
	trace, err := b.Inject(r.calls, rule)
	if err != nil {
		return err
	}
	f.end = func() error {
		err := trace.End(b.Pid() != pid)
		if f.Draw>>16%2 == 0 {
			err = errors.Join(err, b.down())
		} else {
			err = errors.Join(err, b.terminate())
		}
		b.excuse(0)
		return errors.Join(err, b.up())
	}
	return nil
}

// diskFull takes the free space of a broker's disk, all or nearly all of it.
func diskFull(_ context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	leave := []int64{0, 64 << 10, 2 << 20, 12 << 20}[f.Draw%4]
	f.detail = fmt.Sprintf("%d KiB are left", leave>>10)
	b.excuse(time.Hour)
	f.end = func() error {
		b.excuse(excuse)
		return b.Disk.Free()
	}
	return b.Disk.Fill(leave)
}

// diskDead stops a broker's disk, which answers with errors from then on, while the process goes on; at the end the machine is switched off and on, and what the disk had synced is there again.
func diskDead(_ context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	b.excuse(time.Hour)
	f.end = func() error {
		err := errors.Join(b.down(), b.Disk.Restore())
		b.excuse(0)
		return errors.Join(err, b.up())
	}
	return b.Disk.Stop()
}

// powerCut takes the power of brokers away at once: what they had not synced is gone.
func powerCut(_ context.Context, n *nemesis, f *fault) error {
	f.end = func() error { return n.each(f.Targets, (*node).up) }
	cut := func(b *node) error { return b.powerCut() }
	return n.each(f.Targets, cut)
}

// powerCut kills the broker, drops what its disk had not synced, and leaves it down.
func (n *node) powerCut() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = false
	// The disk stops first, so that nothing of what the dying process leaves behind is written; a machine without power stops both.
	if err := n.Disk.Stop(); err != nil {
		return err
	}
	return errors.Join(n.Kill(), n.Disk.Restore())
}
