package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moldau-log/moldau/record"
)

// maxDecompressed bounds one batch while its records are decoded.
const maxDecompressed = 256 << 20

// consumeAll reads with every door its share of the partitions: to drain's end, or until ctx ends or the count is reached.
func (w *watch) consumeAll(ctx context.Context, doors []door, partitions int32, drain drainEnd, fromStart bool) error {
	shares := make([][]int32, min(len(doors), int(partitions)))
	for i := range partitions {
		share := &shares[int(i)%len(shares)]
		*share = append(*share, i)
	}
	all, ctx := errgroup.WithContext(ctx)
	for i, share := range shares {
		all.Go(func() error { return doors[i].read(ctx, w, share, drain, fromStart) })
	}
	return all.Wait()
}

// countBatches checks and counts whole batches, and returns the offset behind the last one. What lies before from is passed over, since a Kafka broker
// answers with the batch that holds an offset; one that is cut off at the end is left for the next answer.
func (w *watch) countBatches(b []byte, from int64) (next int64, err error) {
	next = from
	records, bytes, now := int64(0), 0, time.Now()
	for len(b) > 0 {
		batch, err := record.Parse(b)
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err == nil {
			err = batch.VerifyCRC()
		}
		if err != nil {
			return next, err
		}
		b = b[batch.Size():]
		if int64(batch.NextOffset()) <= from {
			continue
		}
		n, err := w.countRecords(batch)
		if err != nil {
			return next, err
		}
		records, bytes, next = records+n, bytes+batch.Size(), int64(batch.NextOffset())
		w.delivered(now, batch.MaxTimestamp())
	}
	w.consumed.records.Add(records)
	w.consumed.bytes.Add(int64(bytes))
	return next, nil
}

func (w *watch) countRecords(b record.Batch) (n int64, err error) {
	if !w.settings.Decode {
		return int64(b.Count()), nil
	}
	it := b.Records(maxDecompressed)
	for it.Next() {
		n++
	}
	return n, it.Err()
}

// delivered notes the time from a batch's timestamp to its delivery. In a drain it says how old the backlog was, and is not printed.
func (w *watch) delivered(now time.Time, timestampMs int64) {
	if w.measuring.Load() && timestampMs >= w.from.at.UnixMilli() {
		w.consumed.took(now.Sub(time.UnixMilli(timestampMs)))
	}
}
