package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// peakMemory is the largest resident size that a broker's process has had, in bytes; 0 where the system does not tell.
func (b *Broker) peakMemory(t testing.TB) int64 {
	t.Helper()
	b.mu.Lock()
	pid := b.cmd.Process.Pid
	b.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}

// maxPeak bounds a broker under abuse: the decompression bound of 256 MiB once, the heap's slack, and what a broker needs anyway.
const maxPeak = 900 << 20

// TestCase102_StrangersOnTheNativePort: bytes that are not this protocol, in every way that is easy to send, cost their own connection only (I12).
func TestCase102_StrangersOnTheNativePort(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, "--limits-max-request-bytes", "4MiB")
	c.Must("topic", "create", "numbers", "-p", "1")
	load := c.load(t)
	load.waitFor(100)
	b := c.Brokers[0]
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	var wg sync.WaitGroup // some are closed only when they have not said anything sensible for a while
	for name, bytes := range map[string]string{
		"garbage":              strings.Repeat("\xde\xad\xbe\xef", 4096),
		"zeros":                strings.Repeat("\x00", 4096),
		"http/1":               "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"kafka":                "\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test\x00\x04kgo\x00",
		"kafka, 2 GiB":         "\x7f\xff\xff\xff\x00\x00\x00\x07",
		"frame of 16 MiB":      preface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"headers that are not": preface + settings + "\x00\x00\x08\x01\x04\x00\x00\x00\x01" + "\xff\xff\xff\xff\xff\xff\xff\xff",
		"preface, cut off":     preface[:10] + "x",
	} {
		wg.Go(func() { closes(t, name, b.GRPC, bytes) })
	}
	t.Run("tls", func(t *testing.T) {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the handshake is expected to fail
		if conn, err := d.DialContext(patient(t), "tcp", b.GRPC); err == nil {
			conn.Close()
			t.Error("a plaintext port speaks TLS")
		}
	})
	t.Run("oversized message", func(t *testing.T) {
		svc := moldauv1.NewLogServiceClient(dial(t, b.GRPC))
		huge := &moldauv1.ProduceRecordsRequest{Topic: "numbers", Records: []*moldauv1.Record{{Value: make([]byte, 5<<20)}}}
		if _, err := svc.ProduceRecords(patient(t), huge); err == nil {
			t.Error("a message above the limit was accepted")
		}
	})
	wg.Wait()
	load.waitFor(500)
	load.finish()
	c.checkAcknowledged(load)
	if peak := b.peakMemory(t); peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
}

// closes sends bytes and waits for the broker to close the connection.
func closes(t *testing.T, name, addr, bytes string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, bytes) // the broker may close before it has read everything
	if n, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the broker keeps the connection; it sent %d bytes", name, n)
	}
}

// TestCase102_AFloodOnEveryPort: strangers who come again and again to any port, and are closed each time, write a few lines of each kind into the broker's log.
func TestCase102_AFloodOnEveryPort(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	b := c.Brokers[0]
	before := strings.Count(b.Log(), "\n")
	const each = 400
	for range each {
		for _, addr := range []string{b.GRPC, b.Peer, b.HTTP, b.Kafka} {
			closes(t, "a stranger at "+addr, addr, "\x16\x03\x01\x02\x00\x01"+strings.Repeat("\xde\xad\xbe\xef", 64)+"\r\n\r\n")
		}
	}
	if lines := strings.Count(b.Log(), "\n") - before; lines == 0 || lines > each/4 {
		t.Errorf("%d strangers at each port wrote %d lines", each, lines)
	}
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// goodBatch is a batch of one record.
func goodBatch(t testing.TB, codec record.Codec, value []byte) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{Codec: codec})
	b.Append(time.Now().UnixMilli(), nil, value, nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

// reseal corrects length and checksum after a change, so that only what was changed is wrong.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// bomb is a batch whose records decompress to more than the broker's bound.
func bomb(t testing.TB) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	zeros := make([]byte, 1<<20)
	for range 300 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	gzipCodec, err := record.ParseCodec("gzip")
	if err != nil {
		t.Fatal(err)
	}
	return reseal(append(goodBatch(t, gzipCodec, []byte("v"))[:record.HeaderSize:record.HeaderSize], packed.Bytes()...))
}

