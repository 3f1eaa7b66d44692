package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/admission"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// logService implements moldau.v1.LogService.
type logService struct {
	moldauv1.UnimplementedLogServiceServer
	*Server
}

// produceStream is one Produce call. Its handler's goroutine sends results; receive takes batches, checks them and gives them to the broker,
// whose goroutines call answer.
type produceStream struct {
	s       *Server
	stream  grpc.ServerStream
	ctx     context.Context
	window  *budget.Budget // bytes unanswered on this stream
	unread  *budget.Budget // batches whose result is not sent yet
	checker *admission.Checker
	wake    chan struct{} // capacity 1: results wait, or taking has ended

	mu      sync.Mutex // guards what follows
	results []grpcframe.Result
	ended   bool // receive takes no more
	endErr  error
	pending int // batches without result
}

// Produce handles the stream of batches.
func (l *logService) Produce(stream grpc.BidiStreamingServer[moldauv1.ProduceRequest, moldauv1.ProduceResponse]) error {
	p := &produceStream{
		s: l.Server, stream: stream, ctx: stream.Context(), window: budget.New(l.cfg.WindowBytes), unread: budget.New(maxUnreadResults),
		wake: make(chan struct{}, 1),
	}
	p.checker = l.admission()
	if err := stream.SendMsg(&grpcframe.Results{WindowBytes: int64(l.cfg.WindowBytes)}); err != nil {
		return err
	}
	l.wg.Go(p.receive) // ends with the call: RecvMsg fails then
	return p.send()
}

// send sends results as they come, many in one message when they come fast, until every batch is answered and no more come.
func (p *produceStream) send() error {
	drain := p.s.drain
	var spare []grpcframe.Result
	for {
		p.mu.Lock()
		results := p.results
		p.results = spare[:0]
		done := p.pending == 0 && (p.ended || p.s.draining())
		err := p.endErr
		p.mu.Unlock()
		if len(results) > 0 {
			if err := p.stream.SendMsg(&grpcframe.Results{Results: results}); err != nil {
				return err
			}
			p.unread.Give(len(results))
			spare = results
			continue
		}
		spare = results
		switch {
		case done && err != nil:
			return err
		case done && p.s.draining():
			return errStopping()
		case done:
			return nil
		}
		select {
		case <-p.wake:
		case <-drain:
			drain = nil // from now on only wake counts
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}

// receive is the reading goroutine.
func (p *produceStream) receive() {
	err := p.take()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	p.mu.Lock()
	p.ended, p.endErr = true, err
	p.mu.Unlock()
	p.nudge()
}

// take reads batches until the client has no more or the stream fails.
func (p *produceStream) take() error {
	var frame grpcframe.Produce
	for {
		if err := p.stream.RecvMsg(&frame); err != nil {
			return err
		}
		if err := p.handle(&frame); err != nil {
			return err
		}
	}
}

// handle gives one batch to the broker, or refuses it. It waits while too much is unanswered, or answered and not read by the client: then the client's flow
// control window fills.
func (p *produceStream) handle(f *grpcframe.Produce) error {
	start := time.Now()
	ref := broker.TopicRef{ID: cluster.TopicID(f.TopicID), Name: f.Topic}
	batch := f.Batch
	f.Batch = nil
	size := 0
	if batch != nil {
		size = len(*batch)
	}
	if err := p.unread.Take(p.ctx, 1); err != nil {
		return err
	}
	if err := p.window.Take(p.ctx, size); err != nil {
		return err
	}
	if err := p.s.budget.Take(p.ctx, size); err != nil {
		p.window.Give(size)
		return err
	}
	p.mu.Lock()
	p.pending++
	p.mu.Unlock()
	seq := f.ClientSeq
	answer := func(r broker.ProduceResult) {
		if batch != nil {
			p.s.pool.Put(batch)
		}
		p.s.budget.Give(size)
		p.window.Give(size)
		p.answer(seq, start, &r)
	}
	if e := p.refuse(f, ref, batch); e != nil {
		answer(broker.ProduceResult{Code: e.Code, Message: e.Message, BaseOffset: -1, LogStart: -1, Leader: e.Leader, LeaderEpoch: record.LeaderEpoch(e.LeaderEpoch)})
		return nil
	}
	p.s.broker.Produce(broker.ProduceRequest{
		Topic: ref, Partition: f.Partition, LeaderEpoch: record.LeaderEpoch(f.LeaderEpoch), Batch: *batch, Acks: acksOf(f.Acks),
		Timeout: timeoutOf(f.TimeoutMs),
	}, answer)
	return nil
}

// refuse says what is wrong with a request before the broker sees it.
func (p *produceStream) refuse(f *grpcframe.Produce, ref broker.TopicRef, batch *[]byte) *cluster.Error {
	switch {
	case p.s.draining():
		return errStopping()
	case f.BadTopicID:
		return cluster.Refuse(cluster.CodeInvalidRequest, "topic_id is not 22 characters of URL-safe base64")
	case ref.ID.IsZero() && ref.Name == "":
		return cluster.Refuse(cluster.CodeInvalidRequest, "neither topic nor topic_id is set")
	case batch == nil:
		return cluster.Refuse(cluster.CodeInvalidRequest, "batch is empty")
	case f.Acks < 0 || f.Acks > moldauv1.Acks_ACKS_NONE:
		return cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("acks %d is unknown", f.Acks))
	}
	e, _ := p.checker.Check(ref.ID, ref.Name, *batch)
	return e
}

// answer queues a result. It never blocks.
func (p *produceStream) answer(seq uint64, start time.Time, r *broker.ProduceResult) {
	result := grpcframe.Result{ClientSeq: seq, BaseOffset: -1, LogStart: -1}
	if r.Code == cluster.CodeNone {
		result.BaseOffset, result.LogStart = int64(r.BaseOffset), int64(r.LogStart)
		result.LogAppendMs = max(r.LogAppendMs, 0)
	} else {
		e := &cluster.Error{Code: r.Code, Message: r.Message, Leader: r.Leader, LeaderEpoch: int32(r.LeaderEpoch)}
		result.Error = p.s.refusal(p.ctx, e)
	}
	if int(r.Code) < len(p.s.meters.produce) {
		p.s.meters.produce[r.Code].Inc()
	}
	p.s.meters.produceTime.Observe(time.Since(start).Seconds())
	p.mu.Lock()
	p.results = append(p.results, result)
	p.pending--
	p.mu.Unlock()
	p.nudge()
}

func (p *produceStream) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func acksOf(a moldauv1.Acks) broker.Acks {
	switch a {
	case moldauv1.Acks_ACKS_LEADER:
		return broker.AcksLeader
	case moldauv1.Acks_ACKS_NONE:
		return broker.AcksNone
	}
	return broker.AcksISR
}

func timeoutOf(ms int32) time.Duration {
	if ms <= 0 {
		return defaultProduceTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// InitProducerId gives a fresh producer.
func (l *logService) InitProducerId(ctx context.Context, _ *moldauv1.InitProducerIdRequest) (*moldauv1.InitProducerIdResponse, error) {
	id, epoch, err := l.broker.InitProducerID(ctx)
	if err != nil {
		return nil, err
	}
	return &moldauv1.InitProducerIdResponse{ProducerId: int64(id), ProducerEpoch: int32(epoch)}, nil
}
