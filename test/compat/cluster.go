package main

import (
	"bytes"
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
	"syscall"
	"time"
)

const (
	brokers     = 3                // of the cluster that every row gets
	healthyWait = 60 * time.Second // for three brokers to be in service with every replica in sync
	stopWait    = 15 * time.Second // for a broker to end after SIGTERM
)

// cluster is some brokers on loopback.
type cluster struct {
	bin, dir string
	brokers  []*broker
}

// broker is one process and its addresses, which it keeps over restarts.
type broker struct {
	grpc, peer, http, kafka string
	cmd                     *exec.Cmd
	log                     *os.File
}

// startCluster returns when all of n brokers are in service. Their files are in dir, which must exist; skip is how many brokers of other clusters run.
func startCluster(ctx context.Context, bin, dir string, n, skip int) (*cluster, error) {
	bin, err := filepath.Abs(filepath.Join(bin, "moldau"))
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir, brokers: make([]*broker, n)}
	for i := range c.brokers {
		var ports [4]string
		for j := range ports {
			ports[j] = freeAddr(4*(skip+i) + j)
		}
		c.brokers[i] = &broker{grpc: ports[0], peer: ports[1], http: ports[2], kafka: ports[3]}
	}
	for i := range c.brokers {
		if err := c.start(i); err != nil {
			c.stop()
			return nil, err
		}
	}
	if err := c.healthy(ctx, 0, -1); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// freeAddr finds a port where nobody listens, below the range that the kernel gives to clients: a broker that is down for a moment must find its port
// again. The slots, four for each of four brokers, keep the ports apart.
func freeAddr(slot int) string {
	for {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+slot*1400+rand.IntN(1400)))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
}

// addrs joins one address of every broker with commas.
func (c *cluster) addrs(of func(*broker) string) string {
	var out []string
	for _, b := range c.brokers {
		out = append(out, of(b))
	}
	return strings.Join(out, ",")
}

// bootstrap is what a client gets as its bootstrap servers.
func (c *cluster) bootstrap() string { return c.addrs(func(b *broker) string { return b.kafka }) }

// dataDir is the data directory of a broker.
func (c *cluster) dataDir(i int) string { return filepath.Join(c.dir, fmt.Sprintf("data-%d", i)) }

// dataDirs are the data directories of all brokers, for rows that read the files.
func (c *cluster) dataDirs() string {
	var out []string
	for i := range c.brokers {
		out = append(out, c.dataDir(i))
	}
	return strings.Join(out, ":")
}

func (c *cluster) start(i int) error {
	b := c.brokers[i]
	log, err := os.OpenFile(filepath.Join(c.dir, fmt.Sprintf("broker-%d.log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.bin, "server", "--id", strconv.Itoa(i), "--data", c.dataDir(i),
		"--seeds", c.addrs(func(b *broker) string { return b.peer }), "--bootstrap-expect", strconv.Itoa(len(c.brokers)),
		"--grpc-addr", b.grpc, "--peer-addr", b.peer, "--http-addr", b.http, "--kafka-addr", b.kafka, "--topic-auto-create")
	cmd.Stdout, cmd.Stderr = log, log
	// A signal from the terminal is for the driver, which then ends the brokers itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		log.Close()
		return fmt.Errorf("start broker %d: %w", i, err)
	}
	b.cmd, b.log = cmd, log
	return nil
}

// bounce kills a random broker with SIGKILL, starts it again and waits until its new registration is in service and in every ISR. Without a look at the
// registration the cluster would seem healthy for as long as nobody has missed the broker.
func (c *cluster) bounce(ctx context.Context) error {
	i := rand.IntN(len(c.brokers))
	s, err := c.status(ctx)
	if err != nil {
		return err
	}
	c.end(c.brokers[i], syscall.SIGKILL)
	if err := c.start(i); err != nil {
		return err
	}
	return c.healthy(ctx, i, s.epoch(i))
}

// end sends the signal and waits for the process, at most stopWait.
func (c *cluster) end(b *broker, sig syscall.Signal) {
	if b == nil || b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Signal(sig) // it may have ended already
	late := time.AfterFunc(stopWait, func() { _ = b.cmd.Process.Kill() })
	_ = b.cmd.Wait() // how it ended does not matter here
	late.Stop()
	b.log.Close()
	b.cmd = nil
}

// stop ends the brokers one after the other, in the orderly way.
func (c *cluster) stop() {
	for _, b := range c.brokers {
		c.end(b, syscall.SIGTERM)
	}
}

// healthy waits until every broker is registered and unfenced, broker id with a later epoch than the given one, and every replica is in sync.
func (c *cluster) healthy(ctx context.Context, id int, before int64) error {
	ctx, cancel := context.WithTimeout(ctx, healthyWait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.inService(ctx, id, before)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster is not healthy: %w", err)
		}
	}
}

func (c *cluster) inService(ctx context.Context, id int, before int64) error {
	s, err := c.status(ctx)
	if err != nil {
		return err
	}
	live := 0
	for _, b := range s.Brokers {
		if !b.Fenced {
			live++
		}
	}
	if live < len(c.brokers) {
		return fmt.Errorf("%d of %d brokers are in service", live, len(c.brokers))
	}
	if s.epoch(id) <= before {
		return fmt.Errorf("broker %d has not registered again", id)
	}
	_, err = c.cli(ctx, "cluster", "health", "--exit-when-healthy", "--timeout", "5s")
	return err
}

// status is what is needed of `moldau cluster status`.
type status struct {
	Brokers []struct {
		ID          int   `json:"broker"`
		Fenced      bool  `json:"fenced"`
		BrokerEpoch int64 `json:"broker_epoch"`
	} `json:"brokers"`
}

// epoch is the epoch of a broker's registration; -1 where there is none.
func (s status) epoch(id int) int64 {
	for _, b := range s.Brokers {
		if b.ID == id {
			return b.BrokerEpoch
		}
	}
	return -1
}

func (c *cluster) status(ctx context.Context) (status, error) {
	out, err := c.cli(ctx, "cluster", "status", "-o", "json")
	if err != nil {
		return status{}, err
	}
	var s status
	return s, json.Unmarshal(out, &s)
}

// secondCluster is a cluster of one broker for the rows that want two; it starts when the first of them does.
type secondCluster struct {
	bin, dir string
	cluster  *cluster // nil before it is wanted
}

func (s *secondCluster) bootstrap(ctx context.Context) (string, error) {
	if s.cluster == nil {
		dir := filepath.Join(s.dir, "second")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
		c, err := startCluster(ctx, s.bin, dir, 1, brokers)
		if err != nil {
			return "", fmt.Errorf("second cluster: %w", err)
		}
		s.cluster = c
	}
	return s.cluster.bootstrap(), nil
}

func (s *secondCluster) stop() {
	if s.cluster != nil {
		s.cluster.stop()
	}
}

func (c *cluster) cli(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Env = append(os.Environ(), "MOLDAU_SERVER="+c.addrs(func(b *broker) string { return b.grpc }))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("moldau %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
