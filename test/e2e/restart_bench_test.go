package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// BenchmarkCase126_Restart is a whole start of a broker process with 10,000 partitions, from the exec to the moment at which it serves all of them: after SIGTERM, and after
// kill -9 behind a write to each of them. `make bench-restart` runs it.
func BenchmarkCase126_Restart(b *testing.B) {
	const topics, each = 100, 100
	c := Start(b, 1)
	only := c.Brokers[0]
	cl := only.Client(b, client.WithPartitioner(client.ManualPartitioner()))
	for n := range topics {
		create := &moldauv1.CreateTopicRequest{Topic: fmt.Sprintf("t%d", n), Partitions: each, ReplicationFactor: 1}
		if _, err := cl.CreateTopic(patient(b), create); err != nil {
			b.Fatal(err)
		}
	}
	for name, end := range map[string]func(b *testing.B){
		"after-SIGTERM": func(*testing.B) { only.Terminate() },
		"after-kill-9": func(b *testing.B) {
			for n := range topics { // so that no log is as the last stop left it
				fillTopic(b, cl, n, each)
			}
			only.Kill()
		},
	} {
		b.Run(name, func(b *testing.B) {
			var worst time.Duration
			for b.Loop() {
				b.StopTimer()
				end(b)
				b.StartTimer()
				began := time.Now()
				only.Start()
				only.awaitServing(b, cl, topics, each)
				worst = max(worst, time.Since(began))
			}
			b.ReportMetric(worst.Seconds(), "worst-s")
		})
	}
}

// fillTopic writes a record to every partition of a topic.
func fillTopic(b *testing.B, cl *client.Client, n, each int) {
	b.Helper()
	for p := range each {
		record := &client.Record{Topic: fmt.Sprintf("t%d", n), Partition: int32(p), Value: make([]byte, 1000)}
		cl.Produce(patient(b), record, func(_ *client.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := cl.Flush(patient(b)); err != nil {
		b.Fatal(err)
	}
}

// awaitServing asks each of the topics for the end of all its partitions until their leaders answer.
func (b *Broker) awaitServing(t testing.TB, cl *client.Client, topics, each int) {
	t.Helper()
	deadline := time.Now().Add(10 * Patience)
	for n := 0; n < topics; {
		ask := &moldauv1.ListOffsetsRequest{}
		for p := range each {
			ask.Queries = append(ask.Queries, &moldauv1.OffsetQuery{Topic: fmt.Sprintf("t%d", n), Partition: int32(p), Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST})
		}
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		res, err := cl.ListOffsets(ctx, ask)
		cancel()
		refused := slices.ContainsFunc(res.GetOffsets(), func(o *moldauv1.ListedOffset) bool { return o.GetError() != nil })
		if err == nil && !refused && len(res.GetOffsets()) == each {
			n++
			continue
		}
		if time.Now().After(deadline) {
			t.Fatalf("broker %d does not serve topic %d of %d: %v", b.ID, n, topics, err)
		}
		<-time.After(poll)
	}
}
