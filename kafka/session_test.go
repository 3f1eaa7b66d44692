package kafka

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// sessionsDoor is a door whose sessions have a clock that the test moves, and whose broker answers every partition with a watermark.
type sessionsDoor struct {
	*door
	now   time.Duration
	asked []broker.FetchPartition // of the last fetch
	code  func(p broker.FetchPartition) cluster.Code
}

func openSessions(t *testing.T, cfg Config) *sessionsDoor {
	t.Helper()
	d := &sessionsDoor{door: openDoor(t, cfg), code: func(broker.FetchPartition) cluster.Code { return cluster.CodeNone }}
	d.s.sessions.now = func() time.Duration { return d.now }
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		d.asked = req.Partitions
		out := make([]broker.FetchedPartition, len(req.Partitions))
		for i, p := range req.Partitions {
			out[i] = broker.FetchedPartition{Topic: p.Topic.ID, Code: d.code(p), HighWatermark: 5}
		}
		return out
	}
	return d
}

// partitionsFetch asks for partitions 0 to n-1 of a topic.
func partitionsFetch(topic cluster.TopicID, n int, id, epoch int32) *kmsg.FetchRequest {
	req := oneTopicFetch(13, id, epoch)
	req.Topics[0].TopicID, req.Topics[0].Partitions = topic, nil
	for i := range n {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(i)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return req
}

func (d *sessionsDoor) ask(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	d.t.Helper()
	c := d.dial()
	defer c.Close()
	c.send(req)
	_, resp := c.answer(req)
	return resp.(*kmsg.FetchResponse)
}

// open makes a session over n partitions; 0 says that there was no room.
func (d *sessionsDoor) open(n int) int32 {
	d.t.Helper()
	r := d.ask(partitionsFetch(cluster.TopicID{9}, n, 0, initialSessionEpoch))
	if r.ErrorCode != errNone || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != n {
		d.t.Fatalf("a full fetch: %+v", r)
	}
	return r.SessionID
}

func (d *sessionsDoor) wantError(what string, req *kmsg.FetchRequest, want int16) {
	d.t.Helper()
	if r := d.ask(req); r.ErrorCode != want {
		d.t.Errorf("%s: error %d, want %d", what, r.ErrorCode, want)
	}
}

func nothingNew(id, epoch int32) *kmsg.FetchRequest {
	return &kmsg.FetchRequest{Version: 13, ReplicaID: -1, SessionID: id, SessionEpoch: epoch}
}

// A full cache gives no session, and the client is served all the same; the session that was unused longest gives way once that is two minutes ago (case 108).
func TestCase108_FetchSessionsAreBounded(t *testing.T) {
	d := openSessions(t, Config{MaxFetchSessions: 2})
	one, two := d.open(1), d.open(1)
	if one == 0 || two == 0 || one == two {
		t.Fatalf("sessions %d and %d", one, two)
	}
	d.now = sessionEviction - 1
	if id := d.open(1); id != 0 {
		t.Errorf("a third session among two: %d", id)
	}
	d.wantError("one goes on", nothingNew(one, 1), errNone)
	d.now = sessionEviction
	three := d.open(1)
	if three == 0 {
		t.Fatal("an unused session does not give way")
	}
	d.wantError("two was unused longest", nothingNew(two, 1), errFetchSessionNotFound)
	d.wantError("one was used", nothingNew(one, 2), errNone)
	d.wantError("three is there", nothingNew(three, 1), errNone)
}

// The partitions of all sessions are bounded too: neither a new session nor one that grows passes the bound, and what ends gives its room back (case 108).
func TestCase108_PartitionsOfFetchSessionsAreBounded(t *testing.T) {
	d := openSessions(t, Config{MaxSessionPartitions: 10})
	if id := d.open(11); id != 0 {
		t.Errorf("a session of 11 partitions where 10 are the bound: %d", id)
	}
	one := d.open(6)
	if id := d.open(5); id != 0 {
		t.Errorf("11 partitions in two sessions: %d", id)
	}
	grown := partitionsFetch(cluster.TopicID{9}, 11, one, 1)
	d.wantError("a session that outgrows the bound", grown, errFetchSessionNotFound)
	d.wantError("it is gone", nothingNew(one, 2), errFetchSessionNotFound)
	all := d.open(10)
	if all == 0 {
		t.Error("the room of an ended session is not free")
	}
	if r := d.ask(&kmsg.FetchRequest{Version: 13, ReplicaID: -1, SessionID: all, SessionEpoch: finalSessionEpoch}); r.ErrorCode != errNone || r.SessionID != 0 {
		t.Errorf("the end of a session: %+v", r)
	}
	if n := d.s.sessions.partitions; n != 0 || len(d.s.sessions.sessions) != 0 || d.s.sessions.unused.Len() != 0 {
		t.Errorf("%d partitions and %d sessions are left", n, len(d.s.sessions.sessions))
	}
}

// A name that no topic can have is not remembered.
func TestCase108_LongNamesMakeNoSession(t *testing.T) {
	d := openSessions(t, Config{})
	req := oneTopicFetch(12, 0, initialSessionEpoch)
	req.Topics[0].Topic = string(make([]byte, longestTopicName+1))
	if r := d.ask(req); r.ErrorCode != errNone || r.SessionID != 0 || d.s.sessions.partitions != 0 {
		t.Errorf("%+v", r)
	}
}

func TestFetchSession_EpochsWrapToOne(t *testing.T) {
	d := openSessions(t, Config{})
	id := d.open(1)
	d.s.sessions.sessions[id].epoch = math.MaxInt32
	d.wantError("the last epoch", nothingNew(id, math.MaxInt32), errNone)
	d.wantError("0 and -1 mean something else", nothingNew(id, 2), errInvalidFetchSessionEpoch)
	d.wantError("the next one", nothingNew(id, 1), errNone)
}

// A client that starts over gets a session with another id, and the old one is gone.
func TestFetchSession_StartingOverMakesAnother(t *testing.T) {
	d := openSessions(t, Config{})
	first := d.open(3)
	second := d.ask(partitionsFetch(cluster.TopicID{9}, 2, first, initialSessionEpoch)).SessionID
	if second == 0 || second == first || len(d.s.sessions.sessions) != 1 || d.s.sessions.partitions != 2 {
		t.Errorf("sessions %d and %d; %d are there with %d partitions", first, second, len(d.s.sessions.sessions), d.s.sessions.partitions)
	}
	d.wantError("the first", nothingNew(first, 1), errFetchSessionNotFound)
}

// Forgotten partitions are not read any more; what was never in the session is forgotten without an error.
func TestFetchSession_ForgottenTopics(t *testing.T) {
	d := openSessions(t, Config{})
	req := nothingNew(d.open(4), 1)
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{
		{TopicID: cluster.TopicID{9}, Partitions: []int32{1, 3, 77}}, {TopicID: cluster.TopicID{1}, Partitions: []int32{0}},
	}
	d.wantError("forget", req, errNone)
	if len(d.asked) != 2 || d.asked[0].Partition != 0 || d.asked[1].Partition != 2 || d.s.sessions.partitions != 2 {
		t.Errorf("read: %+v", d.asked)
	}
}

// A topic is deleted and made again under its name. A session of ids hears that its topic is unknown until the client forgets it and adds the new one; one of
// names goes on with the topic that has the name now (case 55).
func TestCase55_FetchSessionOverATopicMadeAgain(t *testing.T) {
	d := openSessions(t, Config{})
	d.code = func(p broker.FetchPartition) cluster.Code {
		if _, ok := d.broker.Image().Topic(p.Topic.ID); !ok {
			return cluster.CodeUnknownTopic
		}
		return cluster.CodeNone
	}
	byID := d.open(1)
	byName := d.ask(oneTopicFetch(12, 0, initialSessionEpoch)).SessionID
	tx := d.broker.Image().Txn()
	gone, _ := d.broker.Image().Topic(cluster.TopicID{9})
	tx.DeleteTopic(gone)
	again := &cluster.Topic{ID: cluster.TopicID{10}, Name: "t", Partitions: 1, ReplicationFactor: 2}
	tx.PutTopic(again)
	d.broker.image.Store(tx.Commit(2))
	for epoch := int32(1); epoch <= 2; epoch++ { // it is told until it has changed
		r := d.ask(nothingNew(byID, epoch))
		if len(r.Topics) != 1 || r.Topics[0].TopicID != [16]byte{9} || r.Topics[0].Partitions[0].ErrorCode != errUnknownTopicID {
			t.Errorf("by id: %+v", r)
		}
	}
	req := partitionsFetch(again.ID, 1, byID, 3)
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: cluster.TopicID{9}, Partitions: []int32{0}}}
	if r := d.ask(req); len(r.Topics) != 1 || r.Topics[0].TopicID != [16]byte{10} || r.Topics[0].Partitions[0].ErrorCode != errNone || d.s.sessions.partitions != 2 {
		t.Errorf("the new topic: %+v", r)
	}
	names := nothingNew(byName, 1)
	names.Version = 12
	if r := d.ask(names); r.ErrorCode != errNone || len(d.asked) != 1 || d.asked[0].Topic.ID != again.ID {
		t.Errorf("by name: %+v, read %+v", r, d.asked)
	}
}

