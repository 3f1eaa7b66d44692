package partition

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// benchBatch is a batch of n records of size bytes each, to be copied for each request because the leader stamps in place.
func benchBatch(b *testing.B, n, size int) []byte {
	values := make([]string, n)
	return sent{values: values, padding: size}.bytes(b)
}

// BenchmarkProduce measures from Produce to the answer with acks=isr: one partition, one replica, a file system in memory.
func BenchmarkProduce(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("inflight=%d/batch=1KiB", clients), func(b *testing.B) {
			k := newKit(b, vfs.NewMem())
			r := k.topic(1, 1, cluster.ConfigEntry{Key: "retention.bytes", Value: "1000000"}, cluster.ConfigEntry{Key: "segment.bytes", Value: "16777216"})
			template := benchBatch(b, 10, 100)
			b.SetBytes(int64(len(template)))
			b.ReportAllocs()
			stop := make(chan struct{})
			go trim(r, stop)
			var group sync.WaitGroup
			each := b.N/clients + 1
			b.ResetTimer()
			for range clients {
				group.Go(func() { produceInTurn(b, k, r, template, each) })
			}
			group.Wait()
			b.StopTimer()
			close(stop)
		})
	}
}

// trim keeps the file system in memory small.
func trim(r *Runner, stop chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			r.put(message{kind: kindMaintain}, 0)
		}
	}
}

func produceInTurn(b *testing.B, k *kit, r *Runner, template []byte, n int) {
	batch := make([]byte, len(template))
	wake := make(chan struct{}, 1)
	var done Completion
	for range n {
		copy(batch, template)
		done.Reset(wake)
		r.Produce(ProduceRequest{LeaderEpoch: record.NoEpoch, Batch: batch, Deadline: k.clock.Now() + time.Hour}, &done)
		for !done.Done() {
			<-wake
		}
		if res := done.Result(); res.Code != cluster.CodeNone {
			b.Errorf("%s: %s", res.Code, res.Message)
			return
		}
	}
}

// BenchmarkRead measures a read of up to 64 KiB below the watermark.
func BenchmarkRead(b *testing.B) {
	k := newKit(b, vfs.NewMem())
	r := k.topic(1, 1)
	for range 1000 {
		k.produce(benchBatch(b, 10, 100), AcksISR)
	}
	b.ReportAllocs()
	at := record.Offset(0)
	for b.Loop() {
		res := r.Read(ReadRequest{Offset: at, MaxBytes: 64 << 10, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
		if res.Code != cluster.CodeNone || res.Slice.Len() == 0 {
			b.Fatalf("read at %d: %s, %d bytes", at, res.Code, res.Slice.Len())
		}
		res.Slice.Release()
		at = (at + 500) % 9000
	}
}
