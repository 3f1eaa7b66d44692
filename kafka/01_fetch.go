package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// Fetch (1), versions 4 to 17: whole batches from the one that holds the offset, below the high watermark.
//
// v4 isolation level (KIP-98); v5 log start; v7 sessions (KIP-227); v9 leader epochs (KIP-320); v10 zstd (KIP-110); v11 racks (KIP-392); v12 flexible, divergence
// (KIP-595); v13 topic ids (KIP-516); v15 replica state (KIP-903); v16 who leads instead, and where (KIP-951); v17 directory ids (KIP-853).
//
// Without transactions read_committed is read_uncommitted. Sessions are in fetch_session.go, the bytes of the answer in fetch_frame.go.

func (c *conn) fetch(ctx context.Context, req *kmsg.FetchRequest, s *slot) (*kmsg.FetchResponse, error) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	plan, code := c.s.sessions.begin(req)
	if code != errNone {
		resp.ErrorCode = code
		s.outcome = errorLabel(code)
		return resp, nil
	}
	ask := c.fetchRequest(ctx, req, &plan)
	kept := fetchTexts(req, s)
	req.Topics, req.ForgottenTopics, req.UnknownTags = nil, nil, kmsg.Tags{} // all that they say is in the plan, which may be kept for long
	s.unframe(kept)                                                          // tags alone lay in the request's bytes; partitions are bounded by park
	wished := ask.MaxWait
	parked, err := c.park(ctx, s, &ask)
	if err != nil {
		return nil, err
	}
	defer c.s.parked.Give(parked)
	parts := c.s.broker.Fetch(ctx, ask)
	if ask.MaxWait < wished && !enough(parts, ask.MinBytes) {
		resp.ThrottleMillis = c.mute(wished)
	}
	if fromReplica(req) {
		refuseReplica(parts, &plan)
	}
	s.free = func() { releaseAll(parts) }
	var send []bool
	resp.SessionID, send = c.s.sessions.end(&plan, parts)
	var told []*broker.FetchedPartition // what the answer holds
	for i := range parts {
		p := &plan.partitions[i]
		if !send[i] {
			continue
		}
		out := topicOf(resp, p)
		o := kmsg.NewFetchResponseTopicPartition()
		o.Partition = p.partition
		c.fetched(broker.TopicRef{ID: p.id, Name: p.name}, &parts[i], &o)
		if req.Version < firstFetchHints {
			o.CurrentLeader = kmsg.NewFetchResponseTopicPartitionCurrentLeader()
		}
		if plan.byID && p.id.IsZero() {
			o.ErrorCode = errUnknownTopicID
		}
		if req.IsolationLevel == 1 || o.ErrorCode == errUnknownTopicID || o.ErrorCode == errUnknownTopicOrPartition {
			o.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
		if o.ErrorCode != errNone {
			s.outcome = errorLabel(o.ErrorCode)
			if req.Version >= firstFetchHints && !fromReplica(req) {
				c.leaderHint(&parts[i], resp)
			}
		}
		out.Partitions = append(out.Partitions, o)
		told = append(told, &parts[i])
	}
	s.worked() // what follows may wait for other clients
	return resp, c.frameFetch(ctx, s, resp, told)
}

// fetchTexts is how many bytes of names a Fetch keeps until it is answered. They have no bound but that of the request.
func fetchTexts(req *kmsg.FetchRequest, s *slot) int {
	n := len(s.clientID) + len(req.Rack)
	if req.ClusterID != nil {
		n += len(*req.ClusterID)
	}
	for i := range req.Topics {
		n += len(req.Topics[i].Topic)
	}
	return n
}

// Bounds on what waits for records, in partitions. What each costs is named in DESIGN.md.
const (
	// smallFetch is how many of them a Fetch may wait for without being counted.
	smallFetch = 100
	// parkedPartitions is how many those that are counted may wait for together, over all connections.
	parkedPartitions = 200_000
	// fetchStructure is what each counts for among large requests, in bytes: what a partition takes in a request at least.
	fetchStructure = 16
)

// park decides whether a Fetch may wait for records, and returns how many partitions it has taken of those that may be waited for. One that finds no room does not wait,
// neither for records nor for room, so that nobody keeps others waiting by doing so himself: it is answered with what there is, as one of the large requests that are worked
// on, and its client is muted for a while when that is less than it waits for. One that may wait is none of those.
func (c *conn) park(ctx context.Context, s *slot, ask *broker.FetchRequest) (int, error) {
	n := len(ask.Partitions)
	if n <= smallFetch {
		s.worked()
		return 0, nil
	}
	if ask.MaxWait > 0 && c.s.parked.Try(n) {
		s.worked()
		return n, nil
	}
	ask.MaxWait = 0
	if s.working != nil {
		return 0, nil
	}
	return 0, s.work(ctx, c.s.working, n*fetchStructure)
}

// enough says whether an answer has all that its client would have waited for.
func enough(parts []broker.FetchedPartition, minBytes int) bool {
	total := 0
	for i := range parts {
		p := &parts[i]
		if p.Code != cluster.CodeNone || p.Diverged || p.Elsewhere {
			return true
		}
		if p.Slice != nil {
			total += p.Slice.Len()
		}
	}
	return total >= minBytes
}

// fromReplica reports whether a request says that a follower sends it. Brokers replicate over a port of their own, so that none does.
func fromReplica(req *kmsg.FetchRequest) bool {
	if req.Version >= firstReplicaState {
		return req.ReplicaState.ID >= 0
	}
	return req.ReplicaID >= 0
}

