package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/moldau-log/moldau/internal/grpcframe"
)

// Consumer reads partitions: given ones, all of some topics, or what a group assigns. One goroutine at a time may call Poll, PollBatches or
// Records; the other methods are safe anywhere.
type Consumer struct {
	c        *Client
	cfg      consumerConfig
	out      chan chunk    // fetched, to be polled
	wake     chan struct{} // makes follow look again
	tellWake chan struct{} // there is something in told
	placed   chan struct{} // a partition has a position that may not be committed yet
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	member   *member // nil without a group
	rest     reading // of the polling goroutine
	// committing has room for the one commit that may be on its way: an older position must not overtake a newer one.
	committing chan struct{}
	commits    int64 // made so far: the number of the last one; whoever holds committing counts it up

	mu      sync.Mutex // guards what follows
	parts   map[TopicPartition]*partConsumer
	streams map[string]*fetchStream // by address
	lastGen uint64
	known   map[string]int  // partitions seen, by topic, without a group
	read    map[string]bool // topic ids of which the group has assigned partitions to this member
	touched []*partConsumer // delivered by the last Poll
	told    []chunk         // errors about partitions, to be polled
	fatal   error
	closed  bool
	// epochChanged is closed and replaced when the member epoch changes.
	epochChanged chan struct{}
}

// outDepth bounds the fetched stretches that wait for Poll; each is at most WithFetchMaxBytes or one batch. Behind it the stream windows fill.
const outDepth = 8

// partConsumer is one partition being read. Consumer.mu guards it.
//
// Invariant: processed <= position <= fetched end of what is in out or rest, and all three are -1 until the start is resolved.
type partConsumer struct {
	tp  TopicPartition
	id  string // topic id; empty: any topic of the name
	gen uint64 // what was fetched for another life of the partition is dropped

	start     Start
	resolved  bool
	fetch     int64 // next offset to fetch
	lastEpoch int32 // leader epoch of the last fetched batch, -1 unknown
	lineage   lineage
	position  int64 // next offset to deliver
	processed int64 // next offset after what is processed
	stored    int64 // last offset committed by this member; -1 where that is not known
	epochSeen int32 // leader epoch of the last delivered record
	watermark int64

	stream   *fetchStream // that fetches it, or nil
	retryAt  time.Time
	failures int
	halted   bool // ResetNone and no valid offset: waits for Seek
}

// chunk is a fetched stretch, or an error.
type chunk struct {
	part      *partConsumer
	gen       uint64
	bytes     *[]byte
	watermark int64
	err       error
}

// NewConsumer starts a consumer. With a group it joins in the background.
func (c *Client) NewConsumer(opts ...ConsumerOption) (*Consumer, error) {
	cfg := defaultConsumerConfig()
	for _, o := range opts {
		o(&cfg)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	k := &Consumer{
		c: c, cfg: cfg, out: make(chan chunk, outDepth), wake: make(chan struct{}, 1), tellWake: make(chan struct{}, 1),
		parts: map[TopicPartition]*partConsumer{}, streams: map[string]*fetchStream{}, known: map[string]int{},
		read: map[string]bool{}, placed: make(chan struct{}, 1), epochChanged: make(chan struct{}), committing: make(chan struct{}, 1),
	}
	k.ctx, k.cancel = context.WithCancel(c.ctx)
	for tp, start := range cfg.partitions {
		k.add(tp, "", start)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		k.cancel()
		return nil, ErrClosed
	}
	c.consumers[k] = struct{}{}
	if cfg.group != "" {
		k.member = newMember(k)
		k.wg.Go(k.member.run)
		if cfg.autoCommit > 0 {
			k.wg.Go(k.autoCommit)
		}
	}
	k.wg.Go(k.follow)
	return k, nil
}

// Close gives up what it owns (WithOnRevoked's function is called; with auto-commit everything that was delivered is committed), leaves the
// group and stops. It returns when all goroutines of the
// consumer have ended.
func (k *Consumer) Close() error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.closed = true
	k.mu.Unlock()
	var err error
	if k.member != nil {
		err = k.handBack()
		k.member.leave()
	}
	k.cancel()
	k.wg.Wait()
	k.c.mu.Lock()
	delete(k.c.consumers, k)
	k.c.mu.Unlock()
	return err
}

