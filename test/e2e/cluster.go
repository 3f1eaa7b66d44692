package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait of the harness for something that must happen.
const Patience = 30 * time.Second

// poll is the pause between two questions to a process.
const poll = 20 * time.Millisecond

// Cluster is a set of broker processes on loopback.
type Cluster struct {
	t       testing.TB
	bin     string
	dir     string
	Brokers []*Broker
	extra   []string
}

// Broker is one broker process and its data directory.
type Broker struct {
	cluster          *Cluster
	ID               int
	Data             string
	GRPC, Peer, HTTP string
	Kafka            string
	logPath          string
	Expect           int      // bootstrap-expect; 0: the number of brokers
	Alone            bool     // started without seeds
	Extra            []string // flags of this broker alone
	Descriptors      int      // the most that its process may have open; 0: as many as this one

	mu   sync.Mutex // guards cmd and done
	cmd  *exec.Cmd
	done chan struct{} // closed when the present process has ended
}

// Start runs n brokers and waits until the cluster is healthy.
func Start(t testing.TB, n int, flags ...string) *Cluster {
	t.Helper()
	c := Prepare(t, n, flags...)
	for _, b := range c.Brokers {
		b.Start()
	}
	c.WaitHealthy()
	return c
}

// Prepare chooses directories and ports for n brokers and starts none.
func Prepare(t testing.TB, n int, flags ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, bin: Binary(t), dir: t.TempDir(), extra: flags}
	ports := freePorts(t, 4*n)
	for i := range n {
		c.Brokers = append(c.Brokers, &Broker{
			cluster: c, ID: i, Data: filepath.Join(c.dir, fmt.Sprintf("data-%d", i)), logPath: filepath.Join(c.dir, fmt.Sprintf("broker-%d.log", i)),
			GRPC: ports[4*i], Peer: ports[4*i+1], HTTP: ports[4*i+2], Kafka: ports[4*i+3],
		})
	}
	t.Cleanup(c.stopAll)
	return c
}

// freePorts finds addresses where nobody listens, outside the range that the kernel gives to clients: a broker that is down for a moment must find its port
// again, and a connection of somebody else could have got it meanwhile.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	const first, count, tries = 10_000, 20_000, 1000
	var out []string
	var held []net.Listener
	for range tries {
		if len(out) == n {
			break
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count)))
		if err != nil {
			continue // taken
		}
		held = append(held, l)
		out = append(out, l.Addr().String())
	}
	for _, l := range held {
		l.Close()
	}
	if len(out) < n {
		t.Fatalf("%d free ports in %d tries, %d are needed", len(out), tries, n)
	}
	return out
}

