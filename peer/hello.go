package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/moldau-log/moldau/cluster"
)

// The hello, sent by the end that dialled (docs/format/peer-protocol.md; pinned by TestHelloGolden):
//
//	| magic "MLDW" | u16 length of the rest | u16 min version | u16 max version | u8 stream type | cluster id (16) |
//	| i32 broker | directory id (16) | incarnation id (16) | i64 broker epoch | u8 length, expected server id |
//
// and its answer:
//
//	| magic "MLDW" | u16 length of the rest | u8 refusal, 0 = welcome | u16 version | cluster id (16) |
//	| i32 broker | directory id (16) | incarnation id (16) | u8 length, reason for people |
//
// Fields may be added at the end: what a reader does not know it skips.
const (
	magic       = "MLDW"
	helloPrefix = len(magic) + 2
	maxHello    = 512 // bytes after the prefix
	minVersion  = 1
	maxVersion  = 1
)

// streamType says what a connection carries after its hello. The numbers are on the wire.
type streamType uint8

const (
	streamRaft        streamType = 1
	streamControl     streamType = 2
	streamReplication streamType = 3
	streamForward     streamType = 4
)

// String gives the name that logs show.
func (t streamType) String() string {
	switch t {
	case streamRaft:
		return "raft"
	case streamControl:
		return "control"
	case streamReplication:
		return "replication"
	case streamForward:
		return "forward"
	}
	return fmt.Sprintf("stream %d", uint8(t))
}

// hello is what the dialling end says first.
type hello struct {
	Min, Max uint16
	Stream   streamType
	From     Identity
	Epoch    cluster.BrokerEpoch // NoBrokerEpoch except on replication streams
	Expected string              // server id that the dialler wants to reach, empty on probe and join
}

func (h hello) encode() []byte {
	var w writer
	w.b = append(w.b, magic...)
	w.u16(0)
	w.u16(h.Min)
	w.u16(h.Max)
	w.u8(uint8(h.Stream))
	w.uuid(h.From.Cluster)
	w.i32(int32(h.From.Broker))
	w.uuid(h.From.Directory)
	w.uuid(h.From.Incarnation)
	w.i64(int64(h.Epoch))
	w.short(h.Expected)
	return seal(w.b)
}

func decodeHello(b []byte) (hello, error) {
	r := reader{b: b}
	h := hello{Min: r.u16(), Max: r.u16(), Stream: streamType(r.u8())}
	h.From.Cluster = r.uuid()
	h.From.Broker = cluster.BrokerID(r.i32())
	h.From.Directory = r.uuid()
	h.From.Incarnation = r.uuid()
	h.Epoch = cluster.BrokerEpoch(r.i64())
	h.Expected = r.short()
	if r.err != nil {
		return hello{}, fmt.Errorf("peer: hello: %w", r.err)
	}
	return h, nil
}

// welcome is the answer to a hello.
type welcome struct {
	Refusal Refusal
	Version uint16
	From    Identity
	Reason  string
}

func (a welcome) encode() []byte {
	var w writer
	w.b = append(w.b, magic...)
	w.u16(0)
	w.u8(uint8(a.Refusal))
	w.u16(a.Version)
	w.uuid(a.From.Cluster)
	w.i32(int32(a.From.Broker))
	w.uuid(a.From.Directory)
	w.uuid(a.From.Incarnation)
	w.short(a.Reason)
	return seal(w.b)
}

func decodeWelcome(b []byte) (welcome, error) {
	r := reader{b: b}
	a := welcome{Refusal: Refusal(r.u8()), Version: r.u16()}
	a.From.Cluster = r.uuid()
	a.From.Broker = cluster.BrokerID(r.i32())
	a.From.Directory = r.uuid()
	a.From.Incarnation = r.uuid()
	a.Reason = r.short()
	if r.err != nil {
		return welcome{}, fmt.Errorf("peer: answer to hello: %w", r.err)
	}
	return a, nil
}

// seal writes the length of the rest behind the magic.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint16(b[len(magic):], uint16(len(b)-helloPrefix))
	return b
}

// notHelloError holds the first bytes of a connection that does not speak this protocol.
type notHelloError struct{ first []byte }

func (e *notHelloError) Error() string { return "peer: " + classify(e.first) }

// errHelloLength reports a hello longer than maxHello.
var errHelloLength = errors.New("peer: hello is longer than its limit")

// readHello reads one hello or answer, and not a byte more: what follows belongs to the stream. scratch has helloPrefix+maxHello bytes.
func readHello(r io.Reader, scratch []byte) ([]byte, error) {
	n, err := io.ReadFull(r, scratch[:helloPrefix])
	if err != nil {
		if n > 0 && string(scratch[:min(n, len(magic))]) != magic[:min(n, len(magic))] {
			return nil, &notHelloError{first: scratch[:n]}
		}
		return nil, fmt.Errorf("peer: read hello: %w", err)
	}
	if string(scratch[:len(magic)]) != magic {
		return nil, &notHelloError{first: scratch[:helloPrefix]}
	}
	length := int(binary.BigEndian.Uint16(scratch[len(magic):]))
	if length > maxHello {
		return nil, errHelloLength
	}
	body := scratch[helloPrefix : helloPrefix+length]
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("peer: read hello: %w", err)
	}
	return body, nil
}

// classify guesses from the first bytes what a stranger speaks, so that the log line helps.
func classify(first []byte) string {
	switch {
	case len(first) >= 2 && first[0] == 0x16 && first[1] == 0x03:
		return "a TLS client hello on a plaintext peer port"
	case isHTTP(first):
		return "an HTTP request on the peer port"
	case len(first) >= 4 && first[0] == 0 && first[1] == 0:
		return "what looks like a Kafka request on the peer port"
	}
	return "not a hello of another broker"
}

func isHTTP(first []byte) bool {
	for _, verb := range []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "PRI "} {
		if len(first) >= 4 && string(first[:4]) == verb {
			return true
		}
	}
	return false
}
