package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// fetchIdle is how often an idle stream shows that it is alive; after fetchSilence without a message the leader is looked up again, and the
// stream given up if it has moved.
const (
	fetchIdle    = 500 * time.Millisecond
	fetchSilence = 2 * time.Second
)

// fetchStream reads partitions from one broker. Its goroutine is the only writer of out.
type fetchStream struct {
	k        *Consumer
	endpoint string
	parts    []*partConsumer // fixed: a change of the list is a new stream
	gens     []uint64
	cancel   context.CancelFunc
	req      *moldauv1.FetchRequest

	// Guarded by Consumer.mu.
	stale bool // the list is out of date
	heard time.Time
	left  int // partitions still served
}

// follow is the goroutine that keeps one stream per leader going.
func (k *Consumer) follow() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		k.watchTopics()
		k.resolve()
		timer.Reset(k.arrange(time.Now()))
		select {
		case <-k.wake:
		case <-timer.C:
		case <-k.ctx.Done():
			return
		}
	}
}

// followInterval is how often follow looks even if nothing happened.
const followInterval = 500 * time.Millisecond

// watchTopics adds the partitions of topics that are read without a group. Partitions that come later are read from their start.
func (k *Consumer) watchTopics() {
	if k.member != nil {
		return
	}
	for _, topic := range k.cfg.topics {
		info, err := k.c.lookup(k.ctx, topic, false)
		if err != nil {
			if !retriable(err) && k.ctx.Err() == nil && k.known[topic] == 0 {
				k.fail(fmt.Errorf("client: topic %s: %w", topic, err))
				return
			}
			continue
		}
		k.mu.Lock()
		for n := k.known[topic]; n < len(info.partitions); n++ {
			start := k.cfg.start
			if k.known[topic] > 0 {
				start = FromStart()
			}
			k.add(TopicPartition{topic, int32(n)}, info.id, start)
		}
		k.known[topic] = max(k.known[topic], len(info.partitions))
		k.mu.Unlock()
	}
}

// arrange makes the streams fit partitions and leaders, and returns when to look again.
func (k *Consumer) arrange(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := map[string][]*partConsumer{}
	wait := followInterval
	for _, p := range k.parts {
		switch {
		case !p.resolved || p.halted:
			continue
		case now.Before(p.retryAt):
			wait = min(wait, p.retryAt.Sub(now))
			continue
		}
		endpoint, _, ok := k.c.meta.leader(p.tp.Topic, p.tp.Partition)
		if !ok {
			k.c.meta.want()
			continue
		}
		wanted[endpoint] = append(wanted[endpoint], p)
	}
	for endpoint, s := range k.streams {
		if now.Sub(s.heard) > fetchSilence {
			k.c.meta.want()
		}
		if s.stale || !s.covers(wanted[endpoint]) {
			s.drop()
			delete(k.streams, endpoint)
		}
	}
	for endpoint, parts := range wanted {
		if k.streams[endpoint] == nil {
			k.open(endpoint, parts)
		}
	}
	return max(wait, time.Millisecond)
}

// covers reports whether the stream reads exactly these partitions.
func (s *fetchStream) covers(parts []*partConsumer) bool {
	if s.left != len(parts) {
		return false
	}
	for _, p := range parts {
		if p.stream != s {
			return false
		}
	}
	return true
}

// drop ends a stream. mu is held.
func (s *fetchStream) drop() {
	s.stale = true
	s.cancel()
	for _, p := range s.parts {
		if p.stream == s {
			p.stream = nil
		}
	}
}

