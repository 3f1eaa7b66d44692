package client

import (
	"fmt"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/moldau-log/moldau/internal/grpcframe"
	"github.com/moldau-log/moldau/record"
)

// batchState is where a batch stands in its partition's queue.
type batchState int8

const (
	batchQueued batchState = iota // waits to be sent, for the first time or again
	batchSent                     // waits for its result on a stream
	batchDone                     // has its outcome; waits for the batches before it
)

// pending is one record with its promise.
type pending struct {
	record  *Record
	promise func(*Record, error)
}

// batch is a list of records for one partition. All fields are guarded by producer.mu, but encoded, which belongs to the sink that sends it.
type batch struct {
	part    *partProducer
	records []pending
	bytes   int // estimated size, which counts against the buffer bound
	// sealed batches take no more records.
	sealed bool
	state  batchState

	opened   time.Time // when the first record came
	deadline time.Time
	sentAt   time.Time
	tries    int
	lastErr  error
	unsure   bool // a try may have left the batch in the log
	encoding bool // a sink is making the bytes, without holding mu

	// The producer id, epoch and sequence are set when the batch is first sent, and stay the same over all tries; producerID is 0 before.
	producerID    int64
	producerEpoch int16
	sequence      record.Sequence

	encoded mem.Buffer // nil until sent, and again after the identity changed

	// raw batches come whole from ProduceBatch: they have no records, and done instead of promises.
	raw  []byte
	done func(int64, error)

	offset int64
	err    error
}

// count is the number of records, for the sequence.
func (b *batch) count() int32 { return int32(len(b.records)) }

// encode makes the bytes of a sealed batch. builder is scratch space of the calling sink.
func (b *batch) encode(builder *record.Builder, codec record.Codec, pool *grpcframe.Pool) (mem.Buffer, error) {
	if b.raw != nil {
		return mem.SliceBuffer(b.raw), nil
	}
	opts := record.BuilderOptions{Codec: codec}
	if b.producerID > 0 {
		opts.ProducerID = record.ProducerID(b.producerID)
		opts.ProducerEpoch = record.ProducerEpoch(b.producerEpoch)
		opts.BaseSequence = b.sequence
	}
	builder.Reset(opts)
	for i := range b.records {
		r := b.records[i].record
		builder.Append(r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers)
	}
	buf := pool.Get(builder.Size())
	built, err := builder.BuildInto((*buf)[:0])
	if err != nil {
		pool.Put(buf)
		return nil, fmt.Errorf("client: encode batch: %w", err)
	}
	out := built.Bytes()
	return mem.NewBuffer(&out, pool), nil
}

// dropEncoded forgets the bytes. A transport that still writes them holds its own reference.
func (b *batch) dropEncoded() {
	if b.encoded != nil {
		b.encoded.Free()
		b.encoded = nil
	}
}

// settle calls the promises. It runs without locks.
func (b *batch) settle() {
	b.dropEncoded()
	if b.done != nil {
		b.done(b.offset, b.err)
		return
	}
	for i := range b.records {
		p := &b.records[i]
		p.record.Partition = b.part.number
		p.record.Offset = -1
		if b.err == nil && b.offset >= 0 {
			p.record.Offset = b.offset + int64(i)
		}
		p.promise(p.record, b.err)
	}
}
