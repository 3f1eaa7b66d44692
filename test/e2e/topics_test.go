package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// directories lists the partition directories of a broker that belong to a topic id.
func (b *Broker) directories(topicID string) []string {
	b.cluster.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.Data, "partitions"))
	if err != nil {
		b.cluster.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.Contains(e.Name(), topicID) {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestCase55And149_TopicMadeAgainWhileABrokerIsDown: the broker that missed the delete removes its old replicas by tombstone, takes part in the new topic of
// the same name, and no old record is ever visible. A committed offset of the old topic is gone with it (case 90).
func TestCase55And149_TopicMadeAgainWhileABrokerIsDown(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "orders", "-p", "3", "-r", "3")
	c.MustWith(seq(1, 3000), "produce", "orders")
	c.Must("consume", "orders", "-g", "old", "--exit-at-end")
	old := c.describe("orders").TopicID
	away := c.Brokers[2]
	away.Kill()
	if len(away.directories(old)) != 3 {
		t.Fatalf("broker 2 has %v of topic %s", away.directories(old), old)
	}
	c.awaitFenced(2)
	if out := c.CLI("cluster", "health"); out.Code != 10 {
		t.Errorf("cluster health with a broker away: exit %d, want 10", out.Code)
	}
	c.Must("topic", "delete", "orders")
	c.Must("topic", "create", "orders", "-p", "3", "-r", "2", "-c", "min.insync.replicas=1")
	c.MustWith("fresh-1\nfresh-2\n", "produce", "orders")
	away.Start()
	c.WaitHealthy()
	for _, p := range c.describe("orders").Partitions { // give the broker that was away a replica of each, and the leadership
		c.Must("cluster", "reassign", fmt.Sprintf("orders:%d", p.Partition), "--replicas", "2,0,1")
	}
	c.WaitHealthy()
	c.awaitTopic("orders", func(d topicDescription) error {
		for _, p := range d.Partitions {
			if p.Leader != 2 {
				c.CLI("cluster", "elect", "orders")
				return fmt.Errorf("partition %d is led by %d", p.Partition, p.Leader)
			}
		}
		return nil
	})
	if got := c.values("orders"); len(got) != 2 || !slices.Contains(got, "fresh-1") || !slices.Contains(got, "fresh-2") {
		t.Errorf("the new topic holds %d records: %.100v", len(got), got)
	}
	if _, err := c.describeGroup("old"); err == nil {
		if d, _ := c.describeGroup("old"); len(d.Offsets) != 0 {
			t.Errorf("the old topic's offsets are there: %+v", d.Offsets)
		}
	}
	Eventually(t, func() error {
		for _, b := range c.Brokers {
			if left := b.directories(old); len(left) > 0 {
				return fmt.Errorf("broker %d still has %v", b.ID, left)
			}
		}
		return nil
	})
}

// TestCase57_PartitionsAddedUnderLoad: a group that consumes while its topic grows reads the new partitions from their start and misses no record.
func TestCase57_PartitionsAddedUnderLoad(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "2", "-r", "3")
	consumer, err := c.Client(t).NewConsumer(client.WithGroup("growing"), client.WithTopics("numbers"), client.WithOffsetReset(client.ResetLatest))
	if err != nil {
		t.Fatal(err)
	}
	c.awaitShares("growing", 2)
	var mu sync.Mutex // guards read and partitions
	read, partitions := map[string]int{}, map[int32]bool{}
	ctx := patient(t)
	go func() {
		for r, err := range consumer.Records(ctx) {
			if err != nil {
				continue
			}
			mu.Lock()
			read[string(r.Value)]++
			partitions[r.Partition] = true
			mu.Unlock()
		}
	}()
	// "latest" is where a partition ends when its reader arrives: nothing is claimed of records before that.
	manual := c.Client(t, client.WithPartitioner(client.ManualPartitioner()))
	for p := range int32(2) {
		Eventually(t, func() error {
			if err := manual.ProduceSync(ctx, value("numbers", p, fmt.Sprint(-100-p))); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if !partitions[p] {
				return fmt.Errorf("nobody reads partition %d yet", p)
			}
			return nil
		})
	}
	load := c.load(t)
	load.waitFor(1000)
	c.Must("topic", "add-partitions", "numbers", "-p", "6")
	load.waitFor(4000)
	// Keys alone may leave a new partition empty: one record to each makes the claim about all of them.
	for p := range int32(6) {
		// The client learns of the new partitions when it meets one that it does not know.
		Eventually(t, func() error { return manual.ProduceSync(ctx, value("numbers", p, fmt.Sprint(-1-p))) })
	}
	load.finish()
	Eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		for n := range load.acked {
			if read[fmt.Sprint(n)] == 0 {
				return fmt.Errorf("record %d was not read; %d were, %d acknowledged", n, len(read), len(load.acked))
			}
		}
		if len(partitions) != 6 {
			return fmt.Errorf("read from %d of 6 partitions", len(partitions))
		}
		return nil
	})
}

// TestCase65_TrimThenTheLeaderDies: what a trim deleted does not come back with the next leader.
func TestCase65_TrimThenTheLeaderDies(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "1", "-r", "3")
	c.MustWith(seq(1, 5000), "produce", "numbers")
	cl := c.Client(t)
	for _, before := range []int64{1000, 2500, 4000} {
		leader := c.Brokers[c.describe("numbers").Partitions[0].Leader]
		res, err := cl.DeleteRecords(patient(t), &moldauv1.DeleteRecordsRequest{Topic: "numbers", BeforeOffset: before})
		leader.Kill()
		if err != nil || res.GetLogStartOffset() != before {
			t.Fatalf("trim before %d: %v, %v", before, res, err)
		}
		Eventually(t, func() error {
			start, err := logStart(patient(t), cl, "numbers", 0)
			if err == nil && start != before {
				t.Fatalf("the log starts at %d after a trim to %d was answered", start, before)
			}
			return err
		})
		leader.Start()
		c.WaitHealthy()
	}
	if got := c.values("numbers"); len(got) != 1000 || got[0] != "4001" {
		t.Errorf("%d records are left, the first %.20v", len(got), got)
	}
}

// TestCase152_CreateThenProduceThroughAnother: a topic that one broker has created is known to every other, or the other waits.
func TestCase152_CreateThenProduceThroughAnother(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	ctx := patient(t)
	clients := []*client.Client{c.Brokers[0].Client(t), c.Brokers[1].Client(t), c.Brokers[2].Client(t)}
	var wrong []error
	for i := range 50 {
		topic := fmt.Sprintf("t%d", i)
		if _, err := clients[i%3].CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: topic, Partitions: 1, ReplicationFactor: 3}); err != nil {
			t.Fatal(err)
		}
		res, err := clients[(i+1)%3].ProduceRecords(ctx, &moldauv1.ProduceRecordsRequest{Topic: topic, Records: []*moldauv1.Record{{Value: []byte("v")}}})
		if err == nil {
			err = client.FromWire(res.GetRecords()[0].GetError())
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("produce to %s: %w", topic, err))
		}
		if _, err := clients[(i+2)%3].DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: topic}}}); err != nil {
			wrong = append(wrong, fmt.Errorf("describe %s: %w", topic, err))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d requests failed: %v", len(wrong), errors.Join(wrong[:min(3, len(wrong))]...))
	}
}
