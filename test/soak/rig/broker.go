//go:build linux

package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Ports of every broker, each on an address of its own.
const (
	KafkaPort = 9092
	PeerPort  = 9093
	GRPCPort  = 9094
	HTTPPort  = 9644
)

// endPatience bounds how long a killed process may take to be gone. A process in an uninterruptible wait for a disk takes its time.
const endPatience = 30 * time.Second

// Broker is one broker: its disk, and its process while it runs.
type Broker struct {
	ID   int
	Disk *Disk
	Log  string // what the process writes, all its lives in one file

	bin  string
	args []string

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	done   chan struct{} // closed when the present process has ended
	starts int
	rss    int64 // the highest resident size of earlier lives, in bytes
}

// NewBroker prepares broker id of n; flags are added to its command line.
func NewBroker(bin, dir string, id, n int, disk *Disk, flags ...string) *Broker {
	b := &Broker{ID: id, Disk: disk, Log: filepath.Join(dir, fmt.Sprintf("broker-%d.log", id)), bin: bin}
	var seeds []string
	for i := range n {
		seeds = append(seeds, Endpoint(i, PeerPort))
	}
	b.args = []string{"server", "--id", strconv.Itoa(id), "--data", b.Data(), "--seeds", strings.Join(seeds, ","), "--bootstrap-expect", strconv.Itoa(n)}
	for _, l := range []struct {
		name string
		port int
	}{{"kafka", KafkaPort}, {"peer", PeerPort}, {"grpc", GRPCPort}, {"http", HTTPPort}} {
		b.args = append(b.args, "--"+l.name+"-addr", Endpoint(id, l.port), "--advertise-"+l.name, Endpoint(id, l.port))
	}
	b.args = append(b.args, flags...)
	return b
}

// Endpoint is host:port of a broker.
func Endpoint(broker, port int) string { return fmt.Sprintf("%s:%d", Address(broker), port) }

// Data is the broker's data directory.
func (b *Broker) Data() string { return filepath.Join(b.Disk.Path, "data") }

// Start runs the process in the broker's network namespace.
func (b *Broker) Start() error {
	if b.Running() {
		return nil
	}
	log, err := os.OpenFile(b.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	cmd := exec.Command(b.bin, b.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := inNamespace(b.ID, cmd.Start); err != nil {
		log.Close()
		return fmt.Errorf("rig: start broker %d: %w", b.ID, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer log.Close()
		_ = cmd.Wait() // Exit tells how it ended
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cmd, b.done = cmd, done
	b.starts++
	return nil
}

// Running reports whether the process lives.
func (b *Broker) Running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		return false
	}
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// Exit is the exit code of the last process that has ended, and whether it ended by itself; a process that a signal ended has the negative number of the signal.
func (b *Broker) Exit() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil || b.cmd.ProcessState == nil {
		return 0
	}
	if ws, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return b.cmd.ProcessState.ExitCode()
}

// Starts counts the processes of this broker.
func (b *Broker) Starts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts
}

// Pid is the process's number, or 0 when none runs.
func (b *Broker) Pid() int {
	if !b.Running() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cmd.Process.Pid
}

// Signal sends a signal to the process, if one runs.
func (b *Broker) Signal(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		_ = b.cmd.Process.Signal(s) // it may have ended by itself
	}
}

// Kill is kill -9; it returns when the process is gone.
func (b *Broker) Kill() error {
	b.noteRSS()
	b.Signal(syscall.SIGKILL)
	return b.await(endPatience)
}

// Terminate asks for an orderly stop and kills the process when patience is over: late then is true.
func (b *Broker) Terminate(patience time.Duration) (late bool, err error) {
	b.noteRSS()
	b.Signal(syscall.SIGCONT) // a stopped process hears nothing
	b.Signal(syscall.SIGTERM)
	if b.await(patience) == nil {
		return false, nil
	}
	return true, b.Kill()
}

func (b *Broker) await(patience time.Duration) error {
	b.mu.Lock()
	done := b.done
	b.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("rig: broker %d has not ended within %v", b.ID, patience)
	}
}

// Wipe removes the data directory of a broker that does not run.
func (b *Broker) Wipe() error {
	if b.Running() {
		return errors.New("rig: a running broker's directory is not wiped")
	}
	if err := os.RemoveAll(b.Data()); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}

// RSS is the highest resident size of any process of this broker so far, in bytes.
func (b *Broker) RSS() int64 {
	b.noteRSS()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rss
}

func (b *Broker) noteRSS() {
	pid := b.Pid()
	if pid == 0 {
		return
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // it has just ended
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			b.mu.Lock()
			b.rss = max(b.rss, n<<10)
			b.mu.Unlock()
		}
	}
}
