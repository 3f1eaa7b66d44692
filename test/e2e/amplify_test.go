package e2e

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// wire is a codec for messages that no generated code would make.
type wire struct{ encoding.CodecV2 }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (wire) Unmarshal(mem.BufferSlice, any) error { return nil }
func (wire) Name() string                         { return "proto" }

// TestCase108_RequestsOfEmptyMessages: requests of millions of empty messages, on several connections and in several calls, are refused, and cost what they have as bytes for a while.
func TestCase108_RequestsOfEmptyMessages(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	b := c.Brokers[0]
	c.Must("topic", "create", "numbers", "-p", "1")
	load := c.load(t)
	load.waitFor(100)
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	var wg sync.WaitGroup
	for method, field := range map[string]byte{
		moldauv1.LogService_ListOffsets_FullMethodName:    1,
		moldauv1.LogService_ProduceRecords_FullMethodName: 6,
		moldauv1.GroupService_FetchOffsets_FullMethodName: 2,
		moldauv1.AdminService_ElectLeaders_FullMethodName: 1,
	} {
		for _, size := range []int{4 << 20, 20 << 20} {
			wg.Go(func() {
				body := bytes.Repeat([]byte{field<<3 | 2, 0}, size/2)
				var answer []byte
				err := dial(t, b.GRPC).Invoke(ctx, method, &body, &answer, grpc.ForceCodecV2(wire{}))
				if status.Code(err) != codes.ResourceExhausted {
					t.Errorf("%s with %d bytes: %v", method, size, err)
				}
			})
		}
	}
	wg.Wait()
	load.waitFor(500)
	load.finish()
	c.checkAcknowledged(load)
	const bound = 400 << 20
	if peak := b.peakMemory(t); peak > bound {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
}
