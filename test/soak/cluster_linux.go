package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/test/soak/load"
	"github.com/moldau-log/moldau/test/soak/rig"
)

const (
	watchEvery   = 200 * time.Millisecond // how often it is looked whether a broker has ended by itself
	restartPause = time.Second            // what a supervisor waits before it starts a broker again
	askTimeout   = 3 * time.Second        // for one administrative call
	stopPatience = 40 * time.Second       // for an orderly stop, of which shutdown.drain is a part
)

// cluster is the brokers, their machines and a client for administration.
type cluster struct {
	s     *soak
	net   *rig.Network
	nodes []*node
	admin *client.Client

	stop chan struct{}
	done sync.WaitGroup
}

// node is a broker with somebody who starts it again when it ends by itself, as systemd or Kubernetes would.
type node struct {
	*rig.Broker
	s *soak

	mu     sync.Mutex // held for a whole start or stop
	wanted bool
	// excused is until when an end by itself is no finding: the broker's disk fails or is full.
	excused time.Time
}

func newCluster(s *soak) (*cluster, error) {
	net, err := rig.NewNetwork(s.brokers)
	if err != nil {
		return nil, err
	}
	c := &cluster{s: s, net: net, stop: make(chan struct{})}
	for i := range s.brokers {
		kind := s.fs
		if kind == "none" {
			kind = ""
		}
		disk, err := rig.NewDisk(s.inside, fmt.Sprint("disk-", i), kind, diskSize)
		if err != nil {
			return nil, err
		}
		b := rig.NewBroker(s.bin+"/moldau", s.inside, i, s.brokers, disk, "--rack", rack(i), "--storage-reserve-bytes", "16MiB", "--storage-retention-check", "20s",
			"--topic-replication-factor", "3")
		c.nodes = append(c.nodes, &node{Broker: b, s: s})
	}
	c.admin, err = client.New(client.WithSeeds(c.addresses().GRPC...), client.WithClientID("soak-admin"), client.WithRequestTimeout(askTimeout), client.WithDialTimeout(time.Second))
	return c, err
}

func rack(broker int) string { return fmt.Sprint("rack-", broker) }

func (c *cluster) addresses() load.Addresses {
	var a load.Addresses
	for i := range c.s.brokers {
		a.Kafka = append(a.Kafka, rig.Endpoint(i, rig.KafkaPort))
		a.GRPC = append(a.GRPC, rig.Endpoint(i, rig.GRPCPort))
	}
	return a
}

// start starts every broker and those who watch them.
func (c *cluster) start() error {
	for _, n := range c.nodes {
		if err := n.up(); err != nil {
			return err
		}
		c.done.Go(func() { n.supervise(c.stop) })
	}
	return nil
}

// close ends what runs. The disks stay mounted until the process ends.
func (c *cluster) close() {
	close(c.stop)
	c.done.Wait()
	_ = c.admin.Close() // whatever it says, the process ends
	for _, n := range c.nodes {
		_ = n.down() // as above
	}
}

// preserve leaves the brokers' data in the run's directory as plain files, and not the images.
func (c *cluster) preserve() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.down(), n.Disk.Keep(filepath.Join(c.s.inside, fmt.Sprint("data-", n.ID))))
	}
	return errors.Join(errs...)
}

// up has the broker run from now on.
func (n *node) up() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = true
	return n.Start()
}

// down kills the broker and leaves it so.
func (n *node) down() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = false
	return n.Kill()
}

// terminate stops the broker in an orderly way and leaves it so.
func (n *node) terminate() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = false
	late, err := n.Terminate(stopPatience)
	if late {
		n.s.report.fail("broker %d did not stop within %v of SIGTERM", n.ID, stopPatience)
	}
	return err
}

// excuse lets the broker end by itself for a while, because of a fault of its disk.
func (n *node) excuse(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.excused = time.Now().Add(d)
}

func (n *node) supervise(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(watchEvery):
		}
		n.mu.Lock()
		ended := n.wanted && !n.Running()
		excused := time.Now().Before(n.excused)
		n.mu.Unlock()
		if !ended {
			continue
		}
		n.s.report.ended(n, excused)
		select {
		case <-stop:
			return
		case <-time.After(restartPause):
		}
		n.mu.Lock()
		if n.wanted {
			if err := n.Start(); err != nil {
				n.s.report.fail("%v", err)
			}
		}
		n.mu.Unlock()
	}
}

// health says what is not as it should be, or nil.
func (c *cluster) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	h, err := c.admin.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{})
	if err != nil {
		return err
	}
	if !h.GetHealthy() {
		return fmt.Errorf("%v", h.GetReasons())
	}
	d, err := c.admin.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{})
	if err != nil {
		return err
	}
	in := 0
	for _, b := range d.GetBrokers() {
		if !b.GetFenced() && !b.GetDraining() {
			in++
		}
	}
	if in != len(c.nodes) {
		return fmt.Errorf("%d of %d brokers are in service", in, len(c.nodes))
	}
	for _, n := range c.nodes {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitHealthy waits until all is well, and says how long that took.
func (c *cluster) awaitHealthy(ctx context.Context, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	for {
		err := c.health(ctx)
		if err == nil || ctx.Err() != nil {
			return time.Since(began), ctx.Err()
		}
		if time.Since(began) > patience {
			return time.Since(began), fmt.Errorf("after %v: %w", patience, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// controller is the broker that controls the cluster.
func (c *cluster) controller(ctx context.Context) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	d, err := c.admin.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{})
	if err != nil {
		return nil, err
	}
	if id := int(d.GetController()); id >= 0 && id < len(c.nodes) {
		return c.nodes[id], nil
	}
	return nil, errors.New("soak: no controller is known")
}

// ready asks the broker itself whether it serves, and whether all its logs are in service.
func (n *node) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+rig.Endpoint(n.ID, rig.HTTPPort)+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("broker %d: /readyz says %s", n.ID, resp.Status)
	}
	return nil
}
