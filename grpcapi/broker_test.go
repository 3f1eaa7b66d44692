package grpcapi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/moldautest"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// TestWholeBroker is the way of a record through the shipped broker: created on first use, produced, read by a group, committed, described.
func TestWholeBroker(t *testing.T) {
	b := moldautest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := client.New(client.WithSeeds(b.GRPC))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	for i := range n {
		c.Produce(ctx, &client.Record{Topic: "t", Key: []byte(fmt.Sprint(i % 30)), Value: []byte(fmt.Sprint(i))}, func(_ *client.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	k, err := c.NewConsumer(client.WithGroup("g"), client.WithTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int{}
	seen := 0
	for r, err := range k.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		var i int
		if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
			t.Fatal(err)
		}
		if prev, ok := last[string(r.Key)]; ok && i != prev+30 {
			t.Fatalf("key %s: %d after %d", r.Key, i, prev)
		}
		last[string(r.Key)] = i
		if seen++; seen == n {
			break
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := c.DescribeGroups(ctx, &moldauv1.DescribeGroupsRequest{Groups: []string{"g"}})
	if err != nil {
		t.Fatal(err)
	}
	var committed int64
	for _, o := range d.GetGroups()[0].GetOffsets() {
		committed += o.GetCommittedOffset()
	}
	if committed != n {
		t.Errorf("%d of %d committed: %v", committed, n, d.GetGroups()[0])
	}
	if h, err := c.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{}); err != nil || !h.GetHealthy() {
		t.Errorf("%v, %v", h, err)
	}
	start, err := c.DeleteRecords(ctx, &moldauv1.DeleteRecordsRequest{Topic: "t", Partition: 0, BeforeOffset: -1})
	if err != nil || start.GetLogStartOffset() == 0 {
		t.Errorf("%v, %v", start, err)
	}
	if err := c.ProduceSync(ctx, &client.Record{Topic: "made-on-first-use", Value: []byte("v")}); err != nil {
		t.Errorf("auto-create: %v", err)
	}
}
