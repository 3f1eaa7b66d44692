package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"sync"
	"time"

	"github.com/moldau-log/moldau/internal/budget"
)

// Memory for a request is taken as its bytes come: a client that announces much and sends little holds little, of its own and of what all share.
const (
	frameGrowth = 8       // the room for a request begins with what a connection buffers, and grows by this factor
	frameChunk  = 1 << 20 // bytes that come within one timeout
)

// errGarbage says that the bytes are not Kafka's protocol; the text is for the operator.
type errGarbage struct{ what string }

// Error says what came instead.
func (e errGarbage) Error() string { return e.what }

// readSide is the side of a connection on which requests come. Its reader sets deadlines, and others end it: once it has ended, no deadline follows, so that no read waits.
type readSide struct {
	net net.Conn

	mu    sync.Mutex // guards ended, and is held while a deadline is set
	ended bool
}

var errEnded = errors.New("kafka: the connection takes no more requests")

// patience bounds the next read, unless reading has ended.
func (r *readSide) patience(d time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return errEnded
	}
	return r.net.SetReadDeadline(time.Now().Add(d))
}

// end lets the read under way return, and no other begin.
func (r *readSide) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	_ = r.net.SetReadDeadline(time.Unix(1, 0))
}

// frameReader cuts requests off a connection.
type frameReader struct {
	net     *readSide
	in      *bufio.Reader
	max     int
	idle    time.Duration
	step    time.Duration
	buffers *buffers
	ctx     context.Context
	held    *budget.Budget   // of all connections
	alone   func(n int) bool // says whether the connection holds no request but one of n bytes
}

