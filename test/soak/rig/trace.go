//go:build linux

package rig

import (
	"bytes"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// tracePatience bounds how long strace may take to let a process go.
const tracePatience = 10 * time.Second

// Trace is a strace that is attached to a running broker and changes what its system calls do.
type Trace struct {
	cmd  *exec.Cmd
	done chan struct{}
	out  bytes.Buffer // read after done
}

// Inject attaches to the broker's process, all threads; rule is what follows strace's "-e inject=", for the system calls in calls.
func (b *Broker) Inject(calls, rule string) (*Trace, error) {
	pid := b.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("rig: broker %d does not run", b.ID)
	}
	t := &Trace{done: make(chan struct{})}
	t.cmd = exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", fmt.Sprint(pid), "-e", "trace="+calls, "-e", "inject="+calls+":"+rule)
	t.cmd.Stderr = &t.out
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("rig: strace: %w", err)
	}
	go func() {
		defer close(t.done)
		_ = t.cmd.Wait() // End tells how it ended
	}()
	return t, nil
}

// End detaches. A strace that had failed by itself is an error, unless its process was gone.
func (t *Trace) End(processGone bool) error {
	select {
	case <-t.done:
		if processGone {
			return nil
		}
		return fmt.Errorf("rig: strace ended by itself: %s", t.out.String())
	default:
	}
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-t.done:
	case <-time.After(tracePatience):
		_ = t.cmd.Process.Kill()
		<-t.done
	}
	return nil
}
