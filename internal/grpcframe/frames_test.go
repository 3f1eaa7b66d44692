package grpcframe

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// pieces cuts bytes into buffers of at most n bytes, as a message arrives.
func pieces(b []byte, n int) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > n {
		out = append(out, mem.SliceBuffer(b[:n]))
		b = b[n:]
	}
	return append(out, mem.SliceBuffer(b))
}

func id(b byte) (t TopicID) {
	for i := range t {
		t[i] = b + byte(i)
	}
	return t
}

func text(t TopicID) string {
	if t == (TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t[:])
}

func int32p(v int32) *int32 { return &v }

// marshalled is what a frame puts on the wire.
func marshalled(t testing.TB, f frame) []byte {
	t.Helper()
	out, err := NewCodec(new(Pool)).Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Free()
	return out.Materialize()
}

var big = bytes.Repeat([]byte("0123456789abcdef"), 5000)

// produces are frames with the messages that they stand for.
func produces() map[*Produce]*moldauv1.ProduceRequest {
	batch := func(b []byte) *[]byte { return &b }
	return map[*Produce]*moldauv1.ProduceRequest{
		{LeaderEpoch: NoEpoch}: {},
		{
			ClientSeq: 1 << 63, Topic: "orders", Partition: -5, LeaderEpoch: 0, Acks: moldauv1.Acks_ACKS_LEADER, TimeoutMs: 1 << 30, Batch: batch([]byte("x")),
		}: {ClientSeq: 1 << 63, Topic: "orders", Partition: -5, LeaderEpoch: int32p(0), Acks: moldauv1.Acks_ACKS_LEADER, TimeoutMs: 1 << 30, Batch: []byte("x")},
		{TopicID: id(3), Partition: 7, LeaderEpoch: 9, Batch: batch(big)}: {TopicId: text(id(3)), Partition: 7, LeaderEpoch: int32p(9), Batch: big},
	}
}

func TestProduce_IsTheGeneratedMessage(t *testing.T) {
	for f, want := range produces() {
		got := new(moldauv1.ProduceRequest)
		if err := proto.Unmarshal(marshalled(t, f), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%v\nreads as %v, %v\nwant     %v", f, got, err, want)
		}
		wire, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2, 7, 100, 16 << 10, 1 << 20} {
			back := Produce{Topic: "left from before", BadTopicID: true}
			if err := NewCodec(new(Pool)).Unmarshal(pieces(wire, n), &back); err != nil {
				t.Fatalf("in pieces of %d: %v", n, err)
			}
			checkProduce(t, &back, want)
		}
	}
}

