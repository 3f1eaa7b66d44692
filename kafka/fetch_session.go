package kafka

import (
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Fetch sessions (KIP-227): the broker remembers which partitions a consumer reads, so that requests and answers carry what has changed. A session belongs to the
// broker, not to a connection: a client that reconnects goes on. A broker that has no room answers with session 0, and the client sends its whole list each time.

// Epochs of a session that are none: the client wants no session, or a new one.
const (
	finalSessionEpoch   = -1
	initialSessionEpoch = 0
)

// Errors of sessions as the client sees them. After the first two it starts over.
const (
	errFetchSessionNotFound     int16 = 70
	errInvalidFetchSessionEpoch int16 = 71
	errFetchSessionTopicID      int16 = 106
)

// sessionEviction is how long a session must be unused before a new one takes its place.
const sessionEviction = 2 * time.Minute

// longestTopicName is Kafka's bound; a session does not remember longer ones.
const longestTopicName = 249

// partitionKey names a partition as the client does: by id, or by name before version 13.
type partitionKey struct {
	id        cluster.TopicID
	name      string
	partition int32
}

// readPartition is a partition that a client reads, and from where.
type readPartition struct {
	partitionKey
	offset                 int64
	maxBytes               int32
	leaderEpoch, lastEpoch int32
}

// fetchedPartition is what a session knows of a partition: how it is read, and what its client was last told of it.
type fetchedPartition struct {
	readPartition

	told                    bool // what follows was sent
	highWatermark, logStart int64
}

// fetchSession is one client's list. All fields are guarded by the lock of its cache.
type fetchSession struct {
	id, epoch  int32 // epoch is what the next request carries
	byID       bool  // whether the client names topics by id
	partitions map[partitionKey]*fetchedPartition
	order      []*fetchedPartition // whose turn it is
	used       time.Duration
	place      *list.Element
}

// fetchSessions is the bounded cache of sessions. When it is full, the session that was unused longest gives way, if that was long enough.
type fetchSessions struct {
	maxSessions, maxPartitions int
	now                        func() time.Duration // monotonic

	mu         sync.Mutex // guards what follows, and every session
	sessions   map[int32]*fetchSession
	unused     *list.List // of *fetchSession, longest unused first
	partitions int        // over all sessions
}

func newFetchSessions(maxSessions, maxPartitions int, now func() time.Duration) *fetchSessions {
	return &fetchSessions{maxSessions: maxSessions, maxPartitions: maxPartitions, now: now, sessions: map[int32]*fetchSession{}, unused: list.New()}
}

// fetchPlan is what one request reads. The partitions are copies: a session may end while its request waits.
type fetchPlan struct {
	partitions  []readPartition
	session     int32 // 0: none
	incremental bool
	create      bool
	byID        bool
}

// begin says what a request reads, or which error answers it.
func (c *fetchSessions) begin(req *kmsg.FetchRequest) (fetchPlan, int16) {
	plan := fetchPlan{byID: req.Version >= 13}
	if req.Version < 7 {
		plan.partitions = requestedPartitions(req)
		return plan, errNone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[req.SessionID]
	if req.SessionEpoch == initialSessionEpoch || req.SessionEpoch == finalSessionEpoch {
		if s != nil {
			c.drop(s)
		}
		plan.partitions = requestedPartitions(req)
		plan.create = req.SessionEpoch == initialSessionEpoch
		return plan, errNone
	}
	switch {
	case s == nil:
		return plan, errFetchSessionNotFound
	case s.epoch != req.SessionEpoch:
		return plan, errInvalidFetchSessionEpoch
	case s.byID != plan.byID:
		return plan, errFetchSessionTopicID
	}
	c.forget(s, req)
	if !c.update(s, requestedPartitions(req)) {
		c.drop(s)
		return plan, errFetchSessionNotFound // there is no more room: the client starts over with its whole list
	}
	s.epoch = nextSessionEpoch(s.epoch)
	c.touch(s)
	plan.partitions = make([]readPartition, len(s.order))
	for i, p := range s.order {
		plan.partitions[i] = p.readPartition
	}
	if len(s.order) == 0 {
		c.drop(s)
		return plan, errNone
	}
	plan.session, plan.incremental = s.id, true
	return plan, errNone
}

func nextSessionEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// requestedPartitions are those that a request names, each once.
func requestedPartitions(req *kmsg.FetchRequest) []readPartition {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	out := make([]readPartition, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		for k := range t.Partitions {
			p := &t.Partitions[k]
			out = append(out, readPartition{
				partitionKey: keyOf(req, t.Topic, t.TopicID, p.Partition), offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				leaderEpoch: p.CurrentLeaderEpoch, lastEpoch: p.LastFetchedEpoch,
			})
		}
	}
	return collapse(out)
}

// collapse makes one of those that name the same partition: where it comes first, as it comes last. Apache Kafka does the same.
func collapse(all []readPartition) []readPartition {
	if len(all) < 2 {
		return all
	}
	at := make(map[partitionKey]int, len(all))
	once := all[:0]
	for _, p := range all {
		first, repeated := at[p.partitionKey]
		if repeated {
			once[first] = p
			continue
		}
		at[p.partitionKey] = len(once)
		once = append(once, p)
	}
	if len(once) < len(all) {
		return slices.Clone(once) // it may be kept for long
	}
	return all
}

func keyOf(req *kmsg.FetchRequest, name string, id [16]byte, partition int32) partitionKey {
	if req.Version >= 13 {
		return partitionKey{id: id, partition: partition}
	}
	return partitionKey{name: name, partition: partition}
}

// forget takes the partitions out that the client has dropped.
func (c *fetchSessions) forget(s *fetchSession, req *kmsg.FetchRequest) {
	if len(req.ForgottenTopics) == 0 {
		return
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, partition := range t.Partitions {
			key := keyOf(req, t.Topic, t.TopicID, partition)
			if _, ok := s.partitions[key]; ok {
				delete(s.partitions, key)
				c.partitions--
			}
		}
	}
	s.order = slices.DeleteFunc(s.order, func(p *fetchedPartition) bool { return s.partitions[p.partitionKey] != p })
}

// update takes new partitions and new positions in; it reports false when there is no room.
func (c *fetchSessions) update(s *fetchSession, changed []readPartition) bool {
	for i := range changed {
		p := &changed[i]
		if old, ok := s.partitions[p.partitionKey]; ok {
			old.readPartition = *p
			continue
		}
		if c.partitions >= c.maxPartitions || len(p.name) > longestTopicName {
			return false
		}
		fresh := &fetchedPartition{readPartition: *p}
		s.partitions[p.partitionKey] = fresh
		s.order = append(s.order, fresh)
		c.partitions++
	}
	return true
}

// end tells the session what the answer says, makes a new one if the request wants it, and returns its id, 0 for none. send says for each partition of the plan
// whether the answer holds it.
func (c *fetchSessions) end(plan *fetchPlan, parts []broker.FetchedPartition) (id int32, send []bool) {
	send = make([]bool, len(parts))
	if !plan.incremental {
		for i := range send {
			send[i] = true
		}
	}
	if !plan.incremental && !plan.create {
		return 0, send
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[plan.session]
	if plan.create {
		if s = c.create(plan); s == nil {
			return 0, send
		}
	}
	for i := range parts {
		if s == nil { // evicted, or closed by another request, while this one waited
			send[i] = true
			continue
		}
		if p, ok := s.partitions[plan.partitions[i].partitionKey]; ok && p.news(&parts[i]) {
			send[i] = true
		}
	}
	if s == nil {
		return plan.session, send
	}
	s.rotate(plan, parts)
	return s.id, send
}

// news reports whether the client has to hear of a partition, and takes note that it does.
func (p *fetchedPartition) news(f *broker.FetchedPartition) bool {
	news := f.Slice != nil || f.Code != cluster.CodeNone || f.Diverged || f.Elsewhere || !p.told || p.highWatermark != int64(f.HighWatermark) || p.logStart != int64(f.LogStart)
	p.told = f.Code == cluster.CodeNone // after an error the client hears of it again
	p.highWatermark, p.logStart = int64(f.HighWatermark), int64(f.LogStart)
	return news
}

// rotate puts the partitions that were served behind the others, so that a busy one does not starve them.
func (s *fetchSession) rotate(plan *fetchPlan, parts []broker.FetchedPartition) {
	served := make(map[partitionKey]bool)
	for i := range parts {
		if parts[i].Slice != nil {
			served[plan.partitions[i].partitionKey] = true
		}
	}
	if len(served) == 0 || len(served) == len(s.order) {
		return
	}
	var last []*fetchedPartition
	first := s.order[:0]
	for _, p := range s.order {
		if served[p.partitionKey] {
			last = append(last, p)
		} else {
			first = append(first, p)
		}
	}
	s.order = append(first, last...)
}

// create makes a session of what a request has read, or nil when there is no room.
func (c *fetchSessions) create(plan *fetchPlan) *fetchSession {
	if len(plan.partitions) == 0 || !c.room(len(plan.partitions)) {
		return nil
	}
	s := &fetchSession{epoch: 1, byID: plan.byID, partitions: make(map[partitionKey]*fetchedPartition, len(plan.partitions))}
	for s.id == 0 || c.sessions[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	c.sessions[s.id] = s
	s.place = c.unused.PushBack(s)
	s.used = c.now()
	if !c.update(s, plan.partitions) {
		c.drop(s)
		return nil
	}
	return s
}

// room makes room for a session of n partitions, if it can: only those that were unused long enough give way.
func (c *fetchSessions) room(n int) bool {
	for len(c.sessions) >= c.maxSessions || c.partitions+n > c.maxPartitions {
		front := c.unused.Front()
		if front == nil || c.now()-front.Value.(*fetchSession).used < sessionEviction {
			return false
		}
		c.drop(front.Value.(*fetchSession))
	}
	return true
}

func (c *fetchSessions) touch(s *fetchSession) {
	s.used = c.now()
	c.unused.MoveToBack(s.place)
}

func (c *fetchSessions) drop(s *fetchSession) {
	delete(c.sessions, s.id)
	c.unused.Remove(s.place)
	c.partitions -= len(s.partitions)
}

// asked is a partition in the form in which the broker is asked for it.
func (p *readPartition) asked(ref broker.TopicRef) broker.FetchPartition {
	return broker.FetchPartition{
		Topic: ref, Partition: p.partition, Offset: record.Offset(p.offset), MaxBytes: int(p.maxBytes),
		LeaderEpoch: record.LeaderEpoch(p.leaderEpoch), LastFetchedEpoch: record.LeaderEpoch(p.lastEpoch),
	}
}
