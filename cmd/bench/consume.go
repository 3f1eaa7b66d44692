package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/record"
)

// maxDecompressed bounds one batch while its records are decoded.
const maxDecompressed = 256 << 20

// consumeAll reads with every client its share of the partitions: to drain's end, or until ctx ends or the count is reached.
func (w *watch) consumeAll(ctx context.Context, clients []*client.Client, s *settings, partitions int32, drain drainEnd, fromStart bool) error {
	shares := make([]map[client.TopicPartition]client.Start, min(len(clients), int(partitions)))
	for i := range partitions {
		share := &shares[int(i)%len(shares)]
		if *share == nil {
			*share = map[client.TopicPartition]client.Start{}
		}
		start := client.FromEnd()
		if fromStart {
			start = client.FromStart()
		}
		(*share)[client.TopicPartition{Topic: s.Topic, Partition: i}] = start
	}
	all, ctx := errgroup.WithContext(ctx)
	for i, share := range shares {
		all.Go(func() error { return w.read(ctx, clients[i], s, share, drain) })
	}
	return all.Wait()
}

func (w *watch) read(ctx context.Context, c *client.Client, s *settings, share map[client.TopicPartition]client.Start, drain drainEnd) error {
	consumer, err := c.NewConsumer(client.WithPartitions(share))
	if err != nil {
		return err
	}
	defer consumer.Close()
	open := map[int32]int64{}
	for tp := range share {
		if end := drain[tp.Partition]; end > 0 {
			open[tp.Partition] = end
		}
	}
	for drain == nil || len(open) > 0 {
		var partition int32
		var next int64
		if s.API == "records" {
			partition, next, err = w.pollRecords(ctx, consumer, open)
		} else {
			partition, next, err = w.pollBatches(ctx, consumer, s.Decode)
		}
		switch {
		case ctx.Err() != nil && (drain == nil || errors.Is(err, ctx.Err())):
			return nil
		case err != nil:
			return fmt.Errorf("consume %s: %w", s.Topic, err)
		}
		if end, ok := open[partition]; ok && next >= end {
			delete(open, partition)
		}
		if drain == nil && s.Count > 0 && w.consumed.records.Load() >= s.Count {
			return nil
		}
	}
	return nil
}

// pollBatches takes a stretch of batches, checks and counts them.
func (w *watch) pollBatches(ctx context.Context, consumer *client.Consumer, decode bool) (partition int32, next int64, err error) {
	got, err := consumer.PollBatches(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer got.Release()
	records, now := int64(0), time.Now()
	err = record.Split(got.Bytes, func(b record.Batch) error {
		if err := b.VerifyCRC(); err != nil {
			return err
		}
		next = int64(b.NextOffset())
		if !decode {
			records += int64(b.Count())
		} else {
			it := b.Records(maxDecompressed)
			for it.Next() {
				records++
			}
			if err := it.Err(); err != nil {
				return err
			}
		}
		w.delivered(now, b.MaxTimestamp())
		return nil
	})
	w.consumed.records.Add(records)
	w.consumed.bytes.Add(int64(len(got.Bytes)))
	return got.Partition, next, err
}

// pollRecords takes decoded records, as programs do. It closes what is read to the end in open itself, since one Poll may bring several partitions.
func (w *watch) pollRecords(ctx context.Context, consumer *client.Consumer, open map[int32]int64) (partition int32, next int64, err error) {
	records, err := consumer.Poll(ctx)
	if err != nil {
		return 0, 0, err
	}
	bytes, now := 0, time.Now()
	for i := range records {
		r := &records[i]
		bytes += len(r.Key) + len(r.Value)
		if end, ok := open[r.Partition]; ok && r.Offset+1 >= end {
			delete(open, r.Partition)
		}
		if i+1 == len(records) || records[i+1].Partition != r.Partition {
			w.delivered(now, r.Timestamp.UnixMilli())
		}
	}
	w.consumed.records.Add(int64(len(records)))
	w.consumed.bytes.Add(int64(bytes))
	return -1, 0, nil
}

// delivered notes the time from a batch's timestamp to its delivery. In a drain it says how old the backlog was, and is not printed.
func (w *watch) delivered(now time.Time, timestampMs int64) {
	if w.measuring.Load() && timestampMs >= w.from.at.UnixMilli() {
		w.consumed.took(now.Sub(time.UnixMilli(timestampMs)))
	}
}