func (c *Cluster) stopAll() {
	for _, b := range c.Brokers {
		b.Kill()
	}
	if c.t.Failed() {
		for _, b := range c.Brokers {
			c.t.Logf("last log lines of broker %d:\n%s", b.ID, tail(b.logPath, 40))
		}
	}
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Seeds are the peer addresses of all brokers.
func (c *Cluster) Seeds() string {
	var out []string
	for _, b := range c.Brokers {
		out = append(out, b.Peer)
	}
	return strings.Join(out, ",")
}

// Servers are the gRPC addresses of all brokers.
func (c *Cluster) Servers() string {
	var out []string
	for _, b := range c.Brokers {
		out = append(out, b.GRPC)
	}
	return strings.Join(out, ",")
}

// WaitHealthy waits until every broker that runs is in service and every partition has all its replicas in sync.
func (c *Cluster) WaitHealthy() {
	c.t.Helper()
	Eventually(c.t, c.allRegistered)
	out := c.CLI("cluster", "health", "--exit-when-healthy", "--watch", "--timeout", Patience.String())
	if out.Code != 0 {
		c.t.Fatalf("cluster did not become healthy: exit %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
}

// allRegistered says who is missing: a cluster whose third broker has never registered is healthy without it.
func (c *Cluster) allRegistered() error {
	var s struct {
		Brokers []struct {
			Broker int  `json:"broker"`
			Fenced bool `json:"fenced"`
		} `json:"brokers"`
	}
	out := c.CLI("cluster", "status", "-o", "json")
	if out.Code != 0 {
		return fmt.Errorf("cluster status: exit %d: %s", out.Code, out.Stderr)
	}
	if err := json.Unmarshal([]byte(out.Stdout), &s); err != nil {
		return err
	}
	in := map[int]bool{}
	for _, b := range s.Brokers {
		in[b.Broker] = !b.Fenced
	}
	for _, b := range c.Brokers {
		if b.Running() && !in[b.ID] {
			return fmt.Errorf("broker %d is not in service: %+v", b.ID, s.Brokers)
		}
	}
	return nil
}

// Args are the arguments of the broker's process.
func (b *Broker) Args() []string {
	args := []string{"server", "--id", strconv.Itoa(b.ID), "--data", b.Data, "--grpc-addr", b.GRPC, "--peer-addr", b.Peer, "--http-addr", b.HTTP, "--kafka-addr", cmp.Or(b.Kafka, "127.0.0.1:0")}
	if len(b.cluster.Brokers) > 1 && !b.Alone {
		args = append(args, "--seeds", b.cluster.Seeds(), "--bootstrap-expect", strconv.Itoa(cmp.Or(b.Expect, len(b.cluster.Brokers))))
	}
	return append(append(args, b.cluster.extra...), b.Extra...)
}

// Start runs the broker's process.
func (b *Broker) Start() {
	t := b.cluster.t
	t.Helper()
	log, err := os.OpenFile(b.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(b.cluster.bin, "moldau"), b.Args()...)
	if b.Descriptors > 0 {
		cmd = exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(b.Descriptors)}, cmd.Args...)...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer log.Close()
		_ = cmd.Wait() // how it ended is the business of the test
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cmd, b.done = cmd, done
}

// Kill is kill -9, and waits for the process's end.
func (b *Broker) Kill() { b.end(syscall.SIGKILL, Patience) }

// Terminate is an orderly stop; it reports the exit code.
func (b *Broker) Terminate() int { return b.end(syscall.SIGTERM, Patience) }

// TerminateAll stops every broker in an orderly way, all at once, and reports the exit codes.
func (c *Cluster) TerminateAll() []int {
	codes := make([]int, len(c.Brokers))
	var wg sync.WaitGroup
	for i, b := range c.Brokers {
		wg.Go(func() { codes[i] = b.Terminate() })
	}
	wg.Wait()
	return codes
}

// Signal sends a signal and does not wait.
func (b *Broker) Signal(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		_ = b.cmd.Process.Signal(s)
	}
}

func (b *Broker) end(s syscall.Signal, patience time.Duration) int {
	b.mu.Lock()
	cmd, done := b.cmd, b.done
	b.mu.Unlock()
	if cmd == nil {
		return 0
	}
	_ = cmd.Process.Signal(syscall.SIGCONT) // a stopped process hears nothing
	_ = cmd.Process.Signal(s)               // it may have ended by itself
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-done
		b.cluster.t.Errorf("broker %d did not end within %v after %v", b.ID, patience, s)
	}
	return cmd.ProcessState.ExitCode()
}

// Running reports whether the process lives.
func (b *Broker) Running() bool {
	b.mu.Lock()
	done := b.done
	b.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// Log is everything that the broker has written so far.
func (b *Broker) Log() string {
	text, err := os.ReadFile(b.logPath)
	if err != nil {
		b.cluster.t.Fatal(err)
	}
	return string(text)
}

// Result is what a command printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// CLI runs the command line against all brokers.
func (c *Cluster) CLI(args ...string) Result { return c.CLIWith("", args...) }

// CLIWith runs the command line with a standard input.
func (c *Cluster) CLIWith(stdin string, args ...string) Result {
	c.t.Helper()
	cmd := c.Command(context.Background(), args...)
	cmd.Stdin = strings.NewReader(stdin)
	return run(c.t, cmd)
}

// Command prepares a command line that the test starts itself.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "moldau"), args...)
	cmd.Env = append(os.Environ(), "MOLDAU_SERVER="+c.Servers())
	return cmd
}

// Must runs the command line, fails the test unless it exits 0, and gives its standard output.
func (c *Cluster) Must(args ...string) string {
	c.t.Helper()
	return c.MustWith("", args...)
}

// MustWith is Must with a standard input.
func (c *Cluster) MustWith(stdin string, args ...string) string {
	c.t.Helper()
	out := c.CLIWith(stdin, args...)
	if out.Code != 0 {
		c.t.Fatalf("moldau %s: exit %d\n%s", strings.Join(args, " "), out.Code, out.Stderr)
	}
	return out.Stdout
}

func run(t testing.TB, cmd *exec.Cmd) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
}

// Eventually asks until f says nil, and fails the test with f's last answer when patience is over.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", Patience, err)
		}
		<-time.After(poll)
	}
}
