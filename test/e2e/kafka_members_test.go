package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawMember is a member of a classic group that does only what it is told: no heartbeats of its own.
type rawMember struct {
	t          *testing.T
	client     *kgo.Client
	group, id  string
	generation int32
	session    time.Duration
	protocol   string // of its subscription; range if empty
}

// request is a JoinGroup of the member.
func (m *rawMember) request() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), int32(m.session.Milliseconds())
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = m.protocol
	if protocol.Name == "" {
		protocol.Name = "range"
	}
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{m.group}
	protocol.Metadata = meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	return req
}

func (m *rawMember) joinOnly(ctx context.Context) *kmsg.JoinGroupResponse {
	m.t.Helper()
	for range 10 { // the first join gives the member its id, and a coordinator may have to be found again
		req := m.request()
		resp, err := req.RequestWith(ctx, m.client)
		if err != nil {
			m.t.Fatalf("join: %v", err)
		}
		m.id, m.generation = resp.MemberID, resp.Generation
		if resp.ErrorCode == 0 {
			return resp
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.MemberIDRequired) {
			m.t.Fatalf("join: %v", err)
		}
	}
	m.t.Fatal("join: no end of member ids")
	return nil
}

// join joins as the only member, and syncs with an empty assignment.
func (m *rawMember) join(ctx context.Context) {
	m.t.Helper()
	joined := m.joinOnly(ctx)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	req.ProtocolType, req.Protocol = joined.ProtocolType, joined.Protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID = m.id
	req.GroupAssignment = append(req.GroupAssignment, a)
	resp, err := req.RequestWith(ctx, m.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		m.t.Fatalf("sync: %v", err)
	}
}

func (m *rawMember) commit(ctx context.Context, topic string, partition int32, at int64) int16 {
	m.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	in, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	in.Topic, p.Partition, p.Offset = topic, partition, at
	if meta, err := kadm.NewClient(m.client).Metadata(ctx, topic); err == nil {
		in.TopicID = meta.Topics[topic].ID // from v10 on topics go by id
	}
	in.Partitions = append(in.Partitions, p)
	req.Topics = append(req.Topics, in)
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		m.t.Fatalf("commit: %v", err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// seenValues counts values over many readers.
type seenValues struct {
	mu     sync.Mutex
	values map[string]int
}

func (s *seenValues) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// groupReader is a member of a group that reads until it is stopped.
type groupReader struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex // guards seen
	seen *seenValues
}

func startGroupReader(t *testing.T, c *Cluster, group, topic string) *groupReader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &groupReader{cancel: cancel, done: make(chan struct{}), seen: &seenValues{values: map[string]int{}}}
	r.client = kafkaClient(t, c, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(10*time.Second), kgo.RebalanceTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.AutoCommitInterval(100*time.Millisecond))
	t.Cleanup(r.stop)
	go r.run(ctx)
	return r
}

// into makes the reader count into s from now on.
func (r *groupReader) into(s *seenValues) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = s
}

func (r *groupReader) run(ctx context.Context) {
	defer close(r.done)
	for {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		seen := r.seen
		r.mu.Unlock()
		seen.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) { seen.values[string(rec.Value)]++ })
		seen.mu.Unlock()
	}
}

// stop leaves the group.
func (r *groupReader) stop() {
	r.cancel()
	<-r.done
	r.client.Close()
}
