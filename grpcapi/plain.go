package grpcapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// ProduceRecords appends plain records: one batch per partition, each at its leader.
func (l *logService) ProduceRecords(ctx context.Context, req *moldauv1.ProduceRecordsRequest) (*moldauv1.ProduceRecordsResponse, error) {
	if n := len(req.GetRecords()); n == 0 || n > maxPlainRecords {
		return nil, tooMany("records", n, maxPlainRecords)
	}
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	t, err := l.dataTopic(ctx, ref)
	if err != nil {
		return nil, err
	}
	parts, err := partitionRecords(t, req)
	if err != nil {
		return nil, err
	}
	out := make([]*moldauv1.ProducedRecord, len(req.GetRecords()))
	var wg sync.WaitGroup
	for partition, at := range parts {
		wg.Go(func() {
			base, perr := l.producePlain(ctx, t, partition, req, at)
			for k, i := range at { // the indexes of two partitions never meet
				out[i] = &moldauv1.ProducedRecord{Partition: partition, Offset: -1}
				if perr != nil {
					out[i].Error = l.refusal(ctx, perr)
				} else if base >= 0 {
					out[i].Offset = base + int64(k)
				}
			}
		})
	}
	wg.Wait()
	return &moldauv1.ProduceRecordsResponse{Records: out}, nil
}

// dataTopic finds a topic for records. Asking for an offset makes a broker that creates topics on first use create it.
func (l *logService) dataTopic(ctx context.Context, ref broker.TopicRef) (*cluster.Topic, error) {
	if t, ok := l.known(ref); ok {
		return t, nil
	}
	l.broker.ListOffsets(ctx, []broker.OffsetQuery{{Topic: ref, Timestamp: broker.LatestTimestamp, LeaderEpoch: record.NoEpoch}})
	return l.broker.Topic(ctx, ref)
}

// partitionRecords lists, per partition, the indexes of its records.
func partitionRecords(t *cluster.Topic, req *moldauv1.ProduceRecordsRequest) (map[int32][]int, error) {
	if req.Partition != nil && (req.GetPartition() < 0 || req.GetPartition() >= t.Partitions) {
		return nil, cluster.Refuse(cluster.CodeUnknownTopic, fmt.Sprintf("topic %s has no partition %d; it has %d, numbered from 0", t.Name, req.GetPartition(), t.Partitions))
	}
	keyless := rand.Int32N(t.Partitions)
	parts := map[int32][]int{}
	for i, r := range req.GetRecords() {
		p := keyless
		switch {
		case req.Partition != nil:
			p = req.GetPartition()
		case r.Key != nil:
			p = grpcframe.PartitionOf(r.Key, t.Partitions)
		}
		parts[p] = append(parts[p], i)
	}
	return parts, nil
}

// producePlain appends the records of one partition, here or at its leader, and returns the offset of the first.
func (l *logService) producePlain(ctx context.Context, t *cluster.Topic, partition int32, req *moldauv1.ProduceRecordsRequest, at []int) (int64, *cluster.Error) {
	leader := l.leaderOf(cluster.TopicPartition{Topic: t.ID, Partition: partition})
	if l.elsewhere(ctx, leader) {
		part := &moldauv1.ProduceRecordsRequest{TopicId: t.ID.String(), Partition: &partition, Acks: req.GetAcks(), TimeoutMs: req.GetTimeoutMs()}
		for _, i := range at {
			part.Records = append(part.Records, req.GetRecords()[i])
		}
		resp, err := ask(ctx, l.Server, leader, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.ProduceRecords, part)
		switch {
		case err != nil:
			return -1, asPart(err)
		case len(resp.GetRecords()) != len(at):
			return -1, cluster.Refuse(cluster.CodeUnknown, "the leader's answer is too short; the outcome is unknown")
		}
		first := resp.GetRecords()[0]
		if e := first.GetError(); e != nil {
			return -1, cluster.Refuse(codeNamed(trimCode(e.GetCode())), e.GetMessage())
		}
		return first.GetOffset(), nil
	}
	batch, e := l.build(t, req, at)
	if e != nil {
		return -1, e
	}
	return l.produceHere(ctx, t, partition, req, batch)
}

func trimCode(c moldauv1.ErrorCode) string {
	const prefix = "ERROR_CODE_"
	if name := c.String(); len(name) > len(prefix) {
		return name[len(prefix):]
	}
	return ""
}

