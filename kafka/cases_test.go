package kafka_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/moldautest"
	"github.com/moldau-log/moldau/record"
)

// Hard cases through the Kafka door of a whole broker, with requests made by hand where a client would not make them.

// broker is one broker with a topic t of one partition.
type broker struct {
	t     *testing.T
	ctx   context.Context
	at    *moldautest.Broker
	kafka *kgo.Client
	admin *kadm.Client
	topic [16]byte
}

func start(t *testing.T, adjust ...func(*config.Config)) *broker {
	t.Helper()
	b := &broker{t: t, at: moldautest.Start(t, append([]func(*config.Config){func(c *config.Config) { c.Topic.AutoCreate = false }}, adjust...)...)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	b.ctx = ctx
	b.kafka = b.client()
	b.admin = kadm.NewClient(b.kafka)
	made, err := b.admin.CreateTopic(ctx, 1, 1, nil, "t")
	if err != nil {
		t.Fatal(err)
	}
	b.topic = made.ID
	b.eventually("a leader of the topic", func() bool {
		ends, err := b.admin.ListEndOffsets(ctx, "t")
		end, ok := ends.Lookup("t", 0)
		return err == nil && ok && end.Err == nil
	})
	b.eventually("a coordinator", func() bool {
		_, err := b.admin.FetchOffsets(ctx, "none")
		return err == nil
	})
	return b
}

// eventually waits until ok says yes: a client would ask again, and the requests of these tests are sent once.
func (b *broker) eventually(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("%s: never came", what)
		}
	}
}

