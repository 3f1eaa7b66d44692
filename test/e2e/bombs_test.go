package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// TestCase104_ManyBombsAtOnce: on both doors, at once, many connections send batches of a few kilobytes that hold 120 MiB, and batches that only claim as much; then
// the stored ones are searched by timestamp, from as many. The broker decompresses a few at a time, everybody gets an answer, and a client that means well goes on.
func TestCase104_ManyBombsAtOnce(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	b := c.Brokers[0]
	c.Must("topic", "create", "target", "-p", "1")
	c.Must("topic", "create", "numbers", "-p", "1")
	load := c.load(t)
	load.waitFor(100)
	now := time.Now().UnixMilli()
	builder := record.NewBuilder(record.BuilderOptions{Codec: record.CodecZstd})
	builder.Append(now, nil, make([]byte, 120<<20), nil)
	whole, err := builder.Build()
	if err != nil || whole.Size() > 1<<20 {
		t.Fatalf("%d bytes, %v", whole.Size(), err)
	}
	claim := reseal(append(bytes.Clone(whole.Bytes()[:record.HeaderSize]), 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xc0, 0x53, 0xf9, 0x0f, 1, 0, 0)) // 268,000,000
	const each = 6
	var wg sync.WaitGroup
	for range each {
		wg.Go(func() { produceRaw(t, b, whole.Bytes(), 0) })
		wg.Go(func() { produceRaw(t, b, claim, kerr.InvalidRecord.Code) })
		for batch, code := range map[string]moldauv1.ErrorCode{string(whole.Bytes()): 0, string(claim): moldauv1.ErrorCode_ERROR_CODE_INVALID_RECORD} {
			stream, err := moldauv1.NewLogServiceClient(dial(t, b.GRPC)).Produce(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if e := exchange(t, stream, []byte(batch)); e.GetCode() != code {
					t.Errorf("gRPC: %v, want %v", e, code)
				}
			})
		}
	}
	wg.Wait()
	for range each {
		wg.Go(func() { searchRaw(t, b, now) })
		wg.Go(func() {
			search := &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{{Topic: "target", Spec: moldauv1.OffsetSpec_OFFSET_SPEC_TIMESTAMP, TimestampMs: now}}}
			resp, err := moldauv1.NewLogServiceClient(dial(t, b.GRPC)).ListOffsets(patient(t), search)
			if err != nil || resp.GetOffsets()[0].GetError() != nil || resp.GetOffsets()[0].GetOffset() != 0 {
				t.Errorf("gRPC: %v, %v", resp, err)
			}
		})
		wg.Go(func() {
			fetch := &moldauv1.FetchRecordsRequest{Topic: "target", Start: &moldauv1.FetchRecordsRequest_Offset{}}
			if resp, err := moldauv1.NewLogServiceClient(dial(t, b.GRPC)).FetchRecords(patient(t), fetch); err == nil {
				t.Errorf("a record of 120 MiB came in a plain answer of %d", len(resp.GetRecords()))
			}
		})
	}
	wg.Wait()
	load.waitFor(500)
	load.finish()
	c.checkAcknowledged(load)
	if peak := b.peakMemory(t); peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
}

// produceRaw sends a batch to partition 0 of topic target, on a connection of its own, and checks the answer's code.
func produceRaw(t *testing.T, b *Broker, batch []byte, want int16) {
	req := &kmsg.ProduceRequest{Version: 7, Acks: -1, TimeoutMillis: int32(Patience.Milliseconds())}
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "target", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	resp := &kmsg.ProduceResponse{Version: req.Version}
	if err := askOnce(b, req, resp); err != nil || resp.Topics[0].Partitions[0].ErrorCode != want {
		t.Errorf("Produce: %+v, %v, want error %d", resp.Topics, err, want)
	}
}

// searchRaw asks for the first record of partition 0 of topic target since a time, on a connection of its own.
func searchRaw(t *testing.T, b *Broker, since int64) {
	req := &kmsg.ListOffsetsRequest{Version: 5, ReplicaID: -1}
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "target", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: since}}}}
	resp := &kmsg.ListOffsetsResponse{Version: req.Version}
	if err := askOnce(b, req, resp); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 || resp.Topics[0].Partitions[0].Offset != 0 {
		t.Errorf("ListOffsets: %+v, %v", resp.Topics, err)
	}
}

// askOnce opens a connection for one request. It may be called from any goroutine.
func askOnce(b *Broker, req kmsg.Request, resp kmsg.Response) error {
	conn, err := net.DialTimeout("tcp", b.Kafka, Patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * Patience)); err != nil {
		return err
	}
	if _, err := conn.Write(kafkaFrame(req)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if len(answer) < 4 {
		return errors.New("an answer without a correlation id")
	}
	return resp.ReadFrom(answer[4:])
}
