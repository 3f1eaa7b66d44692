package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// InitProducerId gives the only producer of a test its id.
func (f *fakeBroker) InitProducerId(context.Context, *moldauv1.InitProducerIdRequest) (*moldauv1.InitProducerIdResponse, error) { //nolint:revive // the generated name
	return &moldauv1.InitProducerIdResponse{ProducerId: 1}, nil
}

// Produce answers every batch with f.answer.
func (f *fakeBroker) Produce(stream grpc.BidiStreamingServer[moldauv1.ProduceRequest, moldauv1.ProduceResponse]) error {
	if err := stream.Send(&moldauv1.ProduceResponse{WindowBytes: 1 << 20}); err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		e := &moldauv1.Error{Code: f.answer, Message: "as the test says", Retriable: true}
		if err := stream.Send(&moldauv1.ProduceResponse{Results: []*moldauv1.ProduceResult{{ClientSeq: req.GetClientSeq(), BaseOffset: -1, Error: e}}}); err != nil {
			return err
		}
	}
}

// TestProduce_TellsFailedFromUnknown: records that may be in the log are not called failed, and whoever sends them again is warned.
func TestProduce_TellsFailedFromUnknown(t *testing.T) {
	f := &fakeBroker{topics: []*moldauv1.TopicDescription{{Topic: "t", TopicId: "AAAAAAAAAAAAAAAAAAAAAQ", Partitions: []*moldauv1.PartitionDescription{{Leader: 0}}}}}
	server := f.start(t)
	f.cluster = &moldauv1.DescribeClusterResponse{Brokers: []*moldauv1.BrokerDescription{{Broker: 0, Endpoint: server}}}
	for _, c := range []struct {
		answer          moldauv1.ErrorCode
		failed, unknown int64
		says, saysNot   []string
	}{
		{moldauv1.ErrorCode_ERROR_CODE_TIMED_OUT, 0, 2, []string{"0 failed, 2 of unknown outcome", "2 of 2 records may or may not be in the log", "TIMED_OUT", "moldau consume t", "twice"}, []string{"2 failed", "records failed"}},
		{moldauv1.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS, 2, 0, []string{"2 failed", "2 of 2 records failed", "NOT_ENOUGH_REPLICAS", "--unhealthy"}, []string{"unknown", "may be in the log"}},
	} {
		f.answer = c.answer
		got := cli(t, server, "a\nb\n", "produce", "t", "--timeout", "300ms", "-o", "json")
		var sum producedSummary
		if err := json.Unmarshal([]byte(got.out), &sum); err != nil {
			t.Fatalf("%v in %q: %s", err, got.out, got.err)
		}
		if got.code != exitFailure || sum.Acknowledged != 0 || sum.Failed != c.failed || sum.Unknown != c.unknown {
			t.Errorf("%v: exit %d, %+v, want %d failed and %d unknown", c.answer, got.code, sum, c.failed, c.unknown)
		}
		for _, want := range c.says {
			if !strings.Contains(got.err, want) {
				t.Errorf("%v: %q does not say %q", c.answer, got.err, want)
			}
		}
		for _, not := range c.saysNot {
			if strings.Contains(got.err, not) {
				t.Errorf("%v: %q says %q", c.answer, got.err, not)
			}
		}
	}
}

// TestProduce_TriesForAsLongAsHelpSays: what --timeout says counts also where nobody has given it.
func TestProduce_TriesForAsLongAsHelpSays(t *testing.T) {
	f := &fakeBroker{topics: []*moldauv1.TopicDescription{{Topic: "t", TopicId: "AAAAAAAAAAAAAAAAAAAAAQ", Partitions: []*moldauv1.PartitionDescription{{Leader: 0}}}}}
	server := f.start(t)
	f.cluster = &moldauv1.DescribeClusterResponse{Brokers: []*moldauv1.BrokerDescription{{Broker: 0, Endpoint: server}}}
	f.answer = moldauv1.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader("a\n"), out: &out, err: &errs, servers: []string{server}}
	a.addGlobalFlags(pflag.NewFlagSet("test", pflag.ContinueOnError)) // of which none is given
	if a.timeout != defaultTimeout {
		t.Fatalf("the default is %s", a.timeout)
	}
	a.servers, a.timeout = []string{server}, 200*time.Millisecond
	done := make(chan error, 1)
	go func() {
		done <- a.produce(t.Context(), "t", produceFlags{acks: "isr", codec: "none", maxRecord: maxRecordBytes, partition: anyPartition})
	}()
	select {
	case err := <-done:
		if exitCode(err) != exitFailure {
			t.Errorf("produce: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it still tries")
	}
}