func (b *broker) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.at.Kafka), kgo.DisableIdempotentWrite()}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// ask sends a request as it is to the broker, once.
func ask[R kmsg.Response](b *broker, req kmsg.Request) R {
	b.t.Helper()
	resp, err := b.kafka.Broker(0).Request(b.ctx, req)
	if err != nil {
		b.t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

// sent is a batch of an idempotent producer, one record per value.
type sent struct {
	id     int64
	epoch  int16
	seq    int32
	values []string
}

func (s sent) bytes(t *testing.T) []byte {
	t.Helper()
	builder := record.NewBuilder(record.BuilderOptions{ProducerID: record.ProducerID(s.id), ProducerEpoch: record.ProducerEpoch(s.epoch), BaseSequence: record.Sequence(s.seq)})
	for _, v := range s.values {
		builder.Append(time.Now().UnixMilli(), nil, []byte(v), nil)
	}
	batch, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

func (b *broker) produce(batch []byte) (int64, error) {
	b.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	topic, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, topic.TopicID, p.Records = "t", b.topic, batch
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	got := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions[0]
	return got.BaseOffset, kerr.ErrorForCode(got.ErrorCode)
}

// wantProduced sends a batch and wants an offset or an error.
func (b *broker) wantProduced(s sent, offset int64, want error) {
	b.t.Helper()
	if got, err := b.produce(s.bytes(b.t)); err != want || got != offset {
		b.t.Errorf("%+v: offset %d, %v; want %d, %v", s, got, err, offset, want)
	}
}

// wantValues reads the whole log.
func (b *broker) wantValues(want ...string) {
	b.t.Helper()
	ends, err := b.admin.ListEndOffsets(b.ctx, "t")
	if err != nil {
		b.t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != int64(len(want)) {
		b.t.Errorf("the log ends at %d, want %d", end.Offset, len(want))
	}
	reader := b.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for next := 0; next < len(want); {
		fetches := reader.PollFetches(b.ctx)
		if err := fetches.Err(); err != nil {
			b.t.Fatalf("after %d records: %v", next, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next < len(want) && (string(r.Value) != want[next] || r.Offset != int64(next)) {
				b.t.Errorf("offset %d holds %q, want %q at %d", r.Offset, r.Value, want[next], next)
			}
			next++
		})
	}
}

func (b *broker) newID() int64 {
	b.t.Helper()
	resp := ask[*kmsg.InitProducerIDResponse](b, kmsg.NewPtrInitProducerIDRequest())
	if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 {
		b.t.Fatalf("InitProducerId: %+v", resp)
	}
	return resp.ProducerID
}

func TestCase66_ARetryIsStoredOnce(t *testing.T) {
	b := start(t)
	id := b.newID()
	b.wantProduced(sent{id, 0, 0, []string{"a", "b"}}, 0, nil)
	b.wantProduced(sent{id, 0, 2, []string{"c"}}, 2, nil)
	b.wantProduced(sent{id, 0, 0, []string{"a", "b"}}, 0, nil) // its answer was lost
	b.wantProduced(sent{id, 0, 2, []string{"c"}}, 2, nil)
	b.wantValues("a", "b", "c")
	seen, err := b.admin.DescribeProducers(b.ctx, kadm.TopicsSet{"t": {0: {}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := seen["t"].Partitions[0].ActiveProducers[id]; p.LastSequence != 2 || p.ProducerEpoch != 0 {
		t.Errorf("producers: %+v", seen)
	}
}

func TestCase68_FailureOfTheFirstOfFiveKeepsOrder(t *testing.T) {
	b := start(t)
	id := b.newID()
	values := []string{"0", "1", "2", "3", "4", "5"}
	b.wantProduced(sent{id, 0, 0, values[:1]}, 0, nil)
	damaged := sent{id, 0, 1, values[1:2]}.bytes(t)
	damaged[len(damaged)-1] ^= 1
	if _, err := b.produce(damaged); err != kerr.CorruptMessage {
		t.Errorf("a damaged batch: %v", err)
	}
	for seq := int32(2); seq <= 5; seq++ {
		b.wantProduced(sent{id, 0, seq, values[seq : seq+1]}, -1, kerr.OutOfOrderSequenceNumber)
	}
	for seq := int32(1); seq <= 5; seq++ { // all are sent again, in their order
		b.wantProduced(sent{id, 0, seq, values[seq : seq+1]}, int64(seq), nil)
	}
	b.wantValues(values...)
}

func TestCase70_AForgottenProducerGoesOn(t *testing.T) {
	b := start(t)
	id := b.newID()
	b.wantProduced(sent{id, 0, 41, []string{"a"}}, 0, nil) // the log knows nothing of its first 41 records
	b.wantProduced(sent{id, 0, 41, []string{"a"}}, 0, nil)
	b.wantProduced(sent{id, 0, 42, []string{"b"}}, 1, nil)
	if _, err := b.admin.DeleteRecords(b.ctx, kadm.Offsets{"t": {0: {Topic: "t", At: 2}}}); err != nil {
		t.Fatal(err)
	}
	b.wantProduced(sent{id, 0, 43, []string{"c"}}, 2, nil)
	b.wantProduced(sent{id, 0, 43, []string{"c"}}, 2, nil)
}

func TestCase71_SequencesWrap(t *testing.T) {
	b := start(t)
	id := b.newID()
	b.wantProduced(sent{id, 0, math.MaxInt32 - 2, []string{"a", "b"}}, 0, nil)
	b.wantProduced(sent{id, 0, math.MaxInt32, []string{"c", "d"}}, 2, nil)           // the second record has sequence 0
	b.wantProduced(sent{id, 0, 0, []string{"x"}}, -1, kerr.OutOfOrderSequenceNumber) // which some would take for a duplicate of "d"
	b.wantProduced(sent{id, 0, 1, []string{"e"}}, 4, nil)
	b.wantProduced(sent{id, 0, math.MaxInt32, []string{"c", "d"}}, 2, nil)
	b.wantProduced(sent{id, 1, 1, []string{"x"}}, -1, kerr.OutOfOrderSequenceNumber) // a new epoch begins at 0
	b.wantProduced(sent{id, 1, 0, []string{"f"}}, 5, nil)
	b.wantProduced(sent{id, 0, 2, []string{"x"}}, -1, kerr.InvalidProducerEpoch)
	b.wantValues("a", "b", "c", "d", "e", "f")
}

func TestCase72_ProducerIDsAreNeverGivenTwice(t *testing.T) {
	dir, seen := t.TempDir(), map[int64]bool{}
	for life := range 3 {
		t.Run("life", func(t *testing.T) {
			at := moldautest.Start(t, func(c *config.Config) { c.Data = dir })
			c, err := kgo.NewClient(kgo.SeedBrokers(at.Kafka))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b := &broker{t: t, ctx: t.Context(), kafka: c}
			for range 5 {
				id := b.newID()
				if seen[id] {
					t.Errorf("id %d again in life %d", id, life)
				}
				seen[id] = true
			}
		})
	}
}

// Cases that no client can bring into a log: transactions, and control batches, which only brokers write.
func TestProduce_TransactionalAndControlBatchesAreNeverAppended(t *testing.T) {
	b := start(t)
	for attribute, want := range map[byte]error{1 << 4: kerr.TransactionalIDAuthorizationFailed, 1 << 5: kerr.InvalidRecord, 1<<4 | 1<<5: kerr.TransactionalIDAuthorizationFailed} {
		batch := sent{id: b.newID(), values: []string{"x"}}.bytes(t)
		batch[22] |= attribute
		seal(batch)
		if _, err := b.produce(batch); err != want {
			t.Errorf("attribute %#x: %v, want %v", attribute, err, want)
		}
	}
	b.wantProduced(sent{id: b.newID(), values: []string{"only"}}, 0, nil)
	b.wantValues("only")
}

func TestCase115_NamesThatAreNoTopics(t *testing.T) {
	data := t.TempDir()
	b := start(t, func(c *config.Config) { c.Data, c.Topic.AutoCreate = filepath.Join(data, "broker"), true })
	long := string(make([]byte, 0, 250))
	for range 250 {
		long += "n"
	}
	for _, name := range []string{"", ".", "..", "a/../b", "../up", "a\x00b", "a b", long} {
		req := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		req.TimeoutMillis, req.Topics = 5000, append(req.Topics, topic)
		if err := kerr.ErrorForCode(ask[*kmsg.CreateTopicsResponse](b, req).Topics[0].ErrorCode); err != kerr.InvalidTopicException {
			t.Errorf("create %q: %v", name, err)
		}
		meta := kmsg.NewPtrMetadataRequest()
		meta.AllowAutoTopicCreation = true
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &name
		meta.Topics = append(meta.Topics, asked)
		if err := kerr.ErrorForCode(ask[*kmsg.MetadataResponse](b, meta).Topics[0].ErrorCode); err != kerr.InvalidTopicException {
			t.Errorf("ask for %q: %v", name, err)
		}
	}
	if _, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "a.b"); err != nil {
		t.Error(err)
	}
	if _, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "a_b"); err == nil {
		t.Error("a_b is made beside a.b, and metrics cannot tell them apart")
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 {
		t.Errorf("beside the data directory: %v, %v", entries, err)
	}
}
