package record

import (
	"fmt"
	"math/bits"
)

// cursor reads the fields of records from a slice. Its first error sticks: every later read gives zero, so that callers check once
// per record. It never allocates except for that error.
type cursor struct {
	b   []byte
	pos int
	err error
}

// fail records the first fault.
func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s at byte %d", ErrInvalid, fmt.Sprintf(format, args...), c.pos)
		c.pos = len(c.b)
	}
}

// remaining is the number of unread bytes.
func (c *cursor) remaining() int { return len(c.b) - c.pos }

// byte reads one byte.
func (c *cursor) byte() byte {
	if c.pos >= len(c.b) {
		c.fail("record ends early")
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return v
}

// varint reads a zig-zag varint of at most 32 bits: at most five bytes, and nothing above bit 31. Longer encodings of small numbers
// are accepted within the five bytes, as Kafka does.
func (c *cursor) varint() int32 {
	if c.pos < len(c.b) && c.b[c.pos] < 0x80 { // one byte: nearly every field of a small record
		v := uint32(c.b[c.pos])
		c.pos++
		return int32(v>>1) ^ -int32(v&1)
	}
	v := c.uvarint(32)
	return int32(uint32(v)>>1) ^ -int32(v&1)
}

// varlong reads a zig-zag varint of at most 64 bits: at most ten bytes.
func (c *cursor) varlong() int64 {
	v := c.uvarint(64)
	return int64(v>>1) ^ -int64(v&1)
}

// uvarint reads a base-128 number of at most width bits, low groups first.
func (c *cursor) uvarint(width uint) uint64 {
	var v uint64
	for shift := uint(0); shift < width; shift += 7 {
		if c.pos >= len(c.b) {
			c.fail("record ends inside a number")
			return 0
		}
		group := c.b[c.pos]
		c.pos++
		if left := width - shift; left < 7 && group>>left != 0 {
			c.fail("number exceeds %d bits", width)
			return 0
		}
		v |= uint64(group&0x7f) << shift
		if group < 0x80 {
			return v
		}
	}
	c.fail("number exceeds %d bits", width) // not reached: the last group's check refuses its continuation bit
	return 0
}

// bytes reads a length and as many bytes, aliasing the input. Length -1 is null and gives nil; an empty field gives an empty slice
// that is not nil.
func (c *cursor) bytes(field string) []byte {
	n := int(c.varint())
	switch {
	case c.err != nil || n == -1:
		return nil
	case n < 0 || n > c.remaining():
		c.fail("%s length %d with %d bytes left", field, n, c.remaining())
		return nil
	}
	v := c.b[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return v
}

// appendVarint appends v as a zig-zag varint. 32-bit fields use it too: the encodings of small numbers are the same.
func appendVarint(dst []byte, v int64) []byte {
	u := zigzag(v)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is the number of bytes that appendVarint writes, from 1 to 10.
func varintSize(v int64) int { return (bits.Len64(zigzag(v)|1) + 6) / 7 }

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }
