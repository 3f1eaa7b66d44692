package grpcframe

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed is a message that is no protobuf message.
var errMalformed = errors.New("grpcframe: malformed message")

// reader parses a message that lies in several buffers.
type reader struct {
	bufs mem.BufferSlice
	cur  []byte // unread part of the buffer before bufs
	left int    // unread bytes in all
}

func newReader(data mem.BufferSlice) reader { return reader{bufs: data, left: data.Len()} }

// fill makes cur non-empty while there is anything left.
func (r *reader) fill() {
	for len(r.cur) == 0 && len(r.bufs) > 0 {
		r.cur = r.bufs[0].ReadOnlyData()
		r.bufs = r.bufs[1:]
	}
}

// take moves n bytes on within cur.
func (r *reader) take(n int) {
	r.cur = r.cur[n:]
	r.left -= n
}

// varint reads one varint.
func (r *reader) varint() (uint64, error) {
	r.fill()
	if v, n := protowire.ConsumeVarint(r.cur); n > 0 {
		r.take(n)
		return v, nil
	}
	var tmp [10]byte // the varint may lie across buffers
	for n := 0; n < len(tmp); n++ {
		r.fill()
		if len(r.cur) == 0 {
			return 0, fmt.Errorf("%w: cut off in a varint", errMalformed)
		}
		tmp[n] = r.cur[0]
		r.take(1)
		if tmp[n] < 0x80 {
			v, used := protowire.ConsumeVarint(tmp[:n+1])
			if used < 0 {
				return 0, fmt.Errorf("%w: varint", errMalformed)
			}
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: varint above 10 bytes", errMalformed)
}

// tag reads a field's number and wire type.
func (r *reader) tag() (protowire.Number, protowire.Type, error) {
	v, err := r.varint()
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber || v>>3 > uint64(protowire.MaxValidNumber) {
		return 0, 0, fmt.Errorf("%w: field number %d", errMalformed, v>>3)
	}
	return num, typ, nil
}

// length reads the length of a length-delimited field and checks that it is there.
func (r *reader) length() (int, error) {
	v, err := r.varint()
	if err != nil {
		return 0, err
	}
	if v > uint64(r.left) {
		return 0, fmt.Errorf("%w: field of %d bytes with %d left", errMalformed, v, r.left)
	}
	return int(v), nil
}

// copyTo reads exactly len(dst) bytes, which the caller knows to be left.
func (r *reader) copyTo(dst []byte) {
	for len(dst) > 0 {
		r.fill()
		n := copy(dst, r.cur)
		dst = dst[n:]
		r.take(n)
	}
}

// discard skips n bytes, which the caller knows to be left.
func (r *reader) discard(n int) {
	for n > 0 {
		r.fill()
		m := min(n, len(r.cur))
		n -= m
		r.take(m)
	}
}

// bytes reads a length-delimited field into fresh memory.
func (r *reader) bytes() ([]byte, error) {
	n, err := r.length()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	r.copyTo(b)
	return b, nil
}

// text reads a string field.
func (r *reader) text() (string, error) {
	n, err := r.length()
	if err != nil {
		return "", err
	}
	var small [128]byte
	b := small[:]
	if n > len(b) {
		b = make([]byte, n)
	}
	b = b[:n]
	r.copyTo(b)
	if !utf8.Valid(b) {
		return "", fmt.Errorf("%w: string is not UTF-8", errMalformed)
	}
	return string(b), nil
}

// maxGroupDepth bounds the nesting of unknown groups, as the generated code does.
const maxGroupDepth = 10000

// skip passes over a field of any type: a field that this version does not know, or a known number with another wire type.
func (r *reader) skip(num protowire.Number, typ protowire.Type) error {
	open := make([]protowire.Number, 0, 4)
	for {
		switch typ {
		case protowire.VarintType:
			if _, err := r.varint(); err != nil {
				return err
			}
		case protowire.Fixed32Type, protowire.Fixed64Type:
			size := 4
			if typ == protowire.Fixed64Type {
				size = 8
			}
			if r.left < size {
				return fmt.Errorf("%w: cut off in a fixed field", errMalformed)
			}
			r.discard(size)
		case protowire.BytesType:
			n, err := r.length()
			if err != nil {
				return err
			}
			r.discard(n)
		case protowire.StartGroupType:
			if len(open) == maxGroupDepth {
				return fmt.Errorf("%w: groups nested too deep", errMalformed)
			}
			open = append(open, num)
		case protowire.EndGroupType:
			if len(open) == 0 || open[len(open)-1] != num {
				return fmt.Errorf("%w: end of a group that is not open", errMalformed)
			}
			open = open[:len(open)-1]
		default:
			return fmt.Errorf("%w: wire type %d", errMalformed, typ)
		}
		if len(open) == 0 {
			return nil
		}
		var err error
		if num, typ, err = r.tag(); err != nil {
			return err
		}
	}
}