// build encodes records as one batch.
func (l *logService) build(t *cluster.Topic, req *moldauv1.ProduceRecordsRequest, at []int) ([]byte, *cluster.Error) {
	builder := record.NewBuilder(record.BuilderOptions{})
	now := l.cfg.Now().UnixMilli()
	for _, i := range at {
		r := req.GetRecords()[i]
		ts := now
		if r.TimestampMs != nil {
			ts = r.GetTimestampMs()
		}
		headers := make([]record.Header, 0, len(r.GetHeaders()))
		for _, h := range r.GetHeaders() {
			headers = append(headers, record.Header{Key: h.GetKey(), Value: h.Value})
		}
		builder.Append(ts, r.Key, r.Value, headers)
	}
	batch, err := builder.Build()
	if err != nil {
		return nil, cluster.Refuse(cluster.CodeInvalidRecord, err.Error())
	}
	if e, _ := l.admission().Check(t.ID, "", batch.Bytes()); e != nil {
		return nil, e
	}
	return batch.Bytes(), nil
}

func (l *logService) produceHere(ctx context.Context, t *cluster.Topic, partition int32, req *moldauv1.ProduceRecordsRequest, batch []byte) (int64, *cluster.Error) {
	if err := l.budget.Take(ctx, len(batch)); err != nil {
		return -1, broker.AsRefusal(err)
	}
	done := make(chan broker.ProduceResult, 1)
	l.broker.Produce(broker.ProduceRequest{
		Topic: broker.TopicRef{ID: t.ID}, Partition: partition, LeaderEpoch: record.NoEpoch, Batch: batch, Acks: acksOf(req.GetAcks()), Timeout: timeoutOf(req.GetTimeoutMs()),
		Patient: true,
	}, func(r broker.ProduceResult) {
		l.budget.Give(len(batch))
		done <- r
	})
	select {
	case r := <-done:
		if r.Code != cluster.CodeNone {
			return -1, &cluster.Error{Code: r.Code, Message: r.Message, Leader: r.Leader, LeaderEpoch: int32(r.LeaderEpoch)}
		}
		if acksOf(req.GetAcks()) == broker.AcksNone {
			return -1, nil
		}
		return int64(r.BaseOffset), nil
	case <-ctx.Done():
		return -1, cluster.Refuse(cluster.CodeTimedOut, "the call ended before the acknowledgement; the outcome is unknown")
	}
}

// FetchRecords reads plain records once, here or at the leader.
func (l *logService) FetchRecords(ctx context.Context, req *moldauv1.FetchRecordsRequest) (*moldauv1.FetchRecordsResponse, error) {
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	t, err := l.dataTopic(ctx, ref)
	if err != nil {
		return nil, err
	}
	if leader := l.leaderOf(cluster.TopicPartition{Topic: t.ID, Partition: req.GetPartition()}); l.elsewhere(ctx, leader) {
		return ask(ctx, l.Server, leader, moldauv1.NewLogServiceClient, moldauv1.LogServiceClient.FetchRecords, req)
	}
	offset, err := l.startOf(ctx, t, req)
	if err != nil {
		return nil, err
	}
	limit := int(req.GetMaxRecords())
	if limit <= 0 {
		limit = 100
	}
	if limit > maxPlainRecords {
		return nil, tooMany("records", limit, maxPlainRecords)
	}
	wait := min(time.Duration(max(req.GetMaxWaitMs(), 0))*time.Millisecond, maxFetchWait)
	return l.fetchPlain(ctx, t, req.GetPartition(), offset, limit, wait)
}

// startOf turns the start of a FetchRecords call into an offset.
func (l *logService) startOf(ctx context.Context, t *cluster.Topic, req *moldauv1.FetchRecordsRequest) (record.Offset, error) {
	at := func(timestamp int64) (broker.OffsetAnswer, error) {
		a := l.broker.ListOffsets(ctx, []broker.OffsetQuery{{Topic: broker.TopicRef{ID: t.ID}, Partition: req.GetPartition(), Timestamp: timestamp, LeaderEpoch: record.NoEpoch}})[0]
		if a.Code != cluster.CodeNone {
			return a, &cluster.Error{Code: a.Code, Message: a.Message, Leader: a.Leader, LeaderEpoch: int32(a.LeaderEpoch)}
		}
		return a, nil
	}
	switch start := req.GetStart().(type) {
	case *moldauv1.FetchRecordsRequest_Offset:
		return record.Offset(start.Offset), nil
	case *moldauv1.FetchRecordsRequest_TimestampMs:
		a, err := at(max(start.TimestampMs, 0))
		if err != nil || a.Offset >= 0 {
			return a.Offset, err
		}
		a, err = at(broker.LatestTimestamp)
		return a.Offset, err
	case *moldauv1.FetchRecordsRequest_Last:
		first, err := at(broker.EarliestTimestamp)
		if err != nil {
			return 0, err
		}
		end, err := at(broker.LatestTimestamp)
		return max(end.Offset-record.Offset(max(start.Last, 0)), first.Offset), err
	}
	a, err := at(broker.EarliestTimestamp)
	return a.Offset, err
}

