package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Produce (0), versions 3 to 13: one record batch v2 per partition.
//
// v3 record batches (KIP-98); v5 log start; v7 zstd (KIP-110); v8 which records were refused, and why (KIP-467); v9 flexible; v10 who leads instead, and where
// (KIP-951); v11, v12 transactions, which are not supported; v13 topic ids (KIP-516).
//
// Versions 0 to 2 are advertised and not spoken, as Apache Kafka does since 4.0: librdkafka before 2.11 takes their absence for a broker without compression.
//
// Requests of a connection overlap: batches are appended in the order in which they came, and wait for their acknowledgements side by side. With acks=0 there is
// no answer; a refusal closes the connection, which is all that the client can be told.

// The versions that brought zstd, who leads instead, and topic ids. Older ones have room for the leader too, in tags; their clients do not look there.
const (
	firstProduceZstd  = 7
	firstProduceHints = 10
	firstProduceByID  = 13
)

// produceCall is one Produce request on its way.
type produceCall struct {
	c        *conn
	slot     *slot
	response *kmsg.ProduceResponse
	frame    []byte
	answers  atomic.Int32 // partitions without an answer
	users    atomic.Int32 // who still needs the frame
	acks     broker.Acks
	lost     atomic.Bool // the broker has panicked: the frame's bytes are not used again
	waited   atomic.Bool // a partition's leader was waited for in vain; the others are not waited for
}

func (c *conn) produce(s *slot, req *kmsg.ProduceRequest, frame []byte) error {
	ctx := broker.Request(c.ctx)
	p := &produceCall{c: c, slot: s, frame: frame, acks: broker.Acks(req.Acks), response: req.ResponseKind().(*kmsg.ProduceResponse)}
	s.response = p.response
	if err := p.give(ctx, req); err != nil {
		return err
	}
	p.answered()
	switch {
	case s.working == nil:
	case p.acks == broker.AcksNone:
		<-s.done
	default:
		<-s.written // a large one is not joined by a second
	}
	return nil
}

// give queues the slot and gives every batch to the broker. It uses the frame itself until it ends, also by a panic.
func (p *produceCall) give(ctx context.Context, req *kmsg.ProduceRequest) error {
	p.users.Store(1)
	defer p.free()
	n := p.prepare(req)
	p.answers.Store(int32(n) + 1) // one more for produce, so that the last answer comes after the last batch was given
	if p.acks != broker.AcksNone {
		if err := p.c.queue(p.slot); err != nil {
			return err
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		ref := broker.TopicRef{ID: cluster.TopicID(t.TopicID), Name: t.Topic}
		for k := range t.Partitions {
			p.one(ctx, req, ref, &t.Partitions[k], &p.response.Topics[i].Partitions[k])
		}
	}
	return nil
}

// prepare lays out the response, so that answers only fill their own place, and counts the partitions.
func (p *produceCall) prepare(req *kmsg.ProduceRequest) (n int) {
	p.response.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &p.response.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(in.Partitions))
		for k := range in.Partitions {
			part := &out.Partitions[k]
			part.Default()
			part.Partition, part.BaseOffset, part.LogStartOffset = in.Partitions[k].Partition, -1, -1
			n++
		}
	}
	return n
}

// one gives the batch of one partition to the broker, or refuses it.
func (p *produceCall) one(ctx context.Context, req *kmsg.ProduceRequest, ref broker.TopicRef, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) {
	named := ref
	if ref.ID.IsZero() { // by name; writing never creates a topic: clients ask for its metadata first
		named = p.c.existing(ctx, ref)
	}
	if e := p.refuse(req, ref, in.Records, out); e != nil {
		p.answer(ref, out, broker.ProduceResult{Code: e.Code, Message: e.Message, BaseOffset: -1, LogStart: -1, LogAppendMs: -1, Leader: cluster.NoBroker, LeaderEpoch: record.NoEpoch})
		return
	}
	p.users.Add(1)
	p.c.appending.Add(1)
	var released atomic.Bool
	release := func() {
		if !released.Swap(true) {
			p.free()
			p.c.appending.Done()
		}
	}
	taken := false
	defer func() {
		if !taken { // a panic in the broker: nobody else gives it back, and somebody may use it yet
			p.lost.Store(true)
			release()
		}
	}()
	p.c.s.broker.Produce(broker.ProduceRequest{
		Topic: named, Partition: in.Partition, LeaderEpoch: record.NoEpoch, Batch: in.Records, Acks: p.acks,
		Timeout: time.Duration(req.TimeoutMillis) * time.Millisecond, Release: release, Patient: !p.waited.Load(),
	}, func(r broker.ProduceResult) {
		release() // a refusal may come without it
		if r.Code == cluster.CodeNotLeader && r.Leader == p.c.s.broker.ID() {
			p.waited.Store(true)
		}
		p.answer(ref, out, r)
	})
	taken = true
}

// refuse says what is wrong with a batch before the broker sees it.
func (p *produceCall) refuse(req *kmsg.ProduceRequest, ref broker.TopicRef, batch []byte, out *kmsg.ProduceResponseTopicPartition) *cluster.Error {
	switch {
	case req.TransactionID != nil:
		return cluster.Refuse(cluster.CodeTransactional, "transactions are not supported")
	case req.Acks < -1 || req.Acks > 1:
		out.ErrorCode = errInvalidRequiredAcks
		return cluster.Refuse(cluster.CodeInvalidRequest, "acks is -1, 0 or 1")
	case ref.ID.IsZero() && req.Version >= firstProduceByID:
		out.ErrorCode = errUnknownTopicID
		return cluster.Refuse(cluster.CodeUnknownTopic, "the topic's id is zero")
	case ref.ID.IsZero():
		if err := cluster.ParseTopicName(ref.Name); err != nil {
			return broker.AsRefusal(err)
		}
	}
	if head, err := record.ParseHead(batch); err == nil && head.Codec() == record.CodecZstd && req.Version < firstProduceZstd {
		return cluster.Refuse(cluster.CodeUnsupportedCompression, "zstd comes with version 7 of Produce")
	}
	e, blamed := p.c.checker.Check(ref.ID, ref.Name, batch)
	for _, index := range blamed {
		out.ErrorRecords = append(out.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: index, ErrorMessage: &e.Message})
	}
	return e
}

// answer fills in one partition. It never blocks.
func (p *produceCall) answer(ref broker.TopicRef, out *kmsg.ProduceResponseTopicPartition, r broker.ProduceResult) {
	if r.Code == cluster.CodeNone {
		out.BaseOffset, out.LogAppendTime, out.LogStartOffset = int64(r.BaseOffset), r.LogAppendMs, int64(r.LogStart)
	} else {
		if out.ErrorCode == errNone {
			out.ErrorCode = p.c.wireTopic(ref, r.Code)
		}
		if r.Message != "" {
			out.ErrorMessage = &r.Message
		}
		if p.response.Version >= firstProduceHints && (r.Code == cluster.CodeNotLeader || r.Code == cluster.CodeFencedLeaderEpoch) {
			out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = int32(r.Leader), int32(r.LeaderEpoch)
		}
	}
	p.answered()
}

// answered counts the answers. The last one lets the writer go on, or with acks=0 ends what nobody waits for.
func (p *produceCall) answered() {
	if p.answers.Add(-1) > 0 {
		return
	}
	failed := p.finish()
	close(p.slot.done)
	if p.acks == broker.AcksNone && failed {
		p.c.cancel()
		p.c.stopReading()
	}
}

// finish completes the response when every partition has its answer: the leaders' addresses, and what the meter is told.
func (p *produceCall) finish() (failed bool) {
	var seen map[int32]bool
	for i := range p.response.Topics {
		for k := range p.response.Topics[i].Partitions {
			part := &p.response.Topics[i].Partitions[k]
			if part.ErrorCode == errNone {
				continue
			}
			failed = true
			p.slot.outcome = errorLabel(part.ErrorCode)
			id := part.CurrentLeader.LeaderID
			if id < 0 || seen[id] {
				continue
			}
			if b, ok := p.c.broker(p.c.s.broker.Image(), cluster.BrokerID(id)); ok {
				if seen == nil {
					seen = map[int32]bool{}
				}
				seen[id] = true
				hint := kmsg.NewProduceResponseBroker()
				hint.NodeID = id
				hint.Host, hint.Port, _ = p.c.endpoint(b)
				if b.Rack != "" {
					hint.Rack = &b.Rack
				}
				p.response.Brokers = append(p.response.Brokers, hint)
			}
		}
	}
	return failed
}

// free gives the frame back when its last user is done.
func (p *produceCall) free() {
	switch {
	case p.users.Add(-1) > 0:
	case p.lost.Load():
		p.c.unhold(len(p.frame))
	default:
		p.c.release(p.frame)
	}
}
