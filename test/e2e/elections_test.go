package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// awaitISR waits until partition 0 of a topic has that many replicas in sync.
func (c *Cluster) awaitISR(topic string, n int) {
	c.t.Helper()
	c.awaitTopic(topic, func(d topicDescription) error {
		if isr := d.Partitions[0].ISR; len(isr) != n {
			return fmt.Errorf("topic %s: isr %v, want %d members", topic, isr, n)
		}
		return nil
	})
}

// TestCase58And59_OnlyTheReplicaThatIsBehindIsAlive: five brokers hold the metadata, three of them the topic. With every complete replica gone the partition
// has no leader, though a replica lives; it comes back with a complete one. Then an operator forces the incomplete replica: the election is counted as
// unclean, a consumer that had read the lost record is told, and nothing but that record is gone.
func TestCase58And59_OnlyTheReplicaThatIsBehindIsAlive(t *testing.T) {
	c := Start(t, 5)
	c.Must("topic", "create", "kept", "--assignment", "0,1,2", "-c", "min.insync.replicas=1")
	c.MustWith("first\n", "produce", "kept")
	behind := c.Brokers[2]
	behind.Kill()
	c.awaitISR("kept", 2)
	c.MustWith("second\n", "produce", "kept")

	reader, err := c.Client(t).NewConsumer(client.WithPartitions(map[client.TopicPartition]client.Start{{Topic: "kept"}: client.FromStart()}))
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for len(read) < 2 {
		records, err := reader.Poll(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			read = append(read, string(r.Value))
		}
	}

	c.Brokers[0].Kill()
	c.awaitLeader("kept", 1)
	c.awaitISR("kept", 1)
	c.Brokers[1].Kill() // now nobody is left who has everything, and with three of five brokers gone nobody who could say so
	behind.Start()
	Eventually(t, func() error { // the replica that is behind is in service, and still does not lead
		s, err := c.status()
		if err != nil {
			return err
		}
		for _, b := range s.Brokers {
			if b.Broker == 2 && b.Fenced {
				return fmt.Errorf("broker 2 is fenced")
			}
			if b.Broker == 1 && !b.Fenced {
				return fmt.Errorf("broker 1 is not fenced yet")
			}
		}
		return nil
	})
	if p := c.describe("kept").Partitions[0]; p.Leader != -1 {
		t.Fatalf("broker %d leads though no complete replica is alive", p.Leader)
	}
	c.Brokers[1].Start()
	c.awaitLeader("kept", 1)
	if got := c.values("kept"); strings.Join(got, " ") != "first second" {
		t.Fatalf("after the complete replica's return the topic holds %v", got)
	}
	c.forceUnclean(reader)
}

// forceUnclean begins with broker 0 down and 1 and 2 up.
func (c *Cluster) forceUnclean(reader *client.Consumer) {
	t := c.t
	c.awaitISR("kept", 2) // broker 2 has caught up
	c.Brokers[2].Kill()
	c.awaitISR("kept", 1)
	c.MustWith("third\n", "produce", "kept")
	Eventually(t, func() error {
		records, err := reader.Poll(patient(t))
		if err != nil || len(records) != 1 || string(records[0].Value) != "third" {
			return fmt.Errorf("the reader got %v, %w", records, err)
		}
		return nil
	})
	c.Brokers[1].Kill()
	c.Brokers[0].Start() // a third member of the metadata quorum; its replica has never had "third"
	c.awaitLeader("kept", -1)
	out := c.CLI("cluster", "elect", "kept:0")
	if out.Code == 0 || c.describe("kept").Partitions[0].Leader != -1 {
		t.Fatalf("an election that is not unclean: exit %d, %s", out.Code, out.Stdout+out.Stderr)
	}
	Eventually(t, func() error { // broker 0 may not be in service yet
		if out := c.CLI("cluster", "elect", "kept:0", "--unclean"); out.Code != 0 {
			return fmt.Errorf("unclean election: exit %d, %s", out.Code, out.Stderr)
		}
		return nil
	})
	c.awaitLeader("kept", 0)
	Eventually(t, func() error {
		n, err := c.Brokers[0].Metric(`moldau_leader_elections_total{kind="unclean"}`)
		if err == nil && n != 1 {
			err = fmt.Errorf("%v unclean elections are counted, want 1", n)
		}
		return err
	})
	c.MustWith("fourth\n", "produce", "kept")
	if got := c.values("kept"); strings.Join(got, " ") != "first second fourth" {
		t.Errorf("after the unclean election the topic holds %v", got)
	}
	ctx := patient(t)
	var loss *client.DataLossError
	for !errors.As(c.pollError(ctx, reader), &loss) {
		if ctx.Err() != nil {
			t.Fatal("the reader is not told that what it has read is gone")
		}
	}
	if loss.End != 2 {
		t.Errorf("the reader is told that the logs part at %d, want 2", loss.End)
	}
}

// pollError polls once and gives the error; records of the new leader that come without one are a silent loss.
func (c *Cluster) pollError(ctx context.Context, reader *client.Consumer) error {
	records, err := reader.Poll(ctx)
	if err == nil && len(records) > 0 {
		c.t.Fatalf("the reader goes on with %q and is not told of the loss", records[0].Value)
	}
	return err
}

// awaitLeader waits until a broker leads partition 0 of a topic; -1: none.
func (c *Cluster) awaitLeader(topic string, want int) {
	c.t.Helper()
	c.awaitTopic(topic, func(d topicDescription) error {
		if p := d.Partitions[0]; p.Leader != want {
			s, err := c.status()
			return fmt.Errorf("topic %s is led by %d, want %d: %+v, %+v, %v", topic, p.Leader, want, p, s, err)
		}
		return nil
	})
}