// fetchPlain reads and decodes.
func (l *logService) fetchPlain(ctx context.Context, t *cluster.Topic, partition int32, offset record.Offset, limit int, wait time.Duration) (*moldauv1.FetchRecordsResponse, error) {
	answers := l.broker.Fetch(ctx, broker.FetchRequest{
		Partitions: []broker.FetchPartition{{
			Topic: broker.TopicRef{ID: t.ID}, Partition: partition, Offset: offset, MaxBytes: defaultFetchBytes,
			LeaderEpoch: record.NoEpoch, LastFetchedEpoch: record.NoEpoch,
		}},
		MinBytes: 1, MaxBytes: defaultFetchBytes, MaxWait: wait,
	})
	a := &answers[0]
	if a.Slice != nil {
		defer a.Slice.Release()
	}
	if a.Code != cluster.CodeNone {
		return nil, &cluster.Error{Code: a.Code, Message: a.Message, Leader: a.Leader, LeaderEpoch: int32(a.LeaderEpoch)}
	}
	out := &moldauv1.FetchRecordsResponse{
		NextOffset: int64(offset), HighWatermark: int64(a.HighWatermark), LogStartOffset: int64(a.LogStart), LeaderEpoch: int32(a.LeaderEpoch),
	}
	if a.Slice == nil {
		return out, nil
	}
	// The records are there twice for a moment, as they are and encoded, beside the batches.
	answer := answeringOf(ctx)
	if err := answer.take(ctx, a.Slice.Len()+2*maxPlainBytes); err != nil {
		return nil, err
	}
	buf := l.pool.Get(a.Slice.Len())
	defer l.pool.Put(buf)
	batches, err := a.Slice.AppendTo((*buf)[:0])
	if err != nil {
		return nil, cluster.Refuse(cluster.CodeOffsetNotAvailable, fmt.Sprintf("the log changed while it was read; retry: %v", err))
	}
	err = l.decodePlain(batches, offset, limit, out, answer.hold.more)
	if e, ok := errors.AsType[*cluster.Error](err); ok {
		return nil, e
	}
	if errors.Is(err, record.ErrTooLarge) {
		return nil, cluster.Refuse(cluster.CodeTooLarge, err.Error())
	}
	if err != nil {
		return nil, cluster.Refuse(cluster.CodeCorrupt, err.Error())
	}
	l.broker.CountFetched(t.ID, len(batches))
	return out, nil
}

// decodePlain adds the records from an offset on, at most limit of them, and no more than maxPlainBytes but for the first, for which
// it asks for more room.
func (l *logService) decodePlain(batches []byte, from record.Offset, limit int, out *moldauv1.FetchRecordsResponse, more func(bytes int) bool) error {
	size, full := 0, false
	return record.Split(batches, func(b record.Batch) error {
		if full {
			return nil
		}
		if b.IsControl() {
			out.NextOffset = int64(b.NextOffset())
			return nil
		}
		var refusal error
		err := b.Visit(l.cfg.MaxDecompressedBytes, l.cfg.Memory, func(r *record.Visited) bool {
			if r.Offset < from {
				return true
			}
			size += r.Size() + headerSize*r.HeaderCount()
			switch {
			case len(out.Records) > 0:
				full = len(out.Records) >= limit || size > maxPlainBytes
			case size > l.cfg.MaxMessageBytes:
				full, refusal = true, fmt.Errorf("%w: the record at offset %d has %d bytes and %d headers, which is more than one plain answer holds", record.ErrTooLarge, r.Offset, r.Size(), r.HeaderCount())
			case size > maxPlainBytes && !more(2*size):
				full, refusal = true, errNoRoom()
			}
			if full {
				return false
			}
			out.Records = append(out.Records, plainRecord(r))
			out.NextOffset = int64(r.Offset) + 1
			return true
		})
		err = cmp.Or(refusal, err)
		if err == nil && !full {
			out.NextOffset = int64(b.NextOffset())
		}
		return err
	})
}

// plainRecord copies a record.
func plainRecord(r *record.Visited) *moldauv1.Record {
	ts := r.Timestamp
	out := &moldauv1.Record{Offset: int64(r.Offset), TimestampMs: &ts, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range r.Headers() {
		out.Headers = append(out.Headers, &moldauv1.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return out
}