// handBack gives up everything that is owned, at the caller's pace: callback, then commit of what was delivered.
func (k *Consumer) handBack() error {
	k.mu.Lock()
	owned := make([]TopicPartition, 0, len(k.parts))
	for tp := range k.parts {
		owned = append(owned, tp)
	}
	k.mu.Unlock()
	sortPartitions(owned)
	ctx, cancel := context.WithTimeout(k.ctx, k.c.cfg.dialTimeout)
	defer cancel()
	if len(owned) > 0 && k.cfg.onRevoked != nil {
		k.cfg.onRevoked(ctx, owned)
	}
	if k.cfg.autoCommit == 0 {
		return nil
	}
	return k.Commit(ctx)
}

// Poll waits for records and returns them, of one or more partitions, in the order of each partition; or an error: ctx's, ErrClosed, a
// *DataLossError, ErrNoOffset, ErrCorruptBatch, or the refusal of a broker. After an error that is about one partition, the others go on.
// Calling Poll again says that what it returned before is processed.
func (k *Consumer) Poll(ctx context.Context) ([]Record, error) {
	k.markProcessed()
	var out []Record
	for {
		if !k.rest.empty() {
			var err error
			out, err = k.rest.decode(k, out, k.cfg.maxPollRecords)
			if len(out) >= k.cfg.maxPollRecords {
				return out, nil
			}
			if err != nil {
				if len(out) > 0 {
					k.rest.err = err // told by the next Poll
					return out, nil
				}
				return nil, err
			}
			continue
		}
		got, ok, err := k.next(ctx, len(out) == 0)
		if err != nil || !ok {
			return out, err
		}
		if got.err != nil && len(out) > 0 {
			k.rest.err = got.err
			return out, nil
		}
		if got.err != nil {
			return nil, got.err
		}
		k.rest.load(got)
	}
}

// next takes a chunk; without wait only one that is there.
func (k *Consumer) next(ctx context.Context, wait bool) (chunk, bool, error) {
	for {
		if told, ok := k.takeTold(); ok {
			return told, true, nil
		}
		var got chunk
		select {
		case got = <-k.out:
		default:
			if !wait {
				return chunk{}, false, nil
			}
			select {
			case got = <-k.out:
			case <-k.tellWake:
				continue
			case <-ctx.Done():
				return chunk{}, false, ctx.Err()
			case <-k.ctx.Done():
				return chunk{}, false, k.reason()
			}
		}
		if k.current(got) {
			return got, true, nil
		}
	}
}

// reason is why a stopped consumer stopped.
func (k *Consumer) reason() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fatal != nil {
		return k.fatal
	}
	return ErrClosed
}

// current reports whether a chunk is of the partition's present life.
func (k *Consumer) current(c chunk) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parts[c.part.tp] == c.part && c.part.gen == c.gen
}

// Records iterates over Poll, record by record; a record counts as processed when the loop asks for the next one. It ends after ctx's error
// or ErrClosed; after any other error the loop may go on.
func (k *Consumer) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			records, err := k.Poll(ctx)
			for i := range records {
				if !yield(records[i], nil) {
					k.unread(records[i+1:])
					return
				}
			}
			if err == nil {
				continue
			}
			if !yield(Record{}, err) || ctx.Err() != nil || k.ctx.Err() != nil {
				return
			}
		}
	}
}

// unread moves positions back to records that a loop has left untouched, so that they are delivered again.
func (k *Consumer) unread(records []Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(records) - 1; i >= 0; i-- {
		r := &records[i]
		if p := k.parts[TopicPartition{r.Topic, r.Partition}]; p != nil {
			k.seek(p, r.Offset)
		}
	}
}

// Batches is a fetched stretch of whole record batches.
type Batches struct {
	Topic         string
	Partition     int32
	HighWatermark int64
	// Bytes are record batches v2 as they are stored. The first may begin before the position asked for.
	Bytes []byte

	pool *grpcframe.Pool
	buf  *[]byte
}

// Release gives the bytes back; they must not be used afterwards. Calling it is optional.
func (b *Batches) Release() {
	grpcframe.ReleaseBatch(b.pool, b.buf)
	b.Bytes, b.buf = nil, nil
}

