package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// storedLog is a log in real files whose batches are alternately small and large, and how to read the nth of them.
func storedLog(t testing.TB, batches int) func(n int) *broker.Slice {
	t.Helper()
	l, _, err := segment.Open(vfs.OS{}, t.TempDir()+"/p", segment.Identity{Topic: "t"}, segment.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for i := range batches {
		b := batchOf(t, strings.Repeat("x", 10+i%2*100_000))
		binary.BigEndian.PutUint64(b, uint64(i))
		binary.BigEndian.PutUint32(b[12:], 1)
		if _, err := l.Append(1, b); err != nil {
			t.Fatal(err)
		}
	}
	return func(n int) *broker.Slice {
		v := l.View()
		s, err := v.Read(v.Start()+record.Offset(n), 1, v.End())
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
}

// randomFetch is an answer with everything that the door may put into one, and the records of its partitions.
func randomFetch(r *rand.Rand, version int16, read func(int) *broker.Slice) (*kmsg.FetchResponse, []*broker.FetchedPartition) {
	resp := &kmsg.FetchResponse{Version: version, ThrottleMillis: r.Int32(), ErrorCode: int16(r.IntN(200)), SessionID: r.Int32()}
	var parts []*broker.FetchedPartition
	for range r.IntN(4) {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "topic-with-a-name"[:r.IntN(17)]
		topic.TopicID[3] = byte(r.Int())
		for range r.IntN(4) {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.Int32(), int16(r.IntN(120)-1), r.Int64(), r.Int64(), r.Int64()
			if r.IntN(2) == 0 {
				p.PreferredReadReplica = r.Int32()
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Int32(), r.Int64()
				p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, r.IntN(3))
			}
			if r.IntN(2) == 0 {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = r.Int32(), r.Int32()
			}
			p.RecordBatches = []byte{}
			var s *broker.Slice
			if n := r.IntN(3); n < 2 {
				s = read(n)
				p.RecordBatches, _ = s.AppendTo(nil)
			}
			parts = append(parts, &broker.FetchedPartition{Slice: s})
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	for range r.IntN(3) {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Port, b.Host = r.Int32(), r.Int32(), "host.example"
		if r.IntN(2) == 0 {
			b.Rack = kmsg.StringPtr("rack")
		}
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp, parts
}

// The bytes that are written by hand are those that kmsg writes, in every version.
func TestFetchFrame_IsWhatKmsgWrites(t *testing.T) {
	read := storedLog(t, 2)
	r := rand.New(rand.NewPCG(1, 2))
	for version := int16(4); version <= 17; version++ {
		cutSomething := false
		for range 100 {
			resp, parts := randomFetch(r, version, read)
			encoded, cuts, err := fetchFrame(nil, 77, resp, parts, copiedRange)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			from := 0
			for _, x := range cuts {
				got = append(got, encoded[from:x.at]...)
				if got, err = x.slice.AppendTo(got); err != nil {
					t.Fatal(err)
				}
				from, cutSomething = x.at, true
			}
			got = append(got, encoded[from:]...)
			want := binary.BigEndian.AppendUint32(nil, 77)
			if resp.IsFlexible() {
				want = append(want, 0)
			}
			want = resp.AppendTo(want)
			want = append(binary.BigEndian.AppendUint32(nil, uint32(len(want))), want...)
			if !bytes.Equal(got, want) {
				t.Fatalf("version %d: %d bytes, kmsg writes %d", version, len(got), len(want))
			}
			for _, p := range parts {
				if p.Slice != nil {
					p.Slice.Release()
				}
			}
		}
		if !cutSomething {
			t.Errorf("version %d: no range was large", version)
		}
	}
}

// oneTopicFetch asks for partition 0 of t.
func oneTopicFetch(version int16, id, epoch int32) *kmsg.FetchRequest {
	req := &kmsg.FetchRequest{Version: version, ReplicaID: -1, ReplicaState: kmsg.NewFetchRequestReplicaState(), SessionID: id, SessionEpoch: epoch, MinBytes: 1, MaxBytes: 1 << 20}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "t", [16]byte{9}
	topic.Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	req.Topics = append(req.Topics, topic)
	return req
}

// A large range comes whole through a real socket, and the next answer right behind it.
func TestFetch_ALargeRangeArrivesWhole(t *testing.T) {
	read := storedLog(t, 2)
	d := openDoor(t, Config{})
	d.broker.onFetch = func(context.Context, broker.FetchRequest) []broker.FetchedPartition {
		return []broker.FetchedPartition{{Slice: read(1)}}
	}
	s := read(1)
	want, _ := s.AppendTo(nil)
	s.Release()
	c := d.dial()
	for range 3 {
		req := oneTopicFetch(13, 0, -1)
		c.send(req)
		_, resp := c.answer(req)
		if got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches; !bytes.Equal(got, want) {
			t.Fatalf("%d bytes came, %d are stored", len(got), len(want))
		}
	}
}

// Sessions belong to the broker, carry changes only, and refuse what does not fit.
func TestFetchSession_CarriesChangesAcrossConnections(t *testing.T) {
	d := openDoor(t, Config{})
	answer := broker.FetchedPartition{HighWatermark: 5}
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		if len(req.Partitions) != 1 {
			t.Errorf("%d partitions are asked for", len(req.Partitions))
		}
		return []broker.FetchedPartition{answer}
	}
	ask := func(req *kmsg.FetchRequest) *kmsg.FetchResponse {
		c := d.dial() // a new connection each time
		c.send(req)
		_, resp := c.answer(req)
		return resp.(*kmsg.FetchResponse)
	}
	first := ask(oneTopicFetch(13, 0, 0))
	if first.SessionID == 0 || len(first.Topics) != 1 {
		t.Fatalf("created: %+v", first)
	}
	next := &kmsg.FetchRequest{Version: 13, ReplicaID: -1, SessionID: first.SessionID, SessionEpoch: 1}
	if r := ask(next); r.ErrorCode != errNone || r.SessionID != first.SessionID || len(r.Topics) != 0 {
		t.Errorf("nothing has changed: %+v", r)
	}
	if r := ask(next); r.ErrorCode != errInvalidFetchSessionEpoch {
		t.Errorf("the same epoch twice: %+v", r)
	}
	answer.HighWatermark = 6
	next.SessionEpoch = 2
	if r := ask(next); len(r.Topics) != 1 || r.Topics[0].Partitions[0].HighWatermark != 6 {
		t.Errorf("the watermark has moved: %+v", r)
	}
	next.SessionEpoch, next.Version = 3, 12
	if r := ask(next); r.ErrorCode != errFetchSessionTopicID {
		t.Errorf("names in a session of ids: %+v", r)
	}
	next.Version = 13
	next.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: [16]byte{9}, Partitions: []int32{0}}}
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		return make([]broker.FetchedPartition, len(req.Partitions))
	}
	if r := ask(next); r.SessionID != 0 || len(r.Topics) != 0 {
		t.Errorf("everything is forgotten: %+v", r)
	}
	if r := ask(next); r.ErrorCode != errFetchSessionNotFound {
		t.Errorf("a session that is gone: %+v", r)
	}
}

// However many fetches a client sends without reading, one answer is held: the next one is looked for when the one before is written (case 108).
func TestCase108_OneFetchAnswerIsHeldPerConnection(t *testing.T) {
	read := storedLog(t, 2)
	d := openDoor(t, Config{})
	d.broker.onFetch = func(context.Context, broker.FetchRequest) []broker.FetchedPartition {
		if held := d.s.fetched.Held(); held != 0 {
			t.Errorf("%d bytes of an earlier answer are held", held)
		}
		return []broker.FetchedPartition{{Slice: read(0)}}
	}
	c := d.dial()
	req := oneTopicFetch(13, 0, -1)
	for range 200 {
		c.send(req)
	}
	for range 200 {
		c.frame()
	}
}