// TestCase62_HundredTransfersUnderLoad moves the leadership of one partition a hundred times while an idempotent producer writes: nothing is lost, there twice
// or out of order, and no request of the client fails.
func TestCase62_HundredTransfersUnderLoad(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "1", "-r", "3")
	admin := c.Client(t)
	load := c.load(t)
	load.waitFor(100)
	const transfers = 100
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	orders := [][]int32{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}
	for i, done := 0, 0; done < transfers; i++ {
		order := orders[i%3]
		if _, err := admin.Reassign(ctx, &moldauv1.ReassignRequest{Topic: "numbers", Replicas: order}); err != nil {
			t.Fatal(err)
		}
		done += c.transfer(ctx, admin, order[0])
		if i%10 == 0 {
			load.waitFor(20)
		}
	}
	load.waitFor(500)
	load.finish()
	c.checkAcknowledged(load)
	if epoch := c.describe("numbers").Partitions[0].LeaderEpoch; epoch < transfers {
		t.Errorf("leader epoch %d after %d transfers", epoch, transfers)
	}
	c.sameReplicas()
}

// transfer asks for preferred elections until the broker leads, and reports 1 if it did not lead before.
func (c *Cluster) transfer(ctx context.Context, admin *client.Client, to int32) int {
	c.t.Helper()
	var last error
	for moved := 0; ; moved = 1 {
		res, err := admin.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: "numbers"}}})
		if err != nil {
			c.t.Fatalf("describe: %v; the last election: %v", err, last)
		}
		p := res.GetTopics()[0].GetPartitions()[0]
		if p.GetLeader() == to && p.GetReplicas()[0] == to {
			return moved
		}
		_, last = admin.ElectLeaders(ctx, &moldauv1.ElectLeadersRequest{Partitions: []*moldauv1.TopicPartition{{Topic: "numbers"}}})
		select {
		case <-time.After(poll / 4):
		case <-ctx.Done():
			c.t.Fatalf("broker %d does not become the leader: %v; the last election: %v", to, p, last)
		}
	}
}

// TestCase53_ReassignmentSurvivesTheController: partitions move to a broker that holds none of them, and the controller is killed while they move.
func TestCase53_ReassignmentSurvivesTheController(t *testing.T) {
	t.Parallel()
	c := Start(t, 4)
	c.Must("topic", "create", "numbers", "--assignment", "0,1,2")
	c.Must("topic", "create", "bulk", "--assignment", "1,2,0", "--assignment", "2,0,1")
	bulk := strings.ReplaceAll(seq(1, 40_000), "\n", strings.Repeat(".", 500)+"\n") // takes a while to copy
	c.MustWith(bulk, "produce", "bulk")
	load := c.load(t)
	load.waitFor(500)
	s, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	moves := map[string]string{"bulk:0": "3,2,0", "bulk:1": "3,0,1", "numbers:0": "3,1,2"}
	for _, at := range []string{"bulk:0", "bulk:1", "numbers:0"} {
		c.Must("cluster", "reassign", at, "--replicas", moves[at])
	}
	c.Brokers[s.Controller].Kill()
	load.waitFor(500)
	c.Brokers[s.Controller].Start()
	Eventually(t, func() error {
		var left []any
		if err := c.decode(&left, "cluster", "reassign", "-o", "json"); err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("still moving: %v", left)
		}
		return nil
	})
	c.WaitHealthy()
	load.finish()
	for _, topic := range []string{"bulk", "numbers"} {
		for _, p := range c.describe(topic).Partitions {
			want := strings.ReplaceAll(moves[fmt.Sprintf("%s:%d", topic, p.Partition)], ",", " ")
			if got := strings.Trim(fmt.Sprint(p.Replicas), "[]"); got != want {
				t.Errorf("%s:%d is on %s, want %s", topic, p.Partition, got, want)
			}
		}
	}
	if got := len(c.values("bulk")); got != 40_000 {
		t.Errorf("bulk holds %d of 40000 records", got)
	}
	c.checkAcknowledged(load)
	c.sameReplicas()
}

// TestCase145_NoQuorum: with two of three brokers gone there is no controller. A partition whose whole ISR is on the third goes on with acks=isr, for as long
// as that lasts; with acks=leader, and for the latest offset, its leader stops when its lease is over, since it cannot know that it still leads.
func TestCase145_NoQuorum(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "alone", "--assignment", "0")
	b := c.Brokers[0]
	isr := b.Client(t)
	leader := b.Client(t, client.WithAcks(client.AcksLeader), client.WithDeliveryTimeout(time.Second))
	for _, cl := range []*client.Client{isr, leader} { // both have a producer id and know the leader from before
		if err := cl.ProduceSync(patient(t), value("alone", 0, "before")); err != nil {
			t.Fatal(err)
		}
	}
	c.Brokers[1].Kill()
	c.Brokers[2].Kill()
	Eventually(t, func() error {
		_, err := logEnd(patient(t), isr, "alone", 0)
		if err == nil {
			return errors.New("the leader still answers for its latest offset")
		}
		return nil
	})
	for range 20 {
		if err := isr.ProduceSync(patient(t), value("alone", 0, "during")); err != nil {
			t.Fatalf("acks=isr without a quorum: %v", err)
		}
	}
	if err := leader.ProduceSync(patient(t), value("alone", 0, "unsure")); err == nil {
		t.Error("acks=leader is answered although nobody can say who leads")
	}
	c.Brokers[1].Start()
	c.Brokers[2].Start()
	c.WaitHealthy()
	got := c.values("alone")
	during := 0
	for _, v := range got {
		if v == "during" {
			during++
		}
	}
	if during != 20 {
		t.Errorf("%d of 20 acknowledged records are there: %v", during, got)
	}
}
