package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moldau-log/moldau/record"
)

// produceAll runs a lane for every partition, spread over the doors, until ctx ends or the count is reached.
func (w *watch) produceAll(ctx context.Context, doors []door, partitions int32) error {
	s := w.settings
	lanes := max(int(partitions), len(doors))
	var left *atomic.Int64
	if s.Count > 0 {
		left = new(atomic.Int64)
		left.Store(s.Count)
	}
	var all errgroup.Group
	for i := range lanes {
		l := &lane{
			w: w, s: s, door: doors[i%len(doors)], partition: int32(i) % partitions, left: left, slots: make(chan []byte, s.InFlight),
			values: newPayload(s.Seed+uint64(i), s.Size, s.KeySize),
		}
		if s.Rate > 0 {
			l.every = time.Duration(float64(s.Batch) * float64(lanes) / float64(s.Rate) * float64(time.Second))
			l.phase = l.every * time.Duration(i) / time.Duration(lanes)
		}
		all.Go(func() error { return l.run(ctx) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if first := w.produced.firstError.Load(); first != nil && w.produced.records.Load() == 0 {
		return fmt.Errorf("no record was acknowledged: %w", *first)
	}
	return nil
}

// lane produces to one partition with a bounded number of batches in flight.
type lane struct {
	w            *watch
	s            *settings
	door         door
	partition    int32
	left         *atomic.Int64 // records still to be sent, over all lanes; nil: no bound
	slots        chan []byte   // a buffer for each batch that may be in flight
	values       *payload
	every, phase time.Duration // between batches, when the rate is limited
}

func (l *lane) run(ctx context.Context) error {
	for range cap(l.slots) {
		l.slots <- nil
	}
	next := time.Now().Add(l.phase)
	for ctx.Err() == nil {
		n := l.take()
		if n == 0 {
			break
		}
		var buf []byte
		select {
		case buf = <-l.slots:
		case <-ctx.Done():
			return l.wait()
		}
		due := time.Now()
		if l.every > 0 { // the latency of a batch that had to wait for its turn counts from when its turn was
			if !pause(ctx, time.Until(next)) {
				l.slots <- buf
				return l.wait()
			}
			due, next = next, next.Add(l.every)
		}
		if err := l.send(n, buf, due); err != nil {
			return err
		}
	}
	return l.wait()
}

// take claims records of the next batch.
func (l *lane) take() int {
	if l.left == nil {
		return l.s.Batch
	}
	before := l.left.Add(-int64(l.s.Batch)) + int64(l.s.Batch)
	return int(min(max(before, 0), int64(l.s.Batch)))
}

// wait takes back every slot: then nothing is in flight any more.
func (l *lane) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	for range cap(l.slots) {
		select {
		case <-l.slots:
		case <-ctx.Done():
			return fmt.Errorf("partition %d: batches are still not answered after %v", l.partition, settle)
		}
	}
	return nil
}

func (l *lane) send(n int, buf []byte, due time.Time) error {
	if l.s.API == apiRecords {
		l.door.produceRecords(l.partition, n, l.values, l.w.produced.failed, func(bytes int, err error) {
			l.done(n, bytes, due, err)
			l.slots <- nil
		})
		return nil
	}
	codec, err := record.ParseCodec(l.s.Compression)
	if err != nil {
		return err
	}
	if l.s.Prebuilt && n == l.s.Batch && len(buf) > 0 {
		return l.sendBatch(n, buf, due)
	}
	b := &l.values.builder
	b.Reset(record.BuilderOptions{Codec: codec})
	now := time.Now().UnixMilli()
	for range n {
		key, value := l.values.next()
		b.Append(now, key, value, nil)
	}
	batch, err := b.BuildInto(buf)
	if err != nil {
		return err
	}
	return l.sendBatch(n, batch.Bytes(), due)
}

func (l *lane) sendBatch(n int, bytes []byte, due time.Time) error {
	return l.door.produceBatch(l.partition, bytes, func(err error) {
		l.done(n, len(bytes), due, err)
		l.slots <- bytes
	})
}

func (l *lane) done(n, bytes int, due time.Time, err error) {
	if err != nil {
		l.w.produced.failed(err)
		return
	}
	l.w.produced.records.Add(int64(n))
	l.w.produced.bytes.Add(int64(bytes))
	if l.w.measuring.Load() && !due.Before(l.w.from.at) {
		l.w.produced.took(time.Since(due))
	}
}

// payload makes keys and values that look random, and are the same for the same seed.
type payload struct {
	builder record.Builder
	pool    []byte
	rng     *rand.Rand
	size    int
	keySize int
}

// poolBytes is how much random text values are cut from; it is larger than what a compressor looks back to for most codecs.
const poolBytes = 1 << 20

func newPayload(seed uint64, size, keySize int) *payload {
	p := &payload{pool: make([]byte, poolBytes+max(size, keySize)), rng: rand.New(rand.NewPCG(seed, 0)), size: size, keySize: keySize}
	for i := range p.pool {
		p.pool[i] = byte(p.rng.Uint32())
	}
	return p
}

func (p *payload) next() (key, value []byte) {
	at := int(p.rng.Uint32() % poolBytes)
	if p.keySize > 0 {
		key = p.pool[at : at+p.keySize]
	}
	return key, p.pool[at : at+p.size]
}
