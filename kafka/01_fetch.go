package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Fetch (1), versions 4 to 17: whole batches from the one that holds the offset, below the high watermark.
//
// v4 isolation level (KIP-98); v5 log start; v7 sessions (KIP-227); v9 leader epochs (KIP-320); v10 zstd (KIP-110); v11 racks (KIP-392); v12 flexible, divergence
// (KIP-595); v13 topic ids (KIP-516); v15 replica state (KIP-903); v16 who leads instead, and where (KIP-951); v17 directory ids (KIP-853).
//
// No sessions are kept: session id 0 in the answer tells the client to send its whole list each time. Without transactions read_committed is read_uncommitted.

// errFetchSessionNotFound answers a session that this broker never gave: the client then starts over.
const errFetchSessionNotFound int16 = 70

func (c *conn) fetch(ctx context.Context, req *kmsg.FetchRequest, s *slot) (*kmsg.FetchResponse, error) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	if req.SessionID != 0 {
		resp.ErrorCode = errFetchSessionNotFound
		s.outcome = errorLabel(resp.ErrorCode)
		return resp, nil
	}
	parts := c.s.broker.Fetch(ctx, c.fetchRequest(ctx, req))
	arena, err := c.records(ctx, parts, s)
	if err != nil {
		return nil, err
	}
	n := 0
	resp.Topics = make([]kmsg.FetchResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		out.Default()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.FetchResponseTopicPartition, len(in.Partitions))
		ref := broker.TopicRef{ID: cluster.TopicID(in.TopicID), Name: in.Topic}
		for k := range in.Partitions {
			p := &parts[n]
			o := &out.Partitions[k]
			o.Default()
			o.Partition = in.Partitions[k].Partition
			c.fetched(ref, p, o)
			o.RecordBatches, arena = cut(p, arena)
			if req.IsolationLevel == 1 {
				o.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
			if o.ErrorCode != errNone {
				s.outcome = errorLabel(o.ErrorCode)
				c.leaderHint(p, resp)
			}
			n++
		}
	}
	return resp, nil
}

func (c *conn) fetchRequest(ctx context.Context, req *kmsg.FetchRequest) broker.FetchRequest {
	out := broker.FetchRequest{MinBytes: int(req.MinBytes), MaxBytes: min(max(int(req.MaxBytes), 0), c.s.cfg.MaxFetchBytes), MaxWait: time.Duration(req.MaxWaitMillis) * time.Millisecond}
	for i := range req.Topics {
		t := &req.Topics[i]
		ref := c.existing(ctx, broker.TopicRef{ID: cluster.TopicID(t.TopicID), Name: t.Topic})
		for k := range t.Partitions {
			p := &t.Partitions[k]
			out.Partitions = append(out.Partitions, broker.FetchPartition{
				Topic: ref, Partition: p.Partition, Offset: record.Offset(p.FetchOffset), MaxBytes: int(p.PartitionMaxBytes),
				LeaderEpoch: record.LeaderEpoch(p.CurrentLeaderEpoch), LastFetchedEpoch: record.LeaderEpoch(p.LastFetchedEpoch),
			})
		}
	}
	return out
}

// existing makes a reference by name one by id. A topic that is not there gets an id that no topic has, so that reading never creates it: a consumer must not
// bring back what an administrator has deleted.
func (c *conn) existing(ctx context.Context, ref broker.TopicRef) broker.TopicRef {
	if !ref.ID.IsZero() {
		return ref
	}
	if t, ok := c.s.broker.Image().TopicByName(ref.Name); ok {
		return broker.TopicRef{ID: t.ID}
	}
	if t, err := c.s.broker.Topic(ctx, ref); err == nil {
		return broker.TopicRef{ID: t.ID}
	}
	return broker.TopicRef{ID: cluster.TopicID{15: 0xff}}
}

// records copies the slices into one buffer and releases them. The buffer goes back when the answer is written.
func (c *conn) records(ctx context.Context, parts []broker.FetchedPartition, s *slot) ([]byte, error) {
	total := 0
	for i := range parts {
		if parts[i].Slice != nil {
			total += parts[i].Slice.Len()
		}
	}
	defer func() {
		for i := range parts {
			if parts[i].Slice != nil {
				parts[i].Slice.Release()
			}
		}
	}()
	if total == 0 {
		return nil, nil
	}
	if err := c.s.fetched.take(ctx, total); err != nil {
		return nil, err
	}
	arena := c.s.buffers.get(total)
	for i := range parts {
		if parts[i].Slice == nil {
			continue
		}
		var err error
		if arena, err = parts[i].Slice.AppendTo(arena); err != nil { // the log was truncated meanwhile: this broker no longer leads
			parts[i].Slice.Release()
			parts[i].Slice = nil
			parts[i].Code = cluster.CodeNotLeader
		}
	}
	s.free = func() {
		c.s.buffers.put(arena)
		c.s.fetched.give(total)
	}
	return arena, nil
}

// cut takes the records of one partition off the front of the arena. They are empty, never null: some clients trip over null.
func cut(p *broker.FetchedPartition, arena []byte) (records, rest []byte) {
	if p.Slice == nil {
		return []byte{}, arena
	}
	n := p.Slice.Len()
	return arena[:n:n], arena[n:]
}

func (c *conn) fetched(ref broker.TopicRef, p *broker.FetchedPartition, o *kmsg.FetchResponseTopicPartition) {
	o.ErrorCode = c.wireTopic(ref, p.Code)
	o.HighWatermark, o.LastStableOffset, o.LogStartOffset = int64(p.HighWatermark), int64(p.HighWatermark), int64(p.LogStart)
	if p.Diverged {
		o.DivergingEpoch.Epoch, o.DivergingEpoch.EndOffset = int32(p.Divergence.Epoch), int64(p.Divergence.End)
	}
	if p.Code == cluster.CodeNotLeader || p.Code == cluster.CodeFencedLeaderEpoch {
		o.CurrentLeader.LeaderID, o.CurrentLeader.LeaderEpoch = int32(p.Leader), int32(p.LeaderEpoch)
	}
}

// leaderHint adds the address of the leader that an error names (KIP-951).
func (c *conn) leaderHint(p *broker.FetchedPartition, resp *kmsg.FetchResponse) {
	if p.Code != cluster.CodeNotLeader && p.Code != cluster.CodeFencedLeaderEpoch {
		return
	}
	for i := range resp.Brokers {
		if resp.Brokers[i].NodeID == int32(p.Leader) {
			return
		}
	}
	if b, ok := c.broker(c.s.broker.Image(), p.Leader); ok {
		hint := kmsg.NewFetchResponseBroker()
		hint.NodeID = int32(b.ID)
		hint.Host, hint.Port, _ = c.endpoint(b)
		if b.Rack != "" {
			hint.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, hint)
	}
}
