package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moldau-log/moldau/record"
)

// reading is a chunk that is partly delivered. The polling goroutine owns it.
type reading struct {
	part  *partConsumer
	gen   uint64
	bytes []byte // batches not begun
	batch record.Batch
	it    *record.Iterator // of batch; nil between batches
	err   error            // to be told next
}

func (r *reading) empty() bool { return r.err == nil && r.it == nil && len(r.bytes) == 0 }

func (r *reading) load(c chunk) {
	*r = reading{part: c.part, gen: c.gen}
	if c.bytes != nil {
		r.bytes = *c.bytes
	}
}

// decode appends records to out, until limit or the end of the chunk.
func (r *reading) decode(k *Consumer, out []Record, limit int) ([]Record, error) {
	if err := r.err; err != nil {
		r.err = nil
		return out, err
	}
	k.mu.Lock()
	valid := k.parts[r.part.tp] == r.part && r.part.gen == r.gen
	position := r.part.position
	k.mu.Unlock()
	if !valid {
		*r = reading{}
		return out, nil
	}
	var err error
	epoch := int32(-1)
	for len(out) < limit && err == nil && (r.it != nil || len(r.bytes) > 0) {
		if r.it == nil {
			if err = r.open(k); err != nil {
				break
			}
			if int64(r.batch.NextOffset()) <= position || r.batch.IsControl() {
				position = max(position, int64(r.batch.NextOffset()))
				r.it = nil
				continue
			}
		}
		if epoch < 0 { // one allocation for what a stretch usually holds, not one per doubling
			out = slices.Grow(out, min(limit-len(out), int(r.batch.Count())*(1+len(r.bytes)/r.batch.Size())))
		}
		epoch = int32(r.batch.LeaderEpoch())
		out, position, err = r.drain(out, limit, position)
	}
	part, gen := r.part, r.gen
	k.delivered(part, gen, position, epoch)
	if err != nil {
		*r = reading{}
		k.again(part, gen, position)
		err = fmt.Errorf("client: %s-%d at offset %d: %w", part.tp.Topic, part.tp.Partition, position, err)
	}
	return out, err
}

// again fetches once more from a position that could not be decoded, after a while: another replica may lead then.
func (k *Consumer) again(p *partConsumer, gen uint64, position int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts[p.tp] == p && p.gen == gen {
		k.seek(p, position)
		p.failures++
		p.retryAt = time.Now().Add(k.c.cfg.retryBackoffMax)
	}
}

// open begins the next batch.
func (r *reading) open(k *Consumer) error {
	batch, err := record.Parse(r.bytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	}
	if !k.cfg.trustBatches {
		if err := batch.VerifyCRC(); err != nil {
			return fmt.Errorf("%w: %w", ErrCorruptBatch, err)
		}
	}
	r.batch = batch
	r.bytes = r.bytes[batch.Size():]
	r.it = batch.Records(k.cfg.maxDecompressed)
	return nil
}

// drain delivers records of the open batch, and closes it at its end.
func (r *reading) drain(out []Record, limit int, position int64) ([]Record, int64, error) {
	epoch := int32(r.batch.LeaderEpoch())
	for len(out) < limit {
		if !r.it.Next() {
			err := r.it.Err()
			r.it = nil
			if err != nil {
				return out, position, errors.Join(ErrCorruptBatch, err)
			}
			return out, max(position, int64(r.batch.NextOffset())), nil
		}
		rec := r.it.Record()
		if int64(rec.Offset) < position {
			continue
		}
		out = append(out, Record{
			Topic: r.part.tp.Topic, Partition: r.part.tp.Partition, Key: rec.Key, Value: rec.Value, Headers: rec.Headers,
			Timestamp: time.UnixMilli(rec.Timestamp), Offset: int64(rec.Offset), LeaderEpoch: epoch,
		})
		position = int64(rec.Offset) + 1
	}
	return out, position, nil
}

// delivered moves a partition's position on.
func (k *Consumer) delivered(p *partConsumer, gen uint64, position int64, epoch int32) {
	if p == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts[p.tp] != p || p.gen != gen {
		return
	}
	p.position = position
	if epoch >= 0 {
		p.epochSeen = epoch
	}
	k.touched = append(k.touched, p)
}

// passWhole moves a partition's position behind a whole chunk.
func (k *Consumer) passWhole(c chunk) error {
	position, epoch := int64(-1), int32(-1)
	err := record.Split(*c.bytes, func(b record.Batch) error {
		position, epoch = int64(b.NextOffset()), int32(b.LeaderEpoch())
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	}
	k.delivered(c.part, c.gen, position, epoch)
	return nil
}

// markProcessed notes that what was delivered is processed.
func (k *Consumer) markProcessed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.touched {
		p.processed = p.position
	}
	k.touched = k.touched[:0]
}