// refuseReplica answers as Kafka does to one that is no replica of the partition: what is wrong with the partition or the leader epoch comes first, and nothing is read.
func refuseReplica(parts []broker.FetchedPartition, plan *fetchPlan) {
	releaseAll(parts)
	for i := range parts {
		p := &parts[i]
		p.Slice, p.Diverged = nil, false
		switch {
		case p.Code != cluster.CodeNone && p.Code != cluster.CodeOffsetOutOfRange && p.Code != cluster.CodeOffsetNotAvailable:
		case plan.partitions[i].leaderEpoch >= 0:
			p.Code = cluster.CodeUnknownLeaderEpoch
		default:
			p.Code = cluster.CodeNotLeader
		}
	}
}

// topicOf is the entry for a partition's topic: the last one, or a new one.
func topicOf(resp *kmsg.FetchResponse, p *readPartition) *kmsg.FetchResponseTopic {
	if n := len(resp.Topics); n > 0 && resp.Topics[n-1].Topic == p.name && resp.Topics[n-1].TopicID == [16]byte(p.id) {
		return &resp.Topics[n-1]
	}
	resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{Topic: p.name, TopicID: p.id})
	return &resp.Topics[len(resp.Topics)-1]
}

// frameFetch encodes the answer. What it copies is taken from the budget until it is written; ranges that go out from their files are not.
func (c *conn) frameFetch(ctx context.Context, s *slot, resp *kmsg.FetchResponse, told []*broker.FetchedPartition) error {
	copied, held := 0, false
	for _, p := range told {
		if p.Slice == nil {
			continue
		}
		held = true
		if p.Slice.Len() <= copiedRange {
			copied += p.Slice.Len()
		}
	}
	release := s.free
	if copied <= smallAnswer {
		c.s.fetched.Force(copied) // whatever others hold: a connection has one such answer
	} else if err := c.s.fetched.Take(ctx, copied); err != nil {
		return err
	}
	s.shares, s.share = c.s.fetched, copied // whatever follows: who ends the slot gives it back
	resp.SetVersion(s.version)
	var err error
	buf := c.s.buffers.get(copied + fetchFrameHead + fetchFrameEach*len(told))
	if s.encoded, s.cuts, err = fetchFrame(buf, s.correlation, resp, told, copiedRange); err != nil {
		return err
	}
	if !held { // nothing was copied, and there is nothing to wait for
		s.unshare()
		release()
		s.free = nil
		return nil
	}
	s.copied = func() { c.countCopied(told) }
	s.free = func() {
		release()
		c.s.buffers.put(s.encoded)
	}
	return nil
}

// countCopied counts the ranges that went out with the answer's own bytes.
func (c *conn) countCopied(told []*broker.FetchedPartition) {
	for _, p := range told {
		if p.Slice != nil && p.Slice.Len() <= copiedRange {
			c.s.broker.CountFetched(p.Topic, p.Slice.Len())
		}
	}
}

// Sizes in bytes for which room is made in an encoded answer: once, and for each partition.
const (
	fetchFrameHead = 256
	fetchFrameEach = 128
)

func releaseAll(parts []broker.FetchedPartition) {
	for i := range parts {
		if parts[i].Slice != nil {
			parts[i].Slice.Release()
		}
	}
}

func (c *conn) fetchRequest(ctx context.Context, req *kmsg.FetchRequest, plan *fetchPlan) broker.FetchRequest {
	out := broker.FetchRequest{
		MinBytes: int(req.MinBytes), MaxBytes: min(max(int(req.MaxBytes), 0), c.s.cfg.MaxFetchBytes), MaxWait: time.Duration(req.MaxWaitMillis) * time.Millisecond,
		Followers: req.Version >= firstFollowerFetch, Rack: req.Rack, Patient: true, Partitions: make([]broker.FetchPartition, 0, len(plan.partitions)),
	}
	var ref broker.TopicRef
	for i := range plan.partitions {
		p := &plan.partitions[i]
		if last := i - 1; last < 0 || plan.partitions[last].id != p.id || plan.partitions[last].name != p.name {
			ref = c.existing(ctx, broker.TopicRef{ID: p.id, Name: p.name})
		}
		out.Partitions = append(out.Partitions, p.asked(ref))
	}
	if fromReplica(req) { // nothing to read, to wait for, or to point elsewhere
		out.MinBytes, out.MaxBytes, out.MaxWait, out.Followers, out.Rack = 0, 0, 0, false, ""
	}
	return out
}

// firstFetchHints is the first version whose clients look for who leads instead (KIP-951).
const firstFetchHints = 16

// firstReplicaState is the first version in which followers say who they are in a tag (KIP-903).
const firstReplicaState = 15

// firstFollowerFetch is the first version whose clients can be sent to a follower (KIP-392).
const firstFollowerFetch = 11

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

func (c *conn) fetched(ref broker.TopicRef, p *broker.FetchedPartition, o *kmsg.FetchResponseTopicPartition) {
	o.ErrorCode = c.wireTopic(ref, p.Code)
	o.HighWatermark, o.LastStableOffset, o.LogStartOffset = int64(p.HighWatermark), int64(p.HighWatermark), int64(p.LogStart)
	if o.ErrorCode != errNone { // as Kafka: a refusal tells nothing of the log
		o.HighWatermark, o.LastStableOffset, o.LogStartOffset = -1, -1, -1
	}
	if p.Elsewhere {
		o.PreferredReadReplica = int32(p.Preferred)
	}
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
