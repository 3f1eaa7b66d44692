package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
)

// BenchmarkFailover kills -9 a broker of each role under a producing client and reports how long it takes until the next record is acknowledged with acks=isr:
// the median and the worst. `make bench-failover` runs ten kills of each.
func BenchmarkFailover(b *testing.B) {
	for _, role := range []string{"leader", "follower", "controller", "controller-that-leads"} {
		b.Run(role, func(b *testing.B) { benchEnd(b, role, func(v *Broker) { v.Kill() }) })
	}
	b.Run("orderly-stop", func(b *testing.B) { benchEnd(b, "controller-that-leads", func(v *Broker) { go v.Terminate() }) })
}

func benchEnd(b *testing.B, role string, end func(*Broker)) {
	c := Start(b, 3)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		topic, victim := c.inRole(role, n)
		cl, err := client.New(client.WithSeeds(strings.Split(c.Servers(), ",")...), client.WithLinger(0))
		if err != nil {
			b.Fatal(err)
		}
		produceOne(b, cl, topic)
		done := make(chan time.Duration, 1)
		end(victim)
		start := time.Now()
		produceOne(b, cl, topic)
		done <- time.Since(start)
		took = append(took, <-done)
		cl.Close()
		Eventually(b, func() error {
			if victim.Running() {
				return fmt.Errorf("broker %d still runs", victim.ID)
			}
			return nil
		})
		victim.Start()
		c.WaitHealthy()
	}
	var worst, sum time.Duration
	for _, d := range took {
		worst, sum = max(worst, d), sum+d
	}
	b.ReportMetric(0, "ns/op") // the whole round: no interest
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
	b.ReportMetric(float64(sum.Milliseconds())/float64(len(took)), "mean-ms")
}

func produceOne(b *testing.B, cl *client.Client, topic string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := cl.ProduceSync(ctx, &client.Record{Topic: topic, Value: []byte("x")}); err != nil {
		b.Fatal(err)
	}
}

// inRole makes a topic of one partition such that some broker has the role, and names both.
func (c *Cluster) inRole(role string, n int) (string, *Broker) {
	c.t.Helper()
	for try := range 50 {
		topic := fmt.Sprintf("%s-%d-%d", role, n, try)
		c.Must("topic", "create", topic, "-p", "1", "-r", "3")
		status, err := c.status()
		if err != nil {
			c.t.Fatal(err)
		}
		leader := c.describe(topic).Partitions[0].Leader
		switch {
		case leader < 0:
		case role == "controller-that-leads" && leader == status.Controller:
			return topic, c.Brokers[leader]
		case role == "leader" && leader != status.Controller:
			return topic, c.Brokers[leader]
		case role == "controller" && leader != status.Controller:
			return topic, c.Brokers[status.Controller]
		case role == "follower" && leader != status.Controller:
			return topic, c.Brokers[3-leader-status.Controller]
		}
	}
	c.t.Fatalf("no broker came to be a %s", role)
	return "", nil
}
