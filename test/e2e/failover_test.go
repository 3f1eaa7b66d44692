package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var interrupt os.Signal = syscall.SIGINT

// TestOrderlyStopFailsNoRequest: SIGTERM of a broker that leads partitions, under load: the client sees no failed record.
func TestOrderlyStopFailsNoRequest(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "6", "-r", "3")
	for _, b := range c.Brokers {
		load := c.load(t)
		load.waitFor(5_000)
		if code := b.Terminate(); code != 0 {
			t.Errorf("broker %d: orderly stop exits %d", b.ID, code)
		}
		load.waitFor(5_000)
		load.finish()
		b.Start()
		c.WaitHealthy()
	}
	var total int64
	for _, p := range c.describe("numbers").Partitions {
		total += p.HighWatermark
	}
	if total < 30_000 {
		t.Errorf("%d records in the log, want at least 30000", total)
	}
}

// TestKillsOfEveryKind kills -9 a leader, a follower, and the Raft leader: acknowledged writes go on, and all of them are there afterwards.
func TestKillsOfEveryKind(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "1", "-r", "3")
	for _, who := range []string{"leader", "follower", "controller"} {
		t.Run(who, func(t *testing.T) {
			status, err := c.status()
			if err != nil {
				t.Fatal(err)
			}
			p := c.describe("numbers").Partitions[0]
			victim := map[string]int{"leader": p.Leader, "follower": other(p.Leader, status.Controller), "controller": status.Controller}[who]
			load := c.load(t)
			load.waitFor(2_000)
			c.Brokers[victim].Kill()
			start := time.Now()
			load.waitFor(2_000)
			t.Logf("writes went on within %v of the kill", time.Since(start).Round(time.Millisecond))
			load.finish()
			c.Brokers[victim].Start()
			c.WaitHealthy()
		})
	}
}

// other is a broker of 0..2 that is not the leader, and if possible not the controller.
func other(leader, controller int) int {
	for b := range 3 {
		if b != leader && b != controller {
			return b
		}
	}
	return (leader + 1) % 3
}

// TestCase60_AllKilledAtOnce: every process is killed at the same moment under load; what was acknowledged is there.
func TestCase60_AllKilledAtOnce(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	load := c.load(t)
	load.waitFor(5_000)
	for _, b := range c.Brokers {
		b.Signal(syscall.SIGKILL)
	}
	for _, b := range c.Brokers {
		b.Kill()
	}
	for _, b := range c.Brokers {
		b.Start()
	}
	c.WaitHealthy()
	load.finish()
	c.checkAcknowledged(load)
}

// TestCase40_WipedFollower: a follower that comes back with an empty directory is a new one: it is copied in full and joins the ISR only then.
func TestCase40_WipedFollower(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	c.MustWith(seq(1, 50_000), "produce", "numbers")
	victim := c.Brokers[2]
	victim.Kill()
	c.awaitFenced(2)
	if err := os.RemoveAll(victim.Data); err != nil {
		t.Fatal(err)
	}
	victim.Start()
	c.WaitHealthy()
	c.sameReplicas()
	out := c.Must("consume", "numbers", "--from", "start", "--exit-at-end")
	if distinct, _ := count(t, out, 50_000); distinct != 50_000 {
		t.Errorf("%d of 50000 numbers", distinct)
	}
}

// awaitFenced waits until the controller has given a broker up.
func (c *Cluster) awaitFenced(id int) {
	c.t.Helper()
	Eventually(c.t, func() error {
		s, err := c.status()
		if err != nil {
			return err
		}
		for _, b := range s.Brokers {
			if b.Broker == id && b.Fenced {
				return nil
			}
		}
		return fmt.Errorf("broker %d is not fenced: %+v", id, s.Brokers)
	})
}

// TestCase46_StoppedLeader: a leader that was stopped for longer than its session and goes on has acknowledged nothing that the others lack.
func TestCase46_StoppedLeader(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "1", "-r", "3")
	load := c.load(t)
	load.waitFor(2_000)
	victim := c.Brokers[c.describe("numbers").Partitions[0].Leader]
	victim.Signal(syscall.SIGSTOP)
	load.waitFor(2_000) // the others go on
	victim.Signal(syscall.SIGCONT)
	load.waitFor(2_000)
	load.finish()
	c.WaitHealthy()
	c.checkAcknowledged(load)
	c.sameReplicas()
}

// TestCase115_NamesThatAreNoTopics are refused, and nothing appears outside the data directory.
func TestCase115_NamesThatAreNoTopics(t *testing.T) {
	c := Start(t, 1)
	c.Must("topic", "create", "a.b", "-p", "1")
	for _, name := range []string{"..", ".", "a/../b", "", "a b", strings.Repeat("x", 250), "a_b"} {
		out := c.CLI("topic", "create", name, "-p", "1")
		if out.Code == 0 || out.Stderr == "" {
			t.Errorf("topic create %q: exit %d, %q", name, out.Code, out.Stderr)
		}
	}
}
