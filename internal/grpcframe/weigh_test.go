package grpcframe

import (
	"bytes"
	"math"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// requests are all messages that a service of the API takes.
func requests() (out []protoreflect.MessageDescriptor) {
	for _, file := range []protoreflect.FileDescriptor{moldauv1.File_moldau_v1_log_proto, moldauv1.File_moldau_v1_group_proto, moldauv1.File_moldau_v1_admin_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				out = append(out, methods.Get(k).Input())
			}
		}
	}
	return out
}

// repeats gives, for each field of a message and of those in it, the field again and again with as little as it may have, and with the numbers of a field that nobody knows.
func repeats(of protoreflect.MessageDescriptor, wrap func([]byte) []byte, yield func(protoreflect.FieldDescriptor, []byte)) {
	const times = 20000
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		var one, packed []byte
		switch {
		case f.Kind() == protoreflect.MessageKind:
			one = protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), nil)
			yieldIn := func(b []byte) []byte {
				return wrap(protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), b))
			}
			repeats(f.Message(), yieldIn, yield)
		case f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind:
			one = protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), []byte("x"))
		default:
			one = protowire.AppendVarint(protowire.AppendTag(nil, f.Number(), protowire.VarintType), 1)
			packed = protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), bytes.Repeat([]byte{1}, times))
		}
		yield(f, wrap(bytes.Repeat(one, times)))
		if packed != nil {
			yield(f, wrap(packed))
		}
	}
	yield(nil, wrap(bytes.Repeat([]byte{0xf8, 0x07, 0}, times)))
}

// TestWeigh_CoversWhatDecodingTakes: whatever a request repeats, decoding it keeps no more than was weighed, and what was weighed is no fantasy.
func TestWeigh_CoversWhatDecodingTakes(t *testing.T) {
	for _, of := range requests() {
		repeats(of, func(b []byte) []byte { return b }, func(f protoreflect.FieldDescriptor, body []byte) {
			weight, err := Weigh(mem.BufferSlice{mem.SliceBuffer(body)}, of, math.MaxInt)
			if err != nil {
				t.Fatal(err)
			}
			kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
			if err != nil {
				t.Fatal(err)
			}
			m := kind.New().Interface()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if err := proto.Unmarshal(body, m); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(m)
			if kept := int(after.HeapAlloc) - int(before.HeapAlloc); kept > weight+64<<10 {
				t.Errorf("%s, %v: %d bytes of request keep %d, and weigh %d", of.Name(), f, len(body), kept, weight)
			}
		})
	}
}

func TestWeigh_StopsAtItsBound(t *testing.T) {
	body := bytes.Repeat([]byte{0x0a, 0}, 5<<20)
	data := mem.BufferSlice{mem.SliceBuffer(body[:1<<20]), mem.SliceBuffer(body[1<<20:])}
	of := (&moldauv1.ListOffsetsRequest{}).ProtoReflect().Descriptor()
	const bound = 20 << 20
	if n, err := Weigh(data, of, bound); err != nil || n <= bound || n > bound+messageCost {
		t.Errorf("%d, %v", n, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = Weigh(data, of, math.MaxInt) }); allocs > 2 {
		t.Errorf("%v allocations", allocs)
	}
	for name, bad := range map[string]string{"cut off": "\x0a\x05x", "inner too long": "\x0a\x02\x0a\x05", "tag": "\x07"} {
		if _, err := Weigh(mem.BufferSlice{mem.SliceBuffer([]byte(bad))}, of, math.MaxInt); err == nil {
			t.Errorf("%s: weighed", name)
		}
	}
}

func BenchmarkWeigh(b *testing.B) {
	req := &moldauv1.ProduceRecordsRequest{}
	for range 1000 {
		req.Records = append(req.Records, &moldauv1.Record{Key: []byte("key"), Value: make([]byte, 100)})
	}
	body, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	data := mem.BufferSlice{mem.SliceBuffer(body)}
	of := req.ProtoReflect().Descriptor()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Weigh(data, of, math.MaxInt); err != nil {
			b.Fatal(err)
		}
	}
}