// TestI12_MalformedBatches: a batch that is damaged in any way is refused by its own answer; the stream that carried it and other clients go on, and nothing
// of it is in the log.
func TestI12_MalformedBatches(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Must("topic", "create", "numbers", "-p", "1")
	c.Must("topic", "create", "target", "-p", "1")
	load := c.load(t)
	load.waitFor(100)
	change := func(f func([]byte) []byte) []byte { return f(goodBatch(t, record.CodecNone, []byte("value"))) }
	bad := map[string][]byte{
		"empty":           {},
		"cut off":         change(func(b []byte) []byte { return b[:len(b)-3] }),
		"header only":     change(func(b []byte) []byte { return b[:40] }),
		"two batches":     change(func(b []byte) []byte { return append(b, b...) }),
		"bad crc":         change(func(b []byte) []byte { b[len(b)-2] ^= 1; return b }),
		"magic 1":         change(func(b []byte) []byte { b[16] = 1; return b }),
		"magic 9":         change(func(b []byte) []byte { b[16] = 9; return b }),
		"count too large": change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 1000); return reseal(b) }),
		"count negative":  change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 1<<31); return reseal(b) }),
		"length huge":     change(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31-1); return b }),
		"unknown codec":   change(func(b []byte) []byte { b[22] |= 7; return reseal(b) }),
		"not compressed":  change(func(b []byte) []byte { b[22] |= 1; return reseal(b) }),
		"bomb":            bomb(t),
	}
	stream, err := moldauv1.NewLogServiceClient(dial(t, c.Brokers[0].GRPC)).Produce(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, batch := range bad {
		if e := exchange(t, stream, batch); e == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %v: %s", name, e.GetCode(), e.GetMessage())
		}
	}
	if e := exchange(t, stream, goodBatch(t, record.CodecNone, []byte("good"))); e != nil {
		t.Errorf("a good batch after the bad ones: %v", e)
	}
	if got := c.values("target"); len(got) != 1 || got[0] != "good" {
		t.Errorf("the log holds %q", got)
	}
	load.waitFor(500)
	load.finish()
	c.checkAcknowledged(load)
	if peak := c.Brokers[0].peakMemory(t); peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	} else {
		t.Logf("the broker's largest size was %d MiB", peak>>20)
	}
}

// exchange sends a batch for topic target and waits for its answer.
func exchange(t *testing.T, stream grpc.BidiStreamingClient[moldauv1.ProduceRequest, moldauv1.ProduceResponse], batch []byte) *moldauv1.Error {
	t.Helper()
	if err := stream.Send(&moldauv1.ProduceRequest{ClientSeq: 1, Topic: "target", Batch: batch}); err != nil {
		t.Fatalf("the stream broke: %v", err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatalf("the stream broke: %v", err)
		}
		if results := resp.GetResults(); len(results) > 0 {
			return results[0].GetError()
		}
	}
}

// TestCase151_NeverReadsItsAnswers: a client that only sends is slowed down by flow control, at a bounded cost; others that produce to the same partition do
// not notice it.
func TestCase151_NeverReadsItsAnswers(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Must("topic", "create", "numbers", "-p", "1")
	load := c.load(t)
	load.waitFor(100)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	cc := dial(t, c.Brokers[0].GRPC, grpc.WithStaticStreamWindowSize(65_535), grpc.WithStaticConnWindowSize(65_535))
	stream, err := moldauv1.NewLogServiceClient(cc).Produce(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	ended := make(chan error, 1)
	batch := goodBatch(t, record.CodecNone, []byte("0"))
	go func() {
		for {
			if err := stream.Send(&moldauv1.ProduceRequest{ClientSeq: uint64(sent.Load()), Topic: "numbers", Batch: batch}); err != nil {
				ended <- err
				return
			}
			sent.Add(1)
		}
	}()
	Eventually(t, func() error {
		if n := sent.Load(); n < 5000 {
			return fmt.Errorf("%d batches sent", n)
		}
		return nil
	})
	load.waitFor(3000)
	// It is slowed down for good once its answers fill the windows and what the broker keeps of them. Others go on meanwhile, and after that.
	still := 0
	Eventually(t, func() error {
		before := sent.Load()
		load.waitFor(1000)
		if still++; sent.Load() != before || len(ended) > 0 {
			still = 0
		}
		if still < 20 {
			return fmt.Errorf("it still sends: %d batches", sent.Load())
		}
		return nil
	})
	load.waitFor(1000)
	load.finish()
	cancel()
	if err := <-ended; err == nil {
		t.Error("the stream ended without an error")
	}
	t.Logf("%d batches were sent; the broker's largest size was %d MiB", sent.Load(), c.Brokers[0].peakMemory(t)>>20)
	if peak := c.Brokers[0].peakMemory(t); peak > maxPeak {
		t.Errorf("the broker grew to %d MiB", peak>>20)
	}
}
