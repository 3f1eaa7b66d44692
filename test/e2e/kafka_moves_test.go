package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recoverWithin is how long clients may need to find a broker that has moved.
const recoverWithin = 30 * time.Second

// TestKafkaBrokersMove: bitnami charts 1002, kafka-python 1683. One broker after the other comes back under another address, with the same id, as a container does that was
// started again. A producer and a member of a group that run all the while, and know only the first addresses, find each of them within half a minute; in the end nobody
// is told an old address.
func TestKafkaBrokersMove(t *testing.T) {
	const topic, partitions, each = "moves", 6, 30
	c := Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
	defer cancel()
	client := kafkaClient(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MetadataMaxAge(time.Second))
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, partitions, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
	reader := startGroupReader(t, c, "moves", topic)
	defer reader.stop()
	seen := &seenValues{values: map[string]int{}}
	reader.into(seen)
	produceKafka(ctx, t, client, topic, "before", each)
	eventually(ctx, t, "the records before any move", func() bool { return seen.len() == each })

	var old []string
	for i, b := range c.Brokers {
		old = append(old, b.Kafka)
		if i%2 == 0 {
			b.Kill()
		} else {
			b.Terminate()
		}
		b.Kafka = otherAddress(t)
		b.Start()
		start := time.Now()
		eventually(ctx, t, "the new address in what every broker tells", func() bool {
			for _, asked := range c.Brokers {
				if told := brokersOf(ctx, client, asked); len(told) != len(c.Brokers) || told[int32(b.ID)] != b.Kafka {
					return false
				}
			}
			return true
		})
		c.WaitHealthy()
		c.Must("cluster", "elect")
		c.leadsSome(topic, b.ID)
		produceKafka(ctx, t, client, topic, fmt.Sprint("move-", i), each) // to every partition, those of the moved broker too
		eventually(ctx, t, "the records after a move", func() bool { return seen.len() == (i+2)*each })
		if took := time.Since(start); took > recoverWithin {
			t.Errorf("broker %d moved to %s: the clients needed %v", b.ID, b.Kafka, took)
		}
	}
	for _, asked := range c.Brokers {
		for id, at := range brokersOf(ctx, client, asked) {
			if slices.Contains(old, at) || at != c.Brokers[id].Kafka {
				t.Errorf("broker %d is said to be at %s, and is at %s", id, at, c.Brokers[id].Kafka)
			}
		}
	}
}

// brokersOf asks one broker where all are, on a connection of the client's; nothing where it does not answer.
func brokersOf(ctx context.Context, client *kgo.Client, asked *Broker) map[int32]string {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, client.Broker(asked.ID))
	if err != nil {
		return nil
	}
	told := map[int32]string{}
	for _, b := range resp.Brokers {
		told[b.NodeID] = net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
	}
	return told
}

// leadsSome waits until the broker leads a partition of the topic.
func (c *Cluster) leadsSome(topic string, id int) {
	c.t.Helper()
	Eventually(c.t, func() error {
		out := c.CLI("cluster", "partitions", "--topic", topic, "-o", "json")
		var partitions []struct {
			Leader int `json:"leader"`
		}
		if err := json.Unmarshal([]byte(out.Stdout), &partitions); err != nil || out.Code != 0 {
			return fmt.Errorf("cluster partitions: exit %d: %s, %w", out.Code, out.Stderr, err)
		}
		for _, p := range partitions {
			if p.Leader == id {
				return nil
			}
		}
		return fmt.Errorf("broker %d leads no partition of %s", id, topic)
	})
}

// otherAddress is a free address of another host, as far as loopback has several.
func otherAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
