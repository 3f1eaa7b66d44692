package broker

import (
	"context"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// MaxProduceTimeout bounds how long a produce request may wait for its acknowledgement.
const MaxProduceTimeout = 5 * time.Minute

// Produce appends one batch, which the door has validated (record.Batch.Validate). done is called exactly once, from any goroutine, and must not block.
// Calls from one goroutine to one partition are appended in their order. It blocks only while the partition's inbox is full.
func (b *Broker) Produce(req ProduceRequest, done func(ProduceResult)) {
	t, ok := b.lookup(req.Topic)
	if !ok {
		b.produceUnknown(req, done)
		return
	}
	b.produce(t, req, done)
}

// produceUnknown waits for the metadata off the caller's path: only the first requests to a new topic come here.
func (b *Broker) produceUnknown(req ProduceRequest, done func(ProduceResult)) {
	t, err := b.dataTopic(b.ctx, req.Topic)
	if err != nil {
		done(refusedProduce(AsRefusal(err)))
		return
	}
	b.produce(t, req, done)
}

func (b *Broker) produce(t *cluster.Topic, req ProduceRequest, done func(ProduceResult)) {
	find := b.leader
	if req.Patient {
		find = func(t *cluster.Topic, p int32) (*partition.Runner, *cluster.Error) { return b.leaderSoon(b.ctx, t, p) }
	}
	r, refusal := find(t, req.Partition)
	if refusal != nil {
		b.noteRefused(t, &req)
		done(refusedProduce(refusal))
		return
	}
	if b.diskFull.Load() {
		b.noteRefused(t, &req)
		done(refusedProduce(cluster.Refuse(cluster.CodeStorage, "the disk is nearly full; produce is refused until space returns")))
		return
	}
	if err := b.recompress(t, &req); err != nil {
		done(refusedProduce(err))
		return
	}
	size := len(req.Batch)
	completion := partition.NewCompletion(func(res partition.ProduceResult) {
		if res.Code == cluster.CodeNone {
			b.meters.produced.With(t.Name).Add(int64(size))
		}
		done(ProduceResult{
			Code: res.Code, Message: res.Message, BaseOffset: res.BaseOffset, LogStart: res.LogStart,
			LogAppendMs: res.AppendTimeMs, Leader: res.Leader, LeaderEpoch: res.LeaderEpoch,
		})
	})
	timeout := min(max(req.Timeout, 0), MaxProduceTimeout)
	r.Produce(partition.ProduceRequest{
		LeaderEpoch: req.LeaderEpoch,
		Batch:       req.Batch,
		Acks:        partitionAcks(req.Acks),
		Deadline:    b.clock.Now() + timeout,
		Release:     req.Release,
	}, completion)
}

// noteRefused tells the replica of a batch that it does not get now: it may be there, lead, or have space, before the producer knows of the
// refusal, and is not to take what is in flight behind the batch first.
func (b *Broker) noteRefused(t *cluster.Topic, req *ProduceRequest) {
	b.partitions.NoteRefused(cluster.TopicPartition{Topic: t.ID, Partition: req.Partition}, req.Batch)
}

// ProduceWait is Produce for callers that have a goroutine to spare.
func (b *Broker) ProduceWait(ctx context.Context, req ProduceRequest) ProduceResult {
	answer := make(chan ProduceResult, 1)
	b.Produce(req, func(r ProduceResult) { answer <- r })
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return refusedProduce(cluster.Refuse(cluster.CodeTimedOut, "the request ended before its acknowledgement; the outcome is unknown"))
	}
}

func partitionAcks(a Acks) partition.Acks {
	switch a {
	case AcksNone:
		return partition.AcksNone
	case AcksLeader:
		return partition.AcksLeader
	}
	return partition.AcksISR
}

func refusedProduce(e *cluster.Error) ProduceResult {
	return ProduceResult{
		Code: e.Code, Message: e.Message, BaseOffset: -1, LogStart: -1, LogAppendMs: -1,
		Leader: e.Leader, LeaderEpoch: record.LeaderEpoch(e.LeaderEpoch),
	}
}
