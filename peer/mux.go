package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Control and forward streams carry frames, the same in both directions:
//
//	| u32 length of the rest | u8 kind | u64 correlation id | body |
//
// A request's body is | u32 milliseconds that the caller waits | u8 what | payload |, an answer's | u8 what | payload |, a failure's a refusal
// (control.go). A declined request is a failure that no handler has seen. Pings have no body. The caller chooses the correlation id, never twice on a connection.
type frameKind uint8

const (
	framePing    frameKind = 0
	frameRequest frameKind = 1
	frameAnswer  frameKind = 2
	frameFailure frameKind = 3
	frameDecline frameKind = 4
)

const (
	frameHead    = 4 + 1 + 8
	requestHead  = 4 + 1
	frameReadBuf = 16 << 10
)

// errFrameTooLarge reports a frame above its limit, in either direction.
var errFrameTooLarge = errors.New("peer: frame is larger than its limit")

// errFrameMangled reports a frame that cannot be decoded.
var errFrameMangled = errors.New("peer: frame makes no sense")

// framed is one end of a control or forward connection: whole frames in and out.
type framed struct {
	*link
	in  *bufio.Reader
	max int
}

func newFramed(conn net.Conn, cfg Config) *framed {
	ping := make([]byte, frameHead)
	binary.BigEndian.PutUint32(ping, frameHead-4)
	return &framed{
		link: newLink(conn, ping, cfg.timing),
		in:   bufio.NewReaderSize(&impatient{conn: conn, patience: cfg.timing.dead}, frameReadBuf),
		max:  cfg.MaxFrame,
	}
}

// send writes one frame whose body is head and payload. A frame goes out whole or the connection closes.
func (f *framed) send(kind frameKind, id uint64, head, payload []byte) error {
	size := frameHead + len(head) + len(payload)
	if size > f.max {
		return fmt.Errorf("%w: %d bytes", errFrameTooLarge, size)
	}
	front := make([]byte, 0, frameHead+len(head))
	front = binary.BigEndian.AppendUint32(front, uint32(size-4))
	front = append(front, uint8(kind))
	front = binary.BigEndian.AppendUint64(front, id)
	front = append(front, head...)
	return f.write(net.Buffers{front, payload})
}

// receive returns the next frame that is no ping. The body is the caller's own.
func (f *framed) receive() (kind frameKind, id uint64, body []byte, err error) {
	var head [frameHead]byte
	for {
		if _, err := io.ReadFull(f.in, head[:]); err != nil {
			return 0, 0, nil, fmt.Errorf("peer: read frame: %w", err)
		}
		size := int64(binary.BigEndian.Uint32(head[:])) + 4
		if size > int64(f.max) {
			return 0, 0, nil, fmt.Errorf("%w: %d bytes", errFrameTooLarge, size)
		}
		if size < frameHead {
			return 0, 0, nil, errFrameMangled
		}
		kind = frameKind(head[4])
		if kind == framePing && size == frameHead {
			continue
		}
		body, err = readGrowing(f.in, int(size)-frameHead)
		if err != nil {
			return 0, 0, nil, fmt.Errorf("peer: read frame: %w", err)
		}
		return kind, binary.BigEndian.Uint64(head[5:]), body, nil
	}
}

// readGrowing reads n bytes and allocates as they arrive, so that a length alone claims little memory.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	const step = 256 << 10
	b := make([]byte, min(n, step))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	for len(b) < n {
		more := min(n-len(b), len(b))
		b = append(b, make([]byte, more)...)
		if _, err := io.ReadFull(r, b[len(b)-more:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}