// A leader that names a better replica says so in every answer of a session, and versions before 11 are never sent elsewhere (KIP-392).
func TestFetch_ThePreferredReplicaIsNamed(t *testing.T) {
	d := openDoor(t, Config{})
	asked := make(chan broker.FetchRequest, 10)
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		asked <- req
		out := make([]broker.FetchedPartition, len(req.Partitions))
		for i := range out {
			out[i] = broker.FetchedPartition{HighWatermark: 5, Preferred: 1, Elsewhere: req.Followers && req.Rack == "west"}
		}
		return out
	}
	c := d.dial()
	ask := func(version int16, id, epoch int32) (broker.FetchRequest, *kmsg.FetchResponse) {
		req := oneTopicFetch(version, id, epoch)
		req.Rack = "west"
		c.send(req)
		_, resp := c.answer(req)
		return <-asked, resp.(*kmsg.FetchResponse)
	}
	if req, resp := ask(10, 0, -1); req.Followers || req.Rack != "" || resp.Topics[0].Partitions[0].PreferredReadReplica != -1 {
		t.Errorf("version 10: %+v, %+v", req, resp)
	}
	id := int32(0)
	for epoch := range int32(3) {
		req, resp := ask(11, id, epoch)
		if id = resp.SessionID; !req.Followers || req.Rack != "west" || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].PreferredReadReplica != 1 {
			t.Errorf("epoch %d: %+v, %+v", epoch, req, resp)
		}
	}
}

// OFFSET_NOT_AVAILABLE tells a reader to ask again, of a leader whose watermark is not known yet or a log that changes under the read; its session stays.
func TestFetch_OffsetNotAvailable(t *testing.T) {
	d := openSessions(t, Config{})
	id := d.open(1)
	d.code = func(broker.FetchPartition) cluster.Code { return cluster.CodeOffsetNotAvailable }
	for epoch := int32(1); epoch <= 2; epoch++ {
		if r := d.ask(nothingNew(id, epoch)); len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != errOffsetNotAvailable {
			t.Errorf("%+v", r)
		}
	}
	d.code = func(broker.FetchPartition) cluster.Code { return cluster.CodeNone }
	if r := d.ask(nothingNew(id, 3)); len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != errNone {
		t.Errorf("available again: %+v", r)
	}
	if r := d.ask(nothingNew(id, 4)); len(r.Topics) != 0 {
		t.Errorf("nothing has changed: %+v", r)
	}
}
