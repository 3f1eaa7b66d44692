package grpcapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// sinkBroker answers every batch at once: what is left is the cost of the door and the client.
type sinkBroker struct{ *fakeBroker }

func (sinkBroker) Produce(_ broker.ProduceRequest, done func(broker.ProduceResult)) {
	done(broker.ProduceResult{BaseOffset: 0, LogStart: 0, LogAppendMs: -1, Leader: cluster.NoBroker, LeaderEpoch: -1})
}

func sinkCluster(b *testing.B) *fakeCluster {
	c := newFakeCluster(b, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	door := newServer(Config{}, sinkBroker{c.brokers[0]}, c.brokers[0].groups, nil, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	b.Cleanup(func() {
		if err := door.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c.change(func(txn *cluster.Txn) {
		txn.PutBroker(&cluster.Broker{ID: 0, Epoch: 1, Listeners: []cluster.Listener{{Name: "grpc", Host: "127.0.0.1", Port: mustPort(port)}}})
	})
	c.createTopic("t", 6)
	return c
}

// BenchmarkProduceBatches sends ready batches of 500 records of 100 B, 8 in flight on each of 6 partitions: one operation is one batch.
func BenchmarkProduceBatches(b *testing.B) {
	c := sinkCluster(b)
	k := newClient(b, c, client.WithoutIdempotence(), client.WithMaxInFlight(8))
	values := make([][]byte, 500)
	for i := range values {
		values[i] = make([]byte, 90)
	}
	batch := batchOf(b, record.BuilderOptions{}, values...)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	ctx := context.Background()
	var inFlight [6]chan struct{}
	for i := range inFlight {
		inFlight[i] = make(chan struct{}, 8)
	}
	n := 0
	for b.Loop() {
		slot := inFlight[n%6]
		slot <- struct{}{}
		k.ProduceBatch(ctx, "t", int32(n%6), batch, func(_ int64, err error) {
			if err != nil {
				b.Error(err)
			}
			<-slot
		})
		n++
	}
	if err := k.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)*500/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkProduceRecords sends records of 100 B one by one: one operation is one record.
func BenchmarkProduceRecords(b *testing.B) {
	c := sinkCluster(b)
	k := newClient(b, c)
	value := make([]byte, 90)
	ctx := context.Background()
	b.ReportAllocs()
	promise := func(_ *client.Record, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	n := 0
	for b.Loop() {
		k.Produce(ctx, &client.Record{Topic: "t", Value: value}, promise)
		n++
	}
	if err := k.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkConsume drains a backlog of batches of 500 records of 100 B: as stored, and decoded.
func BenchmarkConsume(b *testing.B) {
	c := newFakeCluster(b, 1)
	c.createTopic("t", 1)
	k := newClient(b, c)
	const total = 200000
	var wg sync.WaitGroup
	for i := range total {
		wg.Add(1)
		k.Produce(context.Background(), &client.Record{Topic: "t", Value: bytes.Repeat([]byte{byte(i)}, 90)}, func(*client.Record, error) { wg.Done() })
	}
	wg.Wait()
	read := func(b *testing.B, poll func(context.Context, *client.Consumer) (int64, error)) {
		b.ReportAllocs()
		for b.Loop() {
			consumer, err := k.NewConsumer(client.WithTopics("t"), client.WithStart(client.FromStart()))
			if err != nil {
				b.Fatal(err)
			}
			for end := int64(0); end < total; {
				if end, err = poll(context.Background(), consumer); err != nil {
					b.Fatal(err)
				}
			}
			if err := consumer.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	}
	tp := client.TopicPartition{Topic: "t"}
	for name, poll := range map[string]func(context.Context, *client.Consumer) (int64, error){
		"records": func(ctx context.Context, k *client.Consumer) (int64, error) {
			records, err := k.Poll(ctx)
			if err != nil || len(records) == 0 {
				return 0, fmt.Errorf("%d records: %w", len(records), err)
			}
			return records[len(records)-1].Offset + 1, nil
		},
		"batches": func(ctx context.Context, k *client.Consumer) (int64, error) {
			batches, err := k.PollBatches(ctx)
			if err != nil {
				return 0, err
			}
			batches.Release()
			return k.Positions()[tp].Offset, nil
		},
	} {
		b.Run(name, func(b *testing.B) { read(b, poll) })
	}
}
