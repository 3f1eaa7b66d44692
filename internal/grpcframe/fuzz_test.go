package grpcframe

import (
	"testing"

	"google.golang.org/protobuf/proto"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// FuzzUnmarshal holds the hand-written parsers to the generated code: they accept what it accepts and read the same from it.
func FuzzUnmarshal(f *testing.F) {
	for _, m := range produces() {
		if b, err := proto.Marshal(m); err == nil && len(b) < 1000 {
			f.Add(b, 3)
		}
	}
	for _, m := range []proto.Message{
		&moldauv1.ProduceResponse{WindowBytes: 5, Results: []*moldauv1.ProduceResult{{ClientSeq: 1, Error: &moldauv1.Error{Message: "m"}}}},
		&moldauv1.FetchResponse{TopicId: text(id(1)), Batches: []byte("bb"), Divergence: &moldauv1.EpochEnd{EndOffset: 3}},
	} {
		b, _ := proto.Marshal(m)
		f.Add(b, 1)
	}
	f.Add([]byte{0x0b, 0x13, 0x14, 0x0c}, 1) // groups
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		data := pieces(b, max(cut, 1))
		want := new(moldauv1.ProduceRequest)
		wantErr := proto.Unmarshal(b, want)
		var got Produce
		err := got.unmarshal(data, new(Pool))
		// Text that is no topic id, UTF-8 or not, is reported as a bad id.
		if (err == nil) != (wantErr == nil) && !got.BadTopicID {
			t.Fatalf("error %v, generated code %v", err, wantErr)
		}
		if err == nil && wantErr == nil {
			compareProduce(t, &got, want)
		}
		fetched := new(moldauv1.FetchResponse)
		wantErr = proto.Unmarshal(b, fetched)
		var frame Fetched
		if err := frame.unmarshal(data, new(Pool)); (err == nil) != (wantErr == nil) && !frame.BadTopicID {
			t.Fatalf("fetched: error %v, generated code %v", err, wantErr)
		} else if err == nil && wantErr == nil && (frame.HighWatermark != fetched.GetHighWatermark() || !proto.Equal(frame.Error, fetched.GetError()) ||
			!proto.Equal(frame.Divergence, fetched.GetDivergence()) || !sameBytes(frame.Batches, fetched.GetBatches())) {
			t.Fatalf("fetched: %+v, want %v", frame, fetched)
		}
		response := new(moldauv1.ProduceResponse)
		wantErr = proto.Unmarshal(b, response)
		var results Results
		if err := results.unmarshal(data, nil); (err == nil) != (wantErr == nil) {
			t.Fatalf("results: error %v, generated code %v", err, wantErr)
		} else if err == nil && (results.WindowBytes != response.GetWindowBytes() || len(results.Results) != len(response.GetResults())) {
			t.Fatalf("results: %+v, want %v", results, response)
		}
	})
}

func sameBytes(got *[]byte, want []byte) bool {
	if got == nil {
		return len(want) == 0
	}
	return string(*got) == string(want)
}

func compareProduce(t *testing.T, got *Produce, want *moldauv1.ProduceRequest) {
	t.Helper()
	epoch := NoEpoch
	if want.LeaderEpoch != nil {
		epoch = want.GetLeaderEpoch()
	}
	if got.ClientSeq != want.GetClientSeq() || got.Topic != want.GetTopic() || got.Partition != want.GetPartition() || got.Acks != want.GetAcks() ||
		got.TimeoutMs != want.GetTimeoutMs() || got.LeaderEpoch != epoch || !sameBytes(got.Batch, want.GetBatch()) ||
		(!got.BadTopicID && text(got.TopicID) != want.GetTopicId()) {
		t.Fatalf("%+v, want %v", got, want)
	}
}