// open starts a stream. mu is held.
func (k *Consumer) open(endpoint string, parts []*partConsumer) {
	slices.SortFunc(parts, func(a, b *partConsumer) int {
		if a.tp.Topic != b.tp.Topic {
			if a.tp.Topic < b.tp.Topic {
				return -1
			}
			return 1
		}
		return int(a.tp.Partition) - int(b.tp.Partition)
	})
	ctx, cancel := context.WithCancel(k.ctx)
	s := &fetchStream{k: k, endpoint: endpoint, parts: parts, cancel: cancel, heard: time.Now(), left: len(parts)}
	s.req = &moldauv1.FetchRequest{MaxBytes: int32(k.cfg.fetchMaxBytes), MaxWaitMs: int32(fetchIdle.Milliseconds())}
	for _, p := range parts {
		p.stream = s
		s.gens = append(s.gens, p.gen)
		want := &moldauv1.FetchPartition{Topic: p.tp.Topic, TopicId: p.id, Partition: p.tp.Partition, Offset: p.fetch}
		if _, epoch, ok := k.c.meta.leader(p.tp.Topic, p.tp.Partition); ok && epoch >= 0 {
			want.LeaderEpoch = &epoch
		}
		if p.lastEpoch >= 0 {
			epoch := p.lastEpoch
			want.LastFetchedEpoch = &epoch
		}
		s.req.Partitions = append(s.req.Partitions, want)
	}
	k.streams[endpoint] = s
	k.wg.Go(func() { s.run(ctx) })
}

// run receives until the stream ends.
func (s *fetchStream) run(ctx context.Context) {
	defer s.cancel()
	err := s.receive(ctx)
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.streams[s.endpoint] == s {
		delete(k.streams, s.endpoint)
	}
	for _, p := range s.parts {
		if p.stream == s {
			p.stream = nil
			k.delay(p)
		}
	}
	if ctx.Err() == nil && !errors.Is(err, io.EOF) {
		k.c.cfg.log.Info("client: fetch stream ended", "broker", s.endpoint, "error", err)
		k.c.meta.want()
	}
	k.nudge()
}

// delay sets when a partition may be tried again. mu is held.
func (k *Consumer) delay(p *partConsumer) {
	p.failures++
	p.retryAt = time.Now().Add(k.c.producer.backoff(p.failures))
}

var fetchDesc = &moldauv1.LogService_ServiceDesc.Streams[1]

func (s *fetchStream) receive(ctx context.Context) error {
	cc, err := s.k.c.conns.get(s.endpoint)
	if err != nil {
		return err
	}
	if err := s.k.c.conns.await(ctx, cc); err != nil {
		return err
	}
	stream, err := cc.NewStream(ctx, fetchDesc, moldauv1.LogService_Fetch_FullMethodName, grpc.WaitForReady(false))
	if err != nil {
		return fromStatus(err)
	}
	if err := stream.SendMsg(s.req); err != nil {
		return fromStatus(err)
	}
	if err := stream.CloseSend(); err != nil {
		return fromStatus(err)
	}
	var frame grpcframe.Fetched
	for {
		if err := stream.RecvMsg(&frame); err != nil {
			if errors.Is(err, io.EOF) {
				return err
			}
			return fromStatus(err)
		}
		if err := s.take(ctx, &frame); err != nil {
			return err
		}
	}
}

