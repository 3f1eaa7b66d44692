package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
)

// TestMixedRounds is TestRounds with every kind of fault: one broker killed, two killed, stopped in an orderly way, frozen until the others have given it up,
// all killed at once, and leaderships moved by an operator. E2E_ROUNDS and E2E_SEED make it longer or another one.
func TestMixedRounds(t *testing.T) {
	rounds, seed := number(t, "E2E_ROUNDS", 6), number(t, "E2E_SEED", 1)
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "4", "-r", "3")
	m := c.member("mixed")
	defer m.stop()
	load := c.load(t)
	faults := []struct {
		name string
		do   func(victim, other *Broker)
	}{
		{"kill", func(victim, _ *Broker) {
			victim.Kill()
			load.waitFor(200 + random.IntN(1000))
			victim.Start()
		}},
		{"kill two", func(victim, other *Broker) {
			victim.Kill()
			other.Kill()
			other.Start()
			load.waitFor(200 + random.IntN(1000))
			victim.Start()
		}},
		{"stop", func(victim, _ *Broker) {
			if code := victim.Terminate(); code != 0 {
				t.Errorf("an orderly stop exits %d", code)
			}
			load.waitFor(200 + random.IntN(1000))
			victim.Start()
		}},
		{"freeze", func(victim, other *Broker) {
			victim.Signal(syscall.SIGSTOP)
			other.awaitFenced(victim.ID)
			load.waitFor(200 + random.IntN(1000))
			victim.Signal(syscall.SIGCONT)
		}},
		{"kill all", func(*Broker, *Broker) {
			for _, b := range c.Brokers {
				b.Signal(syscall.SIGKILL)
			}
			for _, b := range c.Brokers {
				b.Kill()
				b.Start()
			}
		}},
		{"move", func(victim, _ *Broker) {
			order := []int{victim.ID, (victim.ID + 1) % 3, (victim.ID + 2) % 3}
			replicas := strings.Trim(strings.ReplaceAll(fmt.Sprint(order), " ", ","), "[]")
			for p := range 4 {
				c.Must("cluster", "reassign", fmt.Sprintf("numbers:%d", p), "--replicas", replicas)
			}
			c.CLI("cluster", "elect")
			victim.Kill()
			victim.Start()
		}},
	}
	for round := range rounds {
		f := faults[(round+random.IntN(2))%len(faults)]
		i := random.IntN(3)
		load.waitFor(200 + random.IntN(2000))
		f.do(c.Brokers[i], c.Brokers[(i+1+random.IntN(2))%3])
		load.waitFor(200)
		c.WaitHealthy()
		t.Logf("round %d: %s, broker %d; the group has read %d records", round, f.name, i, m.lines())
	}
	load.finish()
	c.checkAcknowledged(load)
	m.stop()
	c.sameReplicas()
}

// awaitFenced asks this broker until another one is fenced.
func (b *Broker) awaitFenced(id int) {
	b.cluster.t.Helper()
	Eventually(b.cluster.t, func() error {
		s, err := b.status()
		if err != nil {
			return err
		}
		for _, other := range s.Brokers {
			if other.Broker == id && other.Fenced {
				return nil
			}
		}
		return fmt.Errorf("broker %d is not fenced", id)
	})
}

// TestCase43_TwoLiveBrokersWithOneID: the second process, with a directory of its own, is refused with the reason; the first one keeps its place.
func TestCase43_TwoLiveBrokersWithOneID(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	c.MustWith(seq(1, 100), "produce", "numbers")
	before, err := c.statusDocument()
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 3)
	twin := &Broker{cluster: c, ID: 1, Data: t.TempDir() + "/twin", logPath: t.TempDir() + "/twin.log", GRPC: ports[0], Peer: ports[1], HTTP: ports[2]}
	twin.Start()
	defer twin.Kill()
	Eventually(t, func() error {
		if log := twin.Log(); !strings.Contains(log, "another data directory") || twin.Running() {
			return fmt.Errorf("the twin does not say why it cannot take part:\n%s", log)
		}
		return nil
	})
	twin.Kill()
	c.WaitHealthy()
	after, err := c.statusDocument()
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range after.Brokers {
		if was := before.Brokers[i]; was.BrokerEpoch != b.BrokerEpoch || was.Endpoint != b.Endpoint {
			t.Errorf("broker %d was registered as %+v and is as %+v", b.Broker, was, b)
		}
	}
	if got := len(c.values("numbers")); got != 100 {
		t.Errorf("%d of 100 records are there", got)
	}
}

func (c *Cluster) statusDocument() (statusDocument, error) {
	var s statusDocument
	err := c.decode(&s, "cluster", "status", "-o", "json")
	return s, err
}
