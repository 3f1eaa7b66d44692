package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// BenchmarkFailover kills -9 a broker of each role under a producing client and reports how long the slowest record until and after its end took to be acknowledged
// with acks=isr: the mean and the worst of the rounds. `make bench-failover` runs ten kills of each.
func BenchmarkFailover(b *testing.B) {
	for _, role := range []string{"leader", "follower", "controller", "controller-that-leads"} {
		b.Run(role, func(b *testing.B) { benchEnd(b, role, (*Broker).Kill) })
	}
	b.Run("orderly-stop", func(b *testing.B) {
		benchEnd(b, "controller-that-leads", func(v *Broker) { v.Signal(syscall.SIGTERM) })
	})
}

func benchEnd(b *testing.B, role string, end func(*Broker)) {
	c := Start(b, 3)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		cl, err := client.New(client.WithSeeds(strings.Split(c.Servers(), ",")...), client.WithLinger(0))
		if err != nil {
			b.Fatal(err)
		}
		topic, victim := c.inRole(b, cl, role, n)
		produceOne(b, cl, topic)
		end(victim)
		var slowest time.Duration
		for done := false; !done; { // one record more after the process has ended
			done = !victim.Running()
			start := time.Now()
			produceOne(b, cl, topic)
			slowest = max(slowest, time.Since(start))
		}
		took = append(took, slowest)
		cl.Close()
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
func (c *Cluster) inRole(b *testing.B, cl *client.Client, role string, n int) (string, *Broker) {
	b.Helper()
	status, err := c.status()
	if err != nil {
		b.Fatal(err)
	}
	controller := int32(status.Controller)
	one, two := (controller+1)%3, (controller+2)%3
	replicas, victim := []int32{one, controller, two}, one
	switch role {
	case "controller-that-leads":
		replicas, victim = []int32{controller, one, two}, controller
	case "controller":
		victim = controller
	case "follower":
		victim = two
	}
	topic := fmt.Sprintf("%s-%d", role, n)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, err = cl.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: topic, Assignment: []*moldauv1.Replicas{{Replicas: replicas}}})
	if err != nil {
		b.Fatal(err)
	}
	return topic, c.Brokers[victim]
}
