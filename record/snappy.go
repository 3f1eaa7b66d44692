package record

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/golang/snappy"
)

// Kafka's snappy comes in two forms. The Java client frames it as the xerial library does:
//
//	magic 8 | version 4 = 1 | least compatible version 4 = 1 | { block length 4 | snappy block }...
//
// with big-endian numbers; other clients send one raw snappy block. Every client reads both. We write the framed form.
const (
	xerialVersion    = 1
	xerialHeaderSize = 16
	// xerialBlock is how many plain bytes go into one block, the default of the Java client.
	xerialBlock = 32 << 10
	// snappyMaxRatio bounds how far a valid snappy block expands: its densest element makes 64 bytes of 3. A block that claims more
	// is refused before anything is allocated for it.
	snappyMaxRatio = 22
)

// xerialMagic opens the framed form. A raw block cannot begin so: it would claim a length it cannot hold in these bytes.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// unsnappy decodes either form into s.b. Every block states its plain size, so the sum is known, and held against the limit, before
// anything is allocated or decoded.
func (s *scratch) unsnappy(src []byte, limit int) error {
	total := 0
	err := eachSnappyBlock(src, func(block []byte) error {
		size, err := snappy.DecodedLen(block)
		if err != nil {
			return err
		}
		if size > limit-total {
			return errBound(CodecSnappy, limit)
		}
		if size > snappyMaxRatio*len(block) {
			return fmt.Errorf("block of %d bytes claims to hold %d", len(block), size)
		}
		total += size
		return nil
	})
	if err != nil {
		return err
	}
	s.reserve(total, limit)
	return eachSnappyBlock(src, func(block []byte) error {
		// Decode writes into its destination if that is long enough, and it is.
		plain, err := snappy.Decode(s.b[len(s.b):total], block)
		s.b = s.b[:len(s.b)+len(plain)]
		return err
	})
}

// eachSnappyBlock calls fn for each block of either form and stops at the first error.
func eachSnappyBlock(src []byte, fn func(block []byte) error) error {
	if !bytes.HasPrefix(src, xerialMagic) {
		return fn(src)
	}
	if len(src) < xerialHeaderSize {
		return fmt.Errorf("framed header of %d bytes, not %d", len(src), xerialHeaderSize)
	}
	for rest := src[xerialHeaderSize:]; len(rest) > 0; {
		if len(rest) < 4 {
			return fmt.Errorf("block length cut off after %d bytes", len(rest))
		}
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return fmt.Errorf("block of %d bytes with %d left", size, len(rest))
		}
		if err := fn(rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}

// appendXerial appends src in the framed form.
func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(src) > 0 {
		plain := src[:min(len(src), xerialBlock)]
		src = src[len(plain):]
		start := len(dst) + 4
		dst = growBy(dst, 4+snappy.MaxEncodedLen(len(plain)))
		block := snappy.Encode(dst[start:], plain)
		binary.BigEndian.PutUint32(dst[start-4:], uint32(len(block)))
		dst = dst[:start+len(block)]
	}
	return dst
}

// growBy lengthens b by n bytes of any content.
func growBy(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b[:len(b)+n]
	}
	grown := make([]byte, len(b)+n, max(2*cap(b), len(b)+n))
	copy(grown, b)
	return grown
}
