package e2e

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaFrame is a request as it goes over the wire.
func kafkaFrame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

// TestCase107And108_TheKafkaDoorUnderAbuse: thousands of connections to one broker that are idle, begin a request that they announce large and never end, ask for
// records, or for long answers, and read nothing, or send requests that are as large as they may be and name nothing that exists. The broker stays within its bounds,
// and a client that means well goes on.
func TestCase107And108_TheKafkaDoorUnderAbuse(t *testing.T) {
	c := Start(t, 1, "--limits-max-in-flight-bytes", "64MiB", "--limits-max-request-bytes", "16MiB")
	b := c.Brokers[0]
	c.Must("topic", "create", "abuse", "-p", "1")
	ctx := kafkaContext(t)
	good := kafkaClient(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 20 { // more than sockets hold
		if err := good.ProduceSync(ctx, &kgo.Record{Topic: "abuse", Value: make([]byte, 900_000+i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	before := b.peakMemory(t)
	crowd := &crowd{t: t, addr: b.Kafka}
	defer crowd.leave()
	crowd.join(1200, nil)
	crowd.join(1200, []byte{0x00, 0xf0, 0, 0, 0, 0, 0, 9})                   // 15 MiB of Produce are to follow
	crowd.join(6, append([]byte{0x00, 0xf0, 0, 0}, make([]byte, 14<<20)...)) // 15 MiB, and the end of it never comes
	fetch := &kmsg.FetchRequest{Version: 11, ReplicaID: -1, MaxWaitMillis: 100, MinBytes: 1, MaxBytes: 50 << 20, SessionEpoch: -1}
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, p.PartitionMaxBytes = "abuse", 50<<20
	topic.Partitions = append(topic.Partitions, p)
	fetch.Topics = append(fetch.Topics, topic)
	crowd.join(600, slices.Repeat(kafkaFrame(fetch), 50))
	configs := &kmsg.DescribeConfigsRequest{Version: 4, IncludeDocumentation: true}
	for i := range 500 {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: fmt.Sprint(i)})
	}
	crowd.join(30, slices.Repeat(kafkaFrame(configs), 20))
	unknown := &kmsg.FetchRequest{Version: 11, ReplicaID: -1, MaxWaitMillis: 100, MaxBytes: 1 << 20, SessionEpoch: -1}
	nothing := kmsg.NewFetchRequestTopic()
	nothing.Topic = "nothing"
	for i := range int32(120_000) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = i
		nothing.Partitions = append(nothing.Partitions, p)
	}
	unknown.Topics = append(unknown.Topics, nothing)
	frame := kafkaFrame(unknown)
	crowd.join(12, slices.Repeat(frame, 2))

	var slowest time.Duration
	for i := range 200 {
		start := time.Now()
		if err := good.ProduceSync(ctx, &kgo.Record{Topic: "abuse", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatalf("a client that means well: %v after %d; %d MiB", err, i, b.peakMemory(t)>>20)
		}
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%d connections; the slowest of 200 produces took %v; %d MiB before, at most %d MiB", len(crowd.conns), slowest, before>>20, b.peakMemory(t)>>20)
	if peak := b.peakMemory(t); peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
	crowd.leave()
	Eventually(t, func() error {
		n, err := b.Metric("moldau_connections{")
		if err == nil && n > 10 {
			err = fmt.Errorf("%.0f connections are open", n)
		}
		return err
	})
}

// crowd is many connections that send something and read nothing.
type crowd struct {
	t     *testing.T
	addr  string
	conns []net.Conn
	wg    sync.WaitGroup
}

// join opens n connections that send what they are given, as far as the broker takes it.
func (c *crowd) join(n int, send []byte) {
	c.t.Helper()
	for range n {
		conn, err := net.DialTimeout("tcp", c.addr, Patience)
		if err != nil {
			c.t.Fatal(err)
		}
		c.conns = append(c.conns, conn)
		c.wg.Go(func() { _, _ = conn.Write(send) }) // it ends when the connection does, at the latest
	}
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.wg.Wait()
	c.conns = nil
}