func checkProduce(t *testing.T, f *Produce, want *moldauv1.ProduceRequest) {
	t.Helper()
	got := &moldauv1.ProduceRequest{
		ClientSeq: f.ClientSeq, Topic: f.Topic, TopicId: text(f.TopicID), Partition: f.Partition, Acks: f.Acks, TimeoutMs: f.TimeoutMs,
	}
	if f.LeaderEpoch != NoEpoch || want.LeaderEpoch != nil {
		got.LeaderEpoch = int32p(f.LeaderEpoch)
	}
	if f.Batch != nil {
		got.Batch = *f.Batch
	}
	if f.BadTopicID || !proto.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestProduce_SharedBatchIsNotCopied(t *testing.T) {
	pool := new(Pool)
	buf := pool.Get(1 << 16)
	batch := mem.NewBuffer(buf, pool)
	out := (&Produce{LeaderEpoch: NoEpoch, Shared: batch}).marshal(pool)
	last := out[len(out)-1].ReadOnlyData()
	if &last[0] != &(*buf)[0] {
		t.Error("the batch was copied")
	}
	out.Free()
	if batch.Len() != 1<<16 { // would panic or be 0 if the sender's own reference were gone
		t.Error("the batch went with the message")
	}
	batch.Free()
}

func TestProduce_BadTopicIDIsNoBrokenMessage(t *testing.T) {
	for _, bad := range []string{"short", strings.Repeat("!", 22), strings.Repeat("A", 23)} {
		wire, err := proto.Marshal(&moldauv1.ProduceRequest{TopicId: bad, ClientSeq: 4})
		if err != nil {
			t.Fatal(err)
		}
		var f Produce
		if err := f.unmarshal(pieces(wire, 5), new(Pool)); err != nil || !f.BadTopicID || f.ClientSeq != 4 || f.TopicID != (TopicID{}) {
			t.Errorf("%q: %+v, %v", bad, f, err)
		}
	}
}

func TestResults_AreTheGeneratedMessage(t *testing.T) {
	refusal := &moldauv1.Error{Code: moldauv1.ErrorCode_ERROR_CODE_NOT_LEADER, Message: "ask 3", Retriable: true, Leader: int32p(3), LeaderEpoch: int32p(0), Endpoint: "h:1"}
	f := &Results{WindowBytes: 1 << 40, Results: []Result{
		{ClientSeq: 1, BaseOffset: 1 << 50, LogStart: 7, LogAppendMs: 99},
		{ClientSeq: 2, Error: refusal, BaseOffset: -1, LogStart: -1},
		{},
	}}
	want := &moldauv1.ProduceResponse{WindowBytes: 1 << 40, Results: []*moldauv1.ProduceResult{
		{ClientSeq: 1, BaseOffset: 1 << 50, LogStartOffset: 7, LogAppendTimeMs: 99},
		{ClientSeq: 2, Error: refusal, BaseOffset: -1, LogStartOffset: -1},
		{},
	}}
	got := new(moldauv1.ProduceResponse)
	if err := proto.Unmarshal(marshalled(t, f), got); err != nil || !proto.Equal(got, want) {
		t.Fatalf("reads as %v, %v", got, err)
	}
	wire, _ := proto.Marshal(want)
	back := Results{Results: []Result{{ClientSeq: 77}}}
	if err := back.unmarshal(pieces(wire, 3), nil); err != nil || len(back.Results) != 3 || back.WindowBytes != 1<<40 {
		t.Fatalf("%+v, %v", back, err)
	}
	for i, r := range back.Results {
		w := f.Results[i]
		if r.ClientSeq != w.ClientSeq || r.BaseOffset != w.BaseOffset || r.LogStart != w.LogStart || r.LogAppendMs != w.LogAppendMs || !proto.Equal(r.Error, w.Error) {
			t.Errorf("result %d: %+v, want %+v", i, r, w)
		}
	}
}

func TestFetched_IsTheGeneratedMessage(t *testing.T) {
	refusal := &moldauv1.Error{Code: moldauv1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, Message: "ö"}
	end := &moldauv1.EpochEnd{LeaderEpoch: 4, EndOffset: 1 << 33}
	for _, batches := range [][]byte{nil, []byte("x"), big} {
		f := &Fetched{Index: 5, TopicID: id(9), Partition: 2, Error: refusal, HighWatermark: 1 << 44, LogStart: -1, LeaderEpoch: 3, Divergence: end}
		want := &moldauv1.FetchResponse{
			Index: 5, TopicId: text(id(9)), Partition: 2, Error: refusal, HighWatermark: 1 << 44, LogStartOffset: -1, LeaderEpoch: 3, Divergence: end, Batches: batches,
		}
		if batches != nil {
			b := bytes.Clone(batches)
			f.Batches = &b
		}
		got := new(moldauv1.FetchResponse)
		if err := proto.Unmarshal(marshalled(t, f), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("reads as %v, %v", got, err)
		}
		wire, _ := proto.Marshal(want)
		var back Fetched
		if err := back.unmarshal(pieces(wire, 11), new(Pool)); err != nil {
			t.Fatal(err)
		}
		if back.Batches != nil && !bytes.Equal(*back.Batches, batches) || (back.Batches == nil) != (batches == nil) {
			t.Error("batches differ")
		}
		if back.Index != 5 || back.TopicID != id(9) || back.Partition != 2 || !proto.Equal(back.Error, refusal) || back.HighWatermark != 1<<44 ||
			back.LogStart != -1 || back.LeaderEpoch != 3 || !proto.Equal(back.Divergence, end) {
			t.Errorf("%+v", back)
		}
	}
}

// TestFieldNumbers holds the constants to the .proto files.
func TestFieldNumbers(t *testing.T) {
	check := func(m proto.Message, want map[string]protoreflect.FieldNumber) {
		t.Helper()
		fields := m.ProtoReflect().Descriptor().Fields()
		if fields.Len() != len(want) {
			t.Errorf("%T has %d fields, the frame %d", m, fields.Len(), len(want))
		}
		for name, number := range want {
			if f := fields.ByName(protoreflect.Name(name)); f == nil || f.Number() != number {
				t.Errorf("%T.%s is %v, the frame has %d", m, name, f, number)
			}
		}
	}
	check(&moldauv1.ProduceRequest{}, map[string]protoreflect.FieldNumber{
		"client_seq": produceClientSeq, "topic": produceTopic, "topic_id": produceTopicID, "partition": producePartition,
		"leader_epoch": produceLeaderEpoch, "acks": produceAcks, "timeout_ms": produceTimeoutMs, "batch": produceBatch,
	})
	check(&moldauv1.ProduceResponse{}, map[string]protoreflect.FieldNumber{"results": resultsResults, "window_bytes": resultsWindowBytes})
	check(&moldauv1.ProduceResult{}, map[string]protoreflect.FieldNumber{
		"client_seq": resultClientSeq, "error": resultError, "base_offset": resultBaseOffset, "log_start_offset": resultLogStart, "log_append_time_ms": resultLogAppendMs,
	})
	check(&moldauv1.FetchResponse{}, map[string]protoreflect.FieldNumber{
		"index": fetchedIndex, "topic_id": fetchedTopicID, "partition": fetchedPartition, "error": fetchedError, "high_watermark": fetchedHighWatermark,
		"log_start_offset": fetchedLogStart, "leader_epoch": fetchedLeaderEpoch, "divergence": fetchedDivergence, "batches": fetchedBatches,
	})
}

func TestCodec_OtherMessagesAreOrdinary(t *testing.T) {
	c := NewCodec(new(Pool))
	if c.Name() != "proto" {
		t.Errorf("content subtype %q", c.Name())
	}
	want := &moldauv1.TopicRef{Topic: "t"}
	wire, err := c.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := new(moldauv1.TopicRef)
	if err := c.Unmarshal(wire, got); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.Marshal("no message"); err == nil {
		t.Error("a string was marshalled")
	}
}