// PollBatches is Poll without decoding, and without verifying checksums, for programs that read batches themselves.
func (k *Consumer) PollBatches(ctx context.Context) (Batches, error) {
	k.markProcessed()
	for {
		got, _, err := k.next(ctx, true)
		if err != nil {
			return Batches{}, err
		}
		if got.err != nil {
			return Batches{}, got.err
		}
		if got.bytes == nil {
			continue
		}
		if err := k.passWhole(got); err != nil {
			return Batches{}, err
		}
		return Batches{
			Topic: got.part.tp.Topic, Partition: got.part.tp.Partition, HighWatermark: got.watermark, Bytes: *got.bytes,
			pool: k.c.conns.pool, buf: got.bytes,
		}, nil
	}
}

// Seek continues a partition elsewhere. What was fetched for it is dropped.
func (k *Consumer) Seek(tp TopicPartition, offset int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.parts[tp]
	if p == nil {
		return fmt.Errorf("client: seek: partition %s-%d is not being read", tp.Topic, tp.Partition)
	}
	k.seek(p, offset)
	return nil
}

// seek is Seek with mu held.
func (k *Consumer) seek(p *partConsumer, offset int64) {
	k.lastGen++
	p.gen = k.lastGen
	p.start, p.resolved, p.halted = FromOffset(offset), true, false
	p.fetch, p.position, p.processed = offset, offset, min(p.processed, offset)
	if p.processed < 0 {
		p.processed = offset
	}
	p.lastEpoch, p.lineage = -1, nil
	if p.stream != nil {
		p.stream.stale = true
	}
	k.nudge()
}

// Position is one partition's progress in a Consumer.
type Position struct {
	// Offset is the next one to be delivered, HighWatermark the end of what can be read; -1 while unknown.
	Offset, HighWatermark int64
}

// Positions tells the partitions being read.
func (k *Consumer) Positions() map[TopicPartition]Position {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[TopicPartition]Position, len(k.parts))
	for tp, p := range k.parts {
		out[tp] = Position{Offset: p.position, HighWatermark: p.watermark}
	}
	return out
}

// Membership tells the consumer's id in its group and its member epoch, which rises with each assignment; "" and 0 without a group. The epoch is 0 until the group
// has taken the consumer in, and when it has given it up. After Close they are what they were.
func (k *Consumer) Membership() (memberID string, epoch int32) {
	if k.member == nil {
		return "", 0
	}
	return k.member.identity()
}

// add begins to read a partition. mu is held, or nobody else knows the consumer yet.
func (k *Consumer) add(tp TopicPartition, id string, start Start) *partConsumer {
	k.lastGen++
	p := &partConsumer{tp: tp, id: id, gen: k.lastGen, start: start, fetch: -1, lastEpoch: -1, position: -1, processed: -1, stored: -1, epochSeen: -1, watermark: -1}
	k.parts[tp] = p
	k.nudge()
	return p
}

// remove stops to read a partition. mu is held.
func (k *Consumer) remove(p *partConsumer) {
	if k.parts[p.tp] == p {
		delete(k.parts, p.tp)
	}
	if p.stream != nil {
		p.stream.stale = true
	}
	k.nudge()
}

// nudge makes follow look again.
func (k *Consumer) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// fail ends the consumer: Poll returns err from now on.
func (k *Consumer) fail(err error) {
	k.mu.Lock()
	k.fatal = err
	k.mu.Unlock()
	k.cancel()
}

// tell hands an error about a partition to Poll, which tells it before it delivers anything else. mu is held. At most one error waits per
// partition.
func (k *Consumer) tell(p *partConsumer, err error) {
	for _, c := range k.told {
		if c.part == p {
			return
		}
	}
	k.told = append(k.told, chunk{part: p, gen: p.gen, err: err})
	select {
	case k.tellWake <- struct{}{}:
	default:
	}
}

// takeTold returns the first error that waits.
func (k *Consumer) takeTold() (chunk, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.told) == 0 {
		return chunk{}, false
	}
	first := k.told[0]
	k.told = k.told[1:]
	return first, true
}
