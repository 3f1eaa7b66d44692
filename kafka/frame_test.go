package kafka

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBuffers_AreReusedByClass(t *testing.T) {
	var p buffers
	for _, n := range []int{1, 1023, 1024, 1025, 1 << 20} {
		b := p.get(n)
		if len(b) != 0 || cap(b) < n {
			t.Fatalf("get(%d) gives %d of %d", n, len(b), cap(b))
		}
		p.put(b[:n])
	}
	p.put(make([]byte, 3000)) // not one of ours: not kept
	if b := p.get(3000); cap(b) != 4096 {
		t.Errorf("get(3000) gives %d", cap(b))
	}
}

// FuzzRequest feeds the header and every body parser with what a hostile client may send: no panic, and no more memory than the input explains.
func FuzzRequest(f *testing.F) {
	for key := range table() {
		req := kmsg.RequestForKey(key)
		req.SetVersion(table()[key].max)
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:])
	}
	f.Add([]byte("\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, rest, err := parseHeader(in)
		if err != nil {
			return
		}
		a, ok := table()[h.key]
		if !ok || h.version < a.least() || h.version > a.max {
			return
		}
		req := kmsg.RequestForKey(h.key)
		req.SetVersion(h.version)
		if req.IsFlexible() {
			if rest, err = skipTags(rest); err != nil {
				return
			}
		}
		if req.ReadFrom(rest) == nil && !bytes.HasSuffix(in, rest) {
			t.Error("the body is not the end of the request")
		}
	})
}

// TestFrameReader_EndsWithItsConnection: a deadline that is set after the connection was ended must not keep its reader waiting.
func TestFrameReader_EndsWithItsConnection(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := frameReader{net: near, in: bufio.NewReader(near), max: 100, idle: time.Hour, step: time.Hour, ctx: ctx}
	if _, err := r.size(); !errors.Is(err, context.Canceled) {
		t.Errorf("size of a connection that has ended: %v", err)
	}
}
