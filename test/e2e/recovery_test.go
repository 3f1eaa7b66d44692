package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCase40_TwoDisksInTurn: a cluster that says it is healthy may lose a broker's directory. So after the first one is replaced it must not say so before the
// new server votes: with the second disk the quorum would be gone for good.
func TestCase40_TwoDisksInTurn(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "2", "-r", "3")
	c.MustWith(seq(1, 1000), "produce", "numbers")
	for _, b := range c.Brokers {
		b.Kill()
		c.awaitFenced(b.ID)
		if err := os.RemoveAll(b.Data); err != nil {
			t.Fatal(err)
		}
		b.Start()
		c.WaitHealthy()
	}
	if got := len(c.values("numbers")); got != 1000 {
		t.Errorf("%d records of 1000 after all three disks were replaced, one after the other", got)
	}
}

// TestCase127_TwoOfThreeLostForGood follows the help of `moldau cluster recover` on the survivor: the cluster serves again under its id, and every record
// that the survivor has is there.
func TestCase127_TwoOfThreeLostForGood(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3", "-c", "min.insync.replicas=1")
	c.MustWith(seq(1, 5000), "produce", "numbers")
	c.Must("consume", "numbers", "-g", "kept", "--exit-at-end")
	before, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	survivor := c.Brokers[1]
	for _, b := range []*Broker{c.Brokers[0], c.Brokers[2]} {
		b.Kill()
		if err := os.RemoveAll(b.Data); err != nil {
			t.Fatal(err)
		}
	}
	survivor.Terminate()
	var shown recovery
	if err := c.decode(&shown, "cluster", "recover", "--data", survivor.Data, "-o", "json"); err != nil {
		t.Fatal(err)
	}
	if shown.Executed || len(shown.Voters) != 3 || shown.ClusterID != before.ClusterID {
		t.Errorf("the inspection says %+v", shown)
	}
	c.Must("cluster", "recover", "--data", survivor.Data, "--advertise-peer", survivor.Peer, "--execute")
	survivor.Start()
	Eventually(t, func() error {
		if _, err := survivor.status(); err != nil {
			return err
		}
		if out := c.CLI("cluster", "elect", "numbers:0", "numbers:1", "numbers:2", "--unclean"); out.Code == 4 {
			return fmt.Errorf("exit %d: %s", out.Code, out.Stderr)
		}
		d, err := c.tryDescribe("numbers")
		if err != nil {
			return err
		}
		for _, p := range d.Partitions {
			if p.Leader != 1 {
				return fmt.Errorf("partition %d is led by %d", p.Partition, p.Leader)
			}
		}
		return nil
	})
	if got := len(c.values("numbers")); got != 5000 {
		t.Errorf("%d of 5000 records are there", got)
	}
	c.MustWith("after\n", "produce", "numbers")
	after, err := c.status()
	if err != nil || after.ClusterID != before.ClusterID {
		t.Errorf("cluster id %s became %s, %v", before.ClusterID, after.ClusterID, err)
	}
	if d, err := c.describeGroup("kept"); err != nil || len(d.Offsets) == 0 {
		t.Errorf("the group's offsets: %+v, %v", d, err)
	}
	// New, empty brokers take the places of the lost ones.
	c.Brokers[0].Start()
	c.Brokers[2].Start()
	c.WaitHealthy()
	c.sameReplicas()
}

type recovery struct {
	Broker        int    `json:"broker"`
	ClusterID     string `json:"cluster_id"`
	LastTerm      int    `json:"last_term"`
	LastIndex     int    `json:"last_index"`
	SnapshotIndex int    `json:"snapshot_index"`
	Voters        []int  `json:"voters"`
	Action        string `json:"action"`
	Executed      bool   `json:"executed"`
}

// TestCase130_AllRestartElsewhere: all brokers stop and come back under other addresses, as pods do; they find each other by the new seeds.
func TestCase130_AllRestartElsewhere(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	c.MustWith(seq(1, 2000), "produce", "numbers")
	before, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"orderly", "killed"} {
		if how == "orderly" {
			c.TerminateAll()
		}
		ports := freePorts(t, 9)
		for i, b := range c.Brokers {
			b.Kill()
			b.GRPC, b.Peer, b.HTTP = ports[3*i], ports[3*i+1], ports[3*i+2]
		}
		for _, b := range c.Brokers {
			b.Start()
		}
		c.WaitHealthy()
	}
	after, err := c.status()
	if err != nil || after.ClusterID != before.ClusterID || len(after.Brokers) != 3 {
		t.Errorf("the cluster was %+v and is %+v, %v", before, after, err)
	}
	if got := len(c.values("numbers")); got != 2000 {
		t.Errorf("%d of 2000 records are there", got)
	}
}

// TestCase146_FiveBrokersExpectThree: brokers 0 to 2 form the cluster and 3 and 4 join it, whatever the order; a broker that was started without seeds is
// refused by it, with the reason, and takes part once it has them.
func TestCase146_FiveBrokersExpectThree(t *testing.T) {
	t.Parallel()
	c := Prepare(t, 5)
	odd := c.Brokers[3]
	for _, b := range c.Brokers {
		b.Expect = 3
	}
	odd.Alone = true
	for _, i := range []int{4, 3, 2, 0, 1} {
		c.Brokers[i].Start()
	}
	Eventually(t, func() error {
		s, err := c.Brokers[4].status()
		if err != nil {
			return err
		}
		if len(s.Brokers) != 4 {
			return fmt.Errorf("%d brokers are registered, want 4", len(s.Brokers))
		}
		return nil
	})
	Eventually(t, func() error {
		if log := odd.Log(); !strings.Contains(log, "no seeds") && !strings.Contains(log, "seeds") {
			return fmt.Errorf("broker 3 does not say what is wrong:\n%s", log)
		}
		return nil
	})
	odd.Kill()
	if entries, err := os.ReadDir(filepath.Join(odd.Data, "partitions")); err == nil && len(entries) > 0 {
		t.Errorf("the odd broker has partitions: %v", entries)
	}
	odd.Alone = false
	odd.Start()
	Eventually(t, func() error {
		s, err := c.Brokers[0].status()
		if err == nil && len(s.Brokers) != 5 {
			err = fmt.Errorf("%d brokers are registered, want 5", len(s.Brokers))
		}
		return err
	})
	c.WaitHealthy()
}
