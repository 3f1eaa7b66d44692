package kafka

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// benchPartitions is how many partitions have records in one answer.
const benchPartitions = 8

// BenchmarkFetchAnswer encodes and sends answers with ranges of one size, all copied or all by sendfile, over loopback to a reader that drops them. cpu-s/GB is the
// time of the sending thread: what copiedRange is chosen by.
func BenchmarkFetchAnswer(b *testing.B) {
	for _, kib := range []int{1, 4, 8, 16, 24, 32, 48, 64, 128, 256} {
		for _, way := range []struct {
			name    string
			copyMax int
		}{{"copy", math.MaxInt}, {"sendfile", 0}} {
			b.Run(fmt.Sprintf("%s/%dKiB", way.name, kib), func(b *testing.B) { benchFetch(b, kib<<10, way.copyMax) })
		}
	}
}

func benchFetch(b *testing.B, size, copyMax int) {
	c, parts := benchAnswer(b, size)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 13
	topic := kmsg.NewFetchResponseTopic()
	topic.Partitions = make([]kmsg.FetchResponseTopicPartition, len(parts))
	resp.Topics = append(resp.Topics, topic)
	out := bufio.NewWriterSize(c.net, writeBuffer)
	runtime.LockOSThread() // so that its time can be told from the reader's
	defer runtime.UnlockOSThread()
	b.SetBytes(int64(size * len(parts)))
	var buf []byte
	start := threadTime()
	for b.Loop() {
		s := &slot{}
		var err error
		if s.encoded, s.cuts, err = fetchFrame(buf[:0], 1, resp, parts, copyMax); err != nil {
			b.Fatal(err)
		}
		buf = s.encoded
		if err := c.sendFetch(out, s, nil); err != nil {
			b.Fatal(err)
		}
		if err := out.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((threadTime()-start).Seconds()/(float64(b.N)*float64(size*len(parts))/1e9), "cpu-s/GB")
}

// benchAnswer is a connection to a reader, and ranges of about one size in a file that is in the page cache.
func benchAnswer(b *testing.B, size int) (*conn, []*broker.FetchedPartition) {
	l, _, err := segment.Open(vfs.OS{}, b.TempDir()+"/p", segment.Identity{Topic: "t"}, segment.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	var parts []*broker.FetchedPartition
	for i := range benchPartitions {
		raw := batchOf(b, string(make([]byte, size-80)))
		raw[7], raw[15] = byte(i), 1
		if _, err := l.Append(1, raw); err != nil {
			b.Fatal(err)
		}
		v := l.View()
		slice, err := v.Read(v.End()-1, 1, v.End())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(slice.Release)
		parts = append(parts, &broker.FetchedPartition{Slice: &slice})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if in, err := listener.Accept(); err == nil {
			buf := make([]byte, 1<<20)
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, buf) // until the other end closes
			in.Close()
		}
	}()
	to, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { to.Close() })
	return &conn{net: to, s: &Server{cfg: DefaultConfig(), broker: newFakeBroker()}}, parts
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
