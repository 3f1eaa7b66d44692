package kafka

import (
	"bytes"
	"testing"

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
		w := walk{rest: rest, flexible: req.IsFlexible()}
		w.pass(h.key, h.version)
		err = req.ReadFrom(rest)
		if err == nil && (w.short || payload(h.key) && len(w.rest) > 0) {
			t.Errorf("the walk of what can be decoded leaves %d bytes, cut off: %v", len(w.rest), w.short)
		}
		if err == nil && !bytes.HasSuffix(in, rest) {
			t.Error("the body is not the end of the request")
		}
	})
}
