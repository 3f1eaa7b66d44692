package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaSender sends with franz-go, idempotent, which is its default.
type kafkaSender struct{ client *kgo.Client }

func (s kafkaSender) send(ctx context.Context, key, value string, done func(error)) {
	s.client.Produce(ctx, &kgo.Record{Topic: "numbers", Key: []byte(key), Value: []byte(value)}, func(_ *kgo.Record, err error) { done(err) })
}

func (s kafkaSender) flush(ctx context.Context) error { return s.client.Flush(ctx) }

func (s kafkaSender) close() { s.client.Close() }

// kafkaReaders is a consumer group of franz-go clients. It notes the values that came, and every error that the client does not mend by itself.
type kafkaReaders struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex // guards what follows
	seen map[string]int
	errs []error
}

func startKafkaReaders(t *testing.T, c *Cluster, members int) *kafkaReaders {
	ctx, cancel := context.WithCancel(context.Background())
	r := &kafkaReaders{cancel: cancel, seen: map[string]int{}}
	t.Cleanup(r.stop)
	for range members {
		client := kafkaClient(t, c, kgo.ConsumerGroup("rounds"), kgo.ConsumeTopics("numbers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(10*time.Second), kgo.AutoCommitInterval(200*time.Millisecond))
		r.done.Go(func() { r.read(ctx, client) })
	}
	return r
}

func (r *kafkaReaders) read(ctx context.Context, client *kgo.Client) {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		fetches.EachError(func(topic string, p int32, err error) {
			var session *kgo.ErrGroupSession // news of a group that the client joins again by itself
			if !errors.As(err, &session) {
				r.errs = append(r.errs, fmt.Errorf("%s-%d: %w", topic, p, err))
			}
		})
		fetches.EachRecord(func(rec *kgo.Record) { r.seen[string(rec.Value)]++ })
		r.mu.Unlock()
	}
}

func (r *kafkaReaders) stop() {
	r.cancel()
	r.done.Wait()
}

// TestKafkaRounds is TestRounds with a Kafka client: franz-go produces with acks=all and two members read in a group, while a random broker is killed with -9
// and started again, round after round. Nothing acknowledged is missing in the log or in what the group has read, nothing is there twice, and neither side
// sees an error that its client does not mend. E2E_ROUNDS and E2E_SEED make it longer or another one.
func TestKafkaRounds(t *testing.T) {
	rounds, seed := number(t, "E2E_ROUNDS", 3), number(t, "E2E_SEED", 2)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "4", "-r", "3")
	load := startLoad(t, kafkaSender{kafkaClient(t, c, kgo.ProducerLinger(time.Millisecond), kgo.RecordDeliveryTimeout(2*Patience))})
	t.Cleanup(load.finish)
	readers := startKafkaReaders(t, c, 2)
	for range rounds {
		victim := c.Brokers[random.IntN(len(c.Brokers))]
		load.waitFor(200 + random.IntN(2000))
		victim.Kill()
		load.waitFor(200 + random.IntN(2000))
		victim.Start()
		c.WaitHealthy()
	}
	load.finish()
	c.checkAcknowledged(load)
	Eventually(t, func() error { // the group comes to the end of what was acknowledged
		readers.mu.Lock()
		defer readers.mu.Unlock()
		load.mu.Lock()
		defer load.mu.Unlock()
		missing := 0
		for n := range load.acked {
			if readers.seen[fmt.Sprint(n)] == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("the group has not read %d of %d acknowledged records", missing, len(load.acked))
		}
		return nil
	})
	readers.stop()
	for _, err := range readers.errs {
		t.Errorf("a member: %v", err)
	}
	t.Logf("%d rounds: the group has read %d records", rounds, len(readers.seen))
	c.sameReplicas()
}
