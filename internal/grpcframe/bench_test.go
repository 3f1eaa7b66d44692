package grpcframe

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

const benchBatch = 53800 // 500 records of 100 bytes

// BenchmarkProduceReceive is one batch from gRPC's pieces into memory that the broker may change.
func BenchmarkProduceReceive(b *testing.B) {
	wire, err := proto.Marshal(&moldauv1.ProduceRequest{ClientSeq: 1, TopicId: text(id(1)), LeaderEpoch: int32p(3), Batch: make([]byte, benchBatch)})
	if err != nil {
		b.Fatal(err)
	}
	data := pieces(wire, 16<<10)
	b.Run("frame", func(b *testing.B) {
		b.SetBytes(benchBatch)
		b.ReportAllocs()
		pool := new(Pool)
		var f Produce
		for b.Loop() {
			if err := f.unmarshal(data, pool); err != nil {
				b.Fatal(err)
			}
			pool.Put(f.Batch)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.SetBytes(benchBatch)
		b.ReportAllocs()
		codec := NewCodec(new(Pool))
		for b.Loop() {
			if err := codec.Unmarshal(data, new(moldauv1.ProduceRequest)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkProduceSend is one batch on its way to the transport.
func BenchmarkProduceSend(b *testing.B) {
	batch := mem.SliceBuffer(make([]byte, benchBatch))
	codec := NewCodec(new(Pool))
	b.Run("frame", func(b *testing.B) {
		b.SetBytes(benchBatch)
		b.ReportAllocs()
		f := &Produce{ClientSeq: 1, TopicID: id(1), LeaderEpoch: 3, Shared: batch}
		for b.Loop() {
			out, _ := codec.Marshal(f)
			out.Free()
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.SetBytes(benchBatch)
		b.ReportAllocs()
		m := &moldauv1.ProduceRequest{ClientSeq: 1, TopicId: text(id(1)), LeaderEpoch: int32p(3), Batch: batch}
		for b.Loop() {
			out, _ := codec.Marshal(m)
			out.Free()
		}
	})
}
