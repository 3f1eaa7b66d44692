package client

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"time"

	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// topicInfo is what the client knows of a topic. Values are immutable once published.
type topicInfo struct {
	name       string
	id         string
	rawID      grpcframe.TopicID
	partitions []partInfo
}

// partInfo is who leads a partition; leader -1 is nobody.
type partInfo struct {
	leader int32
	epoch  int32
}

// metadata is the client's picture of the cluster. It is a hint: brokers refuse what is out of date.
type metadata struct {
	wanted chan struct{} // asks housekeeping for a refresh

	mu      sync.Mutex // guards what follows
	topics  map[string]*topicInfo
	brokers map[int32]string // gRPC address
}

func newMetadata() *metadata {
	return &metadata{wanted: make(chan struct{}, 1), topics: map[string]*topicInfo{}, brokers: map[int32]string{}}
}

// want asks for a refresh soon.
func (m *metadata) want() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

func (m *metadata) topic(name string) *topicInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[name]
}

// leader returns who leads a partition and where; ok is false when that is unknown.
func (m *metadata) leader(topic string, partition int32) (endpoint string, epoch int32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.topics[topic]
	if info == nil || int(partition) >= len(info.partitions) {
		return "", -1, false
	}
	p := info.partitions[partition]
	endpoint = m.brokers[p.leader]
	return endpoint, p.epoch, endpoint != ""
}

// hint takes the leader that a refusal names, if it is news.
func (m *metadata) hint(topic string, partition int32, e *Error) bool {
	if e.Leader < 0 || e.Endpoint == "" {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.topics[topic]
	if info == nil || int(partition) >= len(info.partitions) {
		return false
	}
	old := info.partitions[partition]
	if e.LeaderEpoch < old.epoch || (e.LeaderEpoch == old.epoch && e.Leader == old.leader) {
		return false
	}
	changed := *info
	changed.partitions = append([]partInfo(nil), info.partitions...)
	changed.partitions[partition] = partInfo{leader: e.Leader, epoch: e.LeaderEpoch}
	m.topics[topic] = &changed
	m.brokers[e.Leader] = e.Endpoint
	return true
}

func (m *metadata) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.topics))
	for name := range m.topics {
		names = append(names, name)
	}
	return names
}

// apply takes an answer of DescribeTopics and returns the refusals by topic. An older leader epoch than the known one is not taken: the
// answering broker may lag behind.
func (m *metadata) apply(resp *moldauv1.DescribeTopicsResponse) map[string]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := map[string]error{}
	for _, b := range resp.GetBrokers() {
		if b.GetEndpoint() != "" {
			m.brokers[b.GetBroker()] = b.GetEndpoint()
		}
	}
	for _, t := range resp.GetTopics() {
		if err := fromWire(t.GetError()); err != nil {
			refused[t.GetTopic()] = err
			if CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC {
				delete(m.topics, t.GetTopic())
			}
			continue
		}
		m.topics[t.GetTopic()] = newTopicInfo(t, m.topics[t.GetTopic()])
	}
	return refused
}

func newTopicInfo(t *moldauv1.TopicDescription, old *topicInfo) *topicInfo {
	info := &topicInfo{name: t.GetTopic(), id: t.GetTopicId(), partitions: make([]partInfo, len(t.GetPartitions()))}
	if raw, err := base64.RawURLEncoding.DecodeString(info.id); err == nil {
		copy(info.rawID[:], raw)
	}
	for i, p := range t.GetPartitions() {
		info.partitions[i] = partInfo{leader: p.GetLeader(), epoch: p.GetLeaderEpoch()}
		if old != nil && old.id == info.id && i < len(old.partitions) && old.partitions[i].epoch > p.GetLeaderEpoch() {
			info.partitions[i] = old.partitions[i]
		}
	}
	return info
}

// refreshTimeout bounds one refresh: a broker that does not answer so long is put behind the others, and the next refresh asks another.
const refreshTimeout = 1500 * time.Millisecond

// refreshAll looks up every topic in use.
func (c *Client) refreshAll() error {
	names := c.meta.names()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, min(refreshTimeout, c.cfg.dialTimeout))
	defer cancel()
	_, err := c.describe(ctx, names)
	return err
}

func (c *Client) describe(ctx context.Context, names []string) (map[string]error, error) {
	req := new(moldauv1.DescribeTopicsRequest)
	for _, name := range names {
		req.Topics = append(req.Topics, &moldauv1.TopicRef{Topic: name})
	}
	resp, err := c.DescribeTopics(ctx, req)
	if err != nil {
		return nil, err
	}
	refused := c.meta.apply(resp)
	var endpoints []string
	for _, b := range resp.GetBrokers() {
		if b.GetEndpoint() != "" && !b.GetFenced() {
			endpoints = append(endpoints, b.GetEndpoint())
		}
	}
	c.conns.learn(endpoints)
	return refused, nil
}

// unknownTopicPatience is how long a topic that is not there is looked for: a broker may not have applied its creation yet.
const unknownTopicPatience = 2 * time.Second

// lookup returns a topic, asking the cluster when it is not known.
func (c *Client) lookup(ctx context.Context, name string, create bool) (*topicInfo, error) {
	if info := c.meta.topic(name); info != nil {
		return info, nil
	}
	giveUp := time.Now().Add(unknownTopicPatience)
	touched := false
	for {
		refused, err := c.describe(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		if info := c.meta.topic(name); info != nil {
			return info, nil
		}
		err = refused[name]
		if err == nil {
			err = errors.New("client: broker left out topic " + name)
		}
		if CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC || time.Now().After(giveUp) {
			return nil, err
		}
		if !touched {
			touched = true
			c.touch(ctx, name)
			continue
		}
		if create {
			create = false
			_, cerr := c.CreateTopic(ctx, &moldauv1.CreateTopicRequest{Topic: name})
			if cerr != nil && CodeOf(cerr) != moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
				return nil, cerr
			}
			continue
		}
		select {
		case <-time.After(c.cfg.retryBackoff):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// touch asks for an offset of a topic that is not there: brokers that create topics on first use do it then.
func (c *Client) touch(ctx context.Context, name string) {
	_, _ = c.ListOffsets(ctx, &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{{Topic: name, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST}}})
}