// take handles one message.
func (s *fetchStream) take(ctx context.Context, f *grpcframe.Fetched) error {
	if f.Index < 0 || int(f.Index) >= len(s.parts) {
		return fmt.Errorf("client: broker sent partition %d of %d", f.Index, len(s.parts))
	}
	k, p, gen := s.k, s.parts[f.Index], s.gens[f.Index]
	refusal, _ := fromWire(f.Error).(*Error)
	k.mu.Lock()
	s.heard = time.Now()
	if p.stream != s || p.gen != gen || k.parts[p.tp] != p {
		k.mu.Unlock()
		return nil
	}
	if refusal != nil || f.Divergence != nil {
		if err := s.refused(p, refusal, f.Divergence); err != nil {
			k.tell(p, err)
		}
		k.mu.Unlock()
		return nil
	}
	p.failures = 0
	p.start = FromOffset(p.fetch) // it was in range: from now on the reset policy applies
	p.watermark = f.HighWatermark
	from, epochs := p.fetch, p.lineage
	k.mu.Unlock()
	if f.Batches == nil {
		return nil
	}
	next, epochs, err := fetched(*f.Batches, from, epochs)
	if err != nil {
		return err
	}
	select {
	case k.out <- chunk{part: p, gen: gen, bytes: f.Batches, watermark: f.HighWatermark}:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.stream == s && p.gen == gen {
		p.fetch, p.lastEpoch, p.lineage = next, epochs[len(epochs)-1].epoch, epochs
	}
	return nil
}

// fetched returns the end of a stretch that was asked for from an offset on, and the lineage with it.
func fetched(b []byte, from int64, known lineage) (next int64, epochs lineage, err error) {
	epochs = known
	err = record.Split(b, func(batch record.Batch) error {
		next, epochs = int64(batch.NextOffset()), epochs.with(int32(batch.LeaderEpoch()), max(from, int64(batch.BaseOffset())))
		return nil
	})
	if err == nil && next == 0 {
		err = errors.New("no batch")
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	}
	return next, epochs, nil
}

// diverged goes back to where a leader's log parts from what was read, and returns the loss if anything of that was delivered. Where only the last epoch before a
// committed offset is known, and is not in the log, it goes on there and tells of the loss. mu is held.
func (k *Consumer) diverged(p *partConsumer, d *moldauv1.EpochEnd) error {
	to, last := p.lineage.parts(d, p.fetch)
	loss := &DataLossError{Topic: p.tp.Topic, Partition: p.tp.Partition, Position: p.fetch, End: to}
	if to >= p.fetch {
		p.lastEpoch = -1 // told once
		return loss
	}
	kept, lost := p.lineage.before(to), p.position > to
	k.seek(p, to)
	p.lineage, p.lastEpoch = kept, last
	if !lost {
		return nil
	}
	return loss
}

// refused handles a partition that the stream serves no more, and returns what Poll shall be told. mu is held.
func (s *fetchStream) refused(p *partConsumer, e *Error, d *moldauv1.EpochEnd) error {
	k := s.k
	p.stream = nil
	s.left--
	k.nudge()
	if d != nil {
		return k.diverged(p, d)
	}
	switch e.Code {
	case moldauv1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE:
		return k.outOfRange(p, e)
	case moldauv1.ErrorCode_ERROR_CODE_NOT_LEADER, moldauv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH:
		if k.c.meta.hint(p.tp.Topic, p.tp.Partition, e) {
			return nil
		}
		k.c.meta.want()
	case moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC, moldauv1.ErrorCode_ERROR_CODE_CORRUPT:
		k.c.meta.want()
		k.delay(p)
		if p.failures > hopelessTries {
			p.halted = true
			return fmt.Errorf("client: %s-%d: %w", p.tp.Topic, p.tp.Partition, e)
		}
		return nil
	default:
		k.c.meta.want()
		if !e.Retriable {
			k.delay(p)
			return e
		}
	}
	k.delay(p)
	return nil
}

// hopelessTries is how often a topic may be unknown before it counts as deleted, and records damaged before no other replica is expected to have them whole.
const hopelessTries = 10

// outOfRange applies the reset policy. mu is held.
func (k *Consumer) outOfRange(p *partConsumer, e *Error) error {
	k.c.cfg.log.Warn("client: offset is out of range", "topic", p.tp.Topic, "partition", p.tp.Partition, "offset", p.fetch)
	switch {
	case p.start.kind == startLatest && p.start.n < 0: // fewer records are there than FromEndMinus asked for
		p.start = FromStart()
	case p.start.kind == startEarliest && p.start.n > 0: // the same for FromStartPlus
		p.start = FromEnd()
	case k.cfg.reset == ResetEarliest:
		p.start = FromStart()
	case k.cfg.reset == ResetLatest:
		p.start = FromEnd()
	default:
		p.halted = true
		return fmt.Errorf("%w: %s-%d at %d: %w", ErrNoOffset, p.tp.Topic, p.tp.Partition, p.fetch, e)
	}
	k.lastGen++
	p.gen, p.resolved, p.lastEpoch, p.lineage = k.lastGen, false, -1, nil
	return nil
}
