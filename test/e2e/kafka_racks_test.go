package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// racks is three brokers in a rack each, and a topic of one partition on all of them.
type racks struct {
	*testing.T
	c                *Cluster
	ctx              context.Context
	client           *kgo.Client
	topic            [16]byte
	leader, follower *Broker
}

// TestKafkaRacks: a consumer reads from an in-sync follower in its own rack, and comes back to the leader when that follower is behind, or dies (KIP-392).
func TestKafkaRacks(t *testing.T) {
	c := Prepare(t, 3)
	for _, b := range c.Brokers {
		b.Extra = []string{"--rack", fmt.Sprint("rack-", b.ID)}
		b.Start()
	}
	c.WaitHealthy()
	r := &racks{T: t, c: c, ctx: kafkaContext(t), client: kafkaClient(t, c)}
	created, err := kadm.NewClient(r.client).CreateTopic(r.ctx, 1, 3, nil, "racks")
	if err != nil {
		t.Fatal(err)
	}
	r.topic = created.ID
	produceKafka(r.ctx, t, r.client, "racks", "first", 300)
	leader := r.leads()
	r.leader, r.follower = c.Brokers[leader], c.Brokers[(leader+1)%3]

	if p := r.fetch(r.leader, r.follower, 0); p.PreferredReadReplica != int32(r.follower.ID) || len(p.RecordBatches) != 0 {
		t.Errorf("the leader names %d and sends %d bytes, want %d and none", p.PreferredReadReplica, len(p.RecordBatches), r.follower.ID)
	}
	if p := r.fetch(r.leader, r.leader, 0); p.PreferredReadReplica != -1 || len(p.RecordBatches) == 0 {
		t.Errorf("in its own rack the leader names %d and sends %d bytes", p.PreferredReadReplica, len(p.RecordBatches))
	}
	Eventually(t, func() error { // the follower hears of the watermark a little later
		p, err := r.tryFetch(r.follower, r.follower, 0)
		if err != nil {
			return err
		}
		if p.ErrorCode != 0 || p.PreferredReadReplica != -1 || len(p.RecordBatches) == 0 || p.HighWatermark != 300 {
			return fmt.Errorf("the follower: error %d, watermark %d, %d bytes, sends to %d", p.ErrorCode, p.HighWatermark, len(p.RecordBatches), p.PreferredReadReplica)
		}
		return nil
	})
	if p := r.fetch(r.follower, r.follower, 1000); p.ErrorCode != kerr.OffsetNotAvailable.Code { // the leader may have more: the reader asks again, and does not start over
		t.Errorf("a follower that has not got so far: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	r.consume()
}

// consume has a client of the follower's rack read while that follower dies and comes back.
func (r *racks) consume() {
	// franz-go leaves a follower that is dead only when it asks the leader again whom to read from, by default after half an hour.
	reader := kafkaClient(r.T, r.c, kgo.ConsumeTopics("racks"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Rack(r.follower.Extra[1]), kgo.RecheckPreferredReplicaInterval(time.Second))
	collectKafka(r.ctx, r.T, reader, 300)
	sent := func(b *Broker) float64 {
		n, _ := b.Metric(`moldau_fetched_bytes_total{source="consumer",topic="racks"`) // absent before the first byte
		return n
	}
	before := sent(r.leader)
	if sent(r.follower) == 0 {
		r.Error("the follower has sent nothing")
	}
	produceKafka(r.ctx, r.T, r.client, "racks", "second", 300)
	collectKafka(r.ctx, r.T, reader, 300)
	if after := sent(r.leader); after != before {
		r.Errorf("the leader has sent %.0f bytes to a reader of another rack", after-before)
	}
	r.follower.Kill()
	produceKafka(r.ctx, r.T, r.client, "racks", "third", 300)
	collectKafka(r.ctx, r.T, reader, 300)
	Eventually(r.T, func() error {
		p, err := r.tryFetch(r.leader, r.follower, 0)
		if err == nil && (p.PreferredReadReplica == int32(r.follower.ID) || len(p.RecordBatches) == 0) {
			err = fmt.Errorf("the leader still names the dead follower")
		}
		return err
	})
	r.follower.Start()
	r.c.WaitHealthy()
	Eventually(r.T, func() error {
		p, err := r.tryFetch(r.leader, r.follower, 0)
		if err == nil && p.PreferredReadReplica != int32(r.follower.ID) {
			err = fmt.Errorf("the leader names %d, and the follower is back", p.PreferredReadReplica)
		}
		return err
	})
}

// leads is the broker that leads the partition.
func (r *racks) leads() int32 {
	r.Helper()
	meta, err := kadm.NewClient(r.client).Metadata(r.ctx, "racks")
	if err != nil {
		r.Fatal(err)
	}
	return meta.Topics["racks"].Partitions[0].Leader
}

// fetch asks one broker once, as a client in the rack of another.
func (r *racks) fetch(from, rackOf *Broker, offset int64) kmsg.FetchResponseTopicPartition {
	r.Helper()
	p, err := r.tryFetch(from, rackOf, offset)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// tryFetch is fetch for who asks again.
func (r *racks) tryFetch(from, rackOf *Broker, offset int64) (kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.Rack, req.SessionEpoch = 100, 1, 1<<20, rackOf.Extra[1], -1
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, topic.TopicID, p.FetchOffset, p.PartitionMaxBytes = "racks", r.topic, offset, 1<<20
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := r.client.Broker(from.ID).Request(r.ctx, req)
	if err != nil {
		return kmsg.FetchResponseTopicPartition{}, fmt.Errorf("fetch from broker %d: %w", from.ID, err)
	}
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0], nil
}