// size waits for the next request and returns its length in bytes. io.EOF says that the client has closed, and a timeout that it was idle.
func (r *frameReader) size() (int, error) {
	if err := r.net.patience(r.idle); err != nil {
		return 0, err
	}
	if _, err := r.in.Peek(1); err != nil {
		return 0, err
	}
	// The idle time is over: who has begun goes on.
	if err := r.net.patience(r.step); err != nil {
		return 0, err
	}
	head, err := r.in.Peek(4)
	if err != nil {
		return 0, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < minFrame || n > r.max {
		return 0, errGarbage{r.garbage(head, n)}
	}
	_, _ = r.in.Discard(4) // just peeked
	return n, nil
}

// key is the API of the request whose size was read.
func (r *frameReader) key() (int16, error) {
	head, err := r.in.Peek(2)
	if err != nil {
		return 0, fmt.Errorf("kafka: read the key of a request: %w", err)
	}
	return int16(binary.BigEndian.Uint16(head)), nil
}

// minFrame is the smallest request header: key, version, correlation id and a null client id.
const minFrame = 2 + 2 + 4 + 2

// garbage names the foreign protocol by its first bytes.
func (r *frameReader) garbage(head []byte, n int) string {
	switch {
	case head[0] == 0x16 && head[1] == 0x03:
		return "a TLS handshake on a plaintext port: switch TLS off in the client"
	case string(head) == "PRI ":
		return "HTTP/2 (perhaps gRPC) on the Kafka port: native clients use --grpc-addr"
	case head[0] >= 'A' && head[0] <= 'Z' && head[1] >= 'A' && head[1] <= 'Z':
		return "HTTP on the Kafka port: metrics and health are at --http-addr"
	case n > 0 && n < minFrame:
		return fmt.Sprintf("a request of %d bytes, too short for the header of one (or not a Kafka client)", n)
	case n > 0 && n <= 1<<30:
		return fmt.Sprintf("a request of %d bytes, above limits.max-request-bytes=%d (or not a Kafka client)", n, r.max)
	}
	return fmt.Sprintf("bytes that are no Kafka request: % x", head)
}

// errGaveWay says that a request came too slowly while others found no room.
type errGaveWay struct{ n int }

// Error says how large the request was to be.
func (e errGaveWay) Error() string {
	return fmt.Sprintf("a request of %d bytes has come slowly, while others waited for room in limits.max-in-flight-bytes", e.n)
}

// body reads n bytes, which are held then. Memory grows with what has come. The buffer is from the pool.
func (r *frameReader) body(n int) ([]byte, error) {
	room := min(n, r.in.Size())
	if err := r.net.patience(r.step); err != nil {
		return nil, err
	}
	if _, err := r.in.Peek(room); err != nil { // until then it costs no more than the connection's own buffer
		return nil, fmt.Errorf("kafka: read the start of a request of %d bytes: %w", n, err)
	}
	if room == n && r.alone(n) {
		r.held.Force(room) // no more than a second buffer for each connection: whatever others hold, a small request gets through
	} else if err := r.held.Take(r.ctx, room); err != nil {
		return nil, err
	}
	buf := r.buffers.get(room)
	more := r.held.Growth()
	defer more.Settle()
	var slow *budget.Holder
	if room < n {
		slow = r.held.Holder(r.net.end)
	}
	err := r.fill(&buf, room, slow)
	for err == nil && room < n {
		next := min(n, frameGrowth*room)
		if err = more.Take(r.ctx, next-room); err != nil {
			break
		}
		room = next
		if cap(buf) < room {
			grown := append(r.buffers.get(room), buf...)
			r.buffers.put(buf)
			buf = grown
		}
		slow.Waits(room, n-len(buf))
		err = r.fill(&buf, room, slow)
		if !slow.Goes() && err != nil { // one that is whole by now is as good as any
			err = errGaveWay{n}
		}
	}
	if err != nil {
		r.buffers.put(buf)
		r.held.Give(room)
		return nil, fmt.Errorf("kafka: read a request of %d bytes: %w", n, err)
	}
	return buf, nil
}

// fill reads until buf has n bytes, and tells slow what has moved.
func (r *frameReader) fill(buf *[]byte, n int, slow *budget.Holder) error {
	for len(*buf) < n {
		if err := r.net.patience(r.step); err != nil {
			return err
		}
		for chunk := min(n, len(*buf)+frameChunk); len(*buf) < chunk; {
			have := len(*buf)
			got, err := r.in.Read((*buf)[have:chunk])
			*buf = (*buf)[:have+got]
			slow.Moved(got)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// header is the start of a request.
type header struct {
	key, version int16
	correlation  int32
	clientID     string
}

var errShortHeader = errors.New("kafka: the request header is cut off")

// parseHeader reads the header up to the client id, which is in the old string form in every version, and returns the rest.
func parseHeader(b []byte) (h header, rest []byte, err error) {
	if len(b) < minFrame {
		return h, nil, errShortHeader
	}
	h.key = int16(binary.BigEndian.Uint16(b))
	h.version = int16(binary.BigEndian.Uint16(b[2:]))
	h.correlation = int32(binary.BigEndian.Uint32(b[4:]))
	n := int(int16(binary.BigEndian.Uint16(b[8:])))
	b = b[minFrame:]
	if n > len(b) || n < -1 {
		return h, nil, errShortHeader
	}
	if n > 0 {
		h.clientID = string(b[:n])
		b = b[n:]
	}
	return h, b, nil
}

// skipTags passes over the tagged fields of a flexible header.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errShortHeader
	}
	b = b[n:]
	for ; count > 0; count-- {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errShortHeader
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errShortHeader
		}
		b = b[n+int(size):]
	}
	return b, nil
}

// buffers keeps byte slices for the next request, by power of two.
type buffers struct {
	pools [32]sync.Pool
}

// smallestBuffer is the capacity of the smallest pooled slice.
const smallestBuffer = 1 << 10

// get returns an empty slice with at least n bytes of capacity.
func (p *buffers) get(n int) []byte {
	class := bits.Len(uint(max(n, smallestBuffer) - 1))
	if class >= len(p.pools) {
		return make([]byte, 0, n)
	}
	if b, ok := p.pools[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// put takes a slice back that get has given, and that nobody uses any more.
func (p *buffers) put(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if cap(b) < smallestBuffer || class >= len(p.pools) || cap(b) != 1<<class {
		return
	}
	p.pools[class].Put(&b)
}
