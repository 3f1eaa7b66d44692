package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
)

// inFlight bounds the records of one producer that are not acknowledged; where it is reached the producer waits.
const inFlight = 100

// deliveryTimeout is after how long the native client gives a record up. franz-go takes a record's own timestamp for its age, and has none here.
const deliveryTimeout = 60 * time.Second

// flushPatience bounds how long a producer that is stopped waits for its answers.
const flushPatience = 30 * time.Second

// Now and then, on one beat in burstEvery, a producer sends so many more records at once.
const (
	burst      = 50
	burstEvery = 100
)

// Sizes of values, in bytes: most are small, one in largeEvery is large.
const (
	smallValue = 120
	largeValue = 40_000
	largeEvery = 400
)

// sender is a client library that sends: done is called once.
type sender interface {
	send(ctx context.Context, topic string, partition int32, value []byte, at time.Time, done func(offset int64, err error))
	close(ctx context.Context)
}

// KafkaProducer gives a producer over the Kafka door that sends so many records a second. acks=leader is not idempotent there: Kafka's protocol has it so.
func (l *Load) KafkaProducer(rate int, acks string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		opts := []kgo.Opt{kgo.SeedBrokers(l.At.Kafka...), kgo.ClientID(c.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2 * time.Millisecond),
			kgo.MetadataMinAge(250 * time.Millisecond), kgo.DialTimeout(2 * time.Second)}
		if acks == history.AcksLeader {
			opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			c.Counts.Note("new Kafka client", err)
			return
		}
		c.produce(ctx, kafkaSender{cl}, rate, acks, acks == history.AcksLeader)
	}
}

// NativeProducer gives a producer over the gRPC door.
func (l *Load) NativeProducer(rate int, acks string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		level := client.AcksISR
		if acks == history.AcksLeader {
			level = client.AcksLeader
		}
		cl, err := client.New(client.WithSeeds(l.At.GRPC...), client.WithClientID(c.Name), client.WithPartitioner(client.ManualPartitioner()), client.WithAcks(level),
			client.WithLinger(2*time.Millisecond), client.WithDeliveryTimeout(deliveryTimeout), client.WithDialTimeout(2*time.Second))
		if err != nil {
			c.Counts.Note("new native client", err)
			return
		}
		c.produce(ctx, nativeSender{cl}, rate, acks, false)
	}
}

func (c *Client) produce(ctx context.Context, s sender, rate int, acks string, twice bool) {
	slots := make(chan struct{}, inFlight)
	pace := pace{beat: time.NewTicker(time.Second * (burst + burstEvery) / burstEvery / time.Duration(max(rate, 1))), slots: slots}
	defer pace.beat.Stop()
	for seq := int64(1); pace.next(ctx, c.Random); seq++ {
		topic, partition := c.topics.pick(c.Random)
		size := smallValue
		if c.Random.IntN(largeEvery) == 0 {
			size = largeValue
		}
		v := history.Value{Client: c.Name, Seq: seq}
		e := c.Begin(history.Event{Kind: history.Send, Acks: acks, NotIdempotent: twice,
			Records: []history.Record{{Topic: topic, Partition: partition, Offset: history.Unknown, Epoch: history.Unknown, Value: v.String()}}})
		s.send(context.WithoutCancel(ctx), topic, partition, v.Padded(size), c.stored(), func(offset int64, err error) {
			if err == nil {
				r := e.Records[0]
				r.Offset = offset
				e.Records = []history.Record{r}
			}
			c.End(e, err)
			<-slots
		})
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
	defer cancel()
	s.close(flush)
}

// pace says when the next record is sent.
type pace struct {
	beat   *time.Ticker
	slots  chan<- struct{} // one is taken for each record under way
	atOnce int             // records of a burst that are still to be sent
}

// next waits for the time of the next record; it reports whether the context goes on.
func (p *pace) next(ctx context.Context, random *rand.Rand) bool {
	if p.atOnce--; p.atOnce < 0 {
		select {
		case <-p.beat.C:
		case <-ctx.Done():
			return false
		}
		if random.IntN(burstEvery) == 0 {
			p.atOnce = burst
		}
	}
	select {
	case p.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// stored is the time that a producer puts into a record: mostly the present, now and then that of a machine whose clock is days behind or minutes ahead. The clock of a
// broker cannot be moved on its own on one machine; what it sees of other clocks is this.
func (c *Client) stored() time.Time {
	now := time.Now()
	switch c.Random.IntN(20) {
	case 0:
		return now.Add(-time.Duration(c.Random.Int64N(int64(30 * 24 * time.Hour))))
	case 1:
		return now.Add(time.Duration(c.Random.Int64N(int64(30 * time.Minute))))
	}
	return now
}

type kafkaSender struct{ *kgo.Client }

func (s kafkaSender) send(ctx context.Context, topic string, partition int32, value []byte, at time.Time, done func(int64, error)) {
	s.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: value, Timestamp: at}, func(r *kgo.Record, err error) {
		if err != nil && strings.HasPrefix(err.Error(), unknownPartition) {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		}
		done(r.Offset, err)
	})
}

// unknownPartition begins franz-go's error, which has no value of its own, for a record to a partition that it has not heard of: it was never sent.
const unknownPartition = "invalid record partitioning choice"

func (s kafkaSender) close(ctx context.Context) {
	_ = s.Flush(ctx) // what is unanswered then fails on Close, as of unknown outcome
	s.Client.Close()
}

type nativeSender struct{ *client.Client }

func (s nativeSender) send(ctx context.Context, topic string, partition int32, value []byte, at time.Time, done func(int64, error)) {
	s.Produce(ctx, &client.Record{Topic: topic, Partition: partition, Value: value, Timestamp: at}, func(r *client.Record, err error) {
		if r == nil {
			err = errors.Join(err, fmt.Errorf("load: a promise without its record"))
			done(history.Unknown, err)
			return
		}
		done(r.Offset, err)
	})
}

func (s nativeSender) close(ctx context.Context) {
	_ = s.Flush(ctx) // as above
	_ = s.Client.Close()
}
