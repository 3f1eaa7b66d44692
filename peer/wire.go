package peer

import (
	"encoding/binary"
	"errors"

	"github.com/moldau-log/moldau/cluster"
)

// errShort reports a message that ends before its last field, or whose lengths reach beyond its end.
var errShort = errors.New("peer: message is cut short")

// writer appends fixed-width big-endian fields. The zero value is ready.
type writer struct{ b []byte }

func (w *writer) u8(v uint8)          { w.b = append(w.b, v) }
func (w *writer) u16(v uint16)        { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *writer) u32(v uint32)        { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64)        { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *writer) i32(v int32)         { w.u32(uint32(v)) }
func (w *writer) i64(v int64)         { w.u64(uint64(v)) }
func (w *writer) uuid(v cluster.UUID) { w.b = append(w.b, v[:]...) }

func (w *writer) flag(v bool) {
	if v {
		w.u8(1)
		return
	}
	w.u8(0)
}

func (w *writer) str(v string) {
	w.u32(uint32(len(v)))
	w.b = append(w.b, v...)
}

// short appends a string of at most 255 bytes; longer ones are cut, which only texts for people may be.
func (w *writer) short(v string) {
	v = v[:min(len(v), 255)]
	w.u8(uint8(len(v)))
	w.b = append(w.b, v...)
}

// reader takes the fields off again. The first field that does not fit sets err, and everything after it reads as zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errShort
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) i32() int32 { return int32(r.u32()) }
func (r *reader) i64() int64 { return int64(r.u64()) }
func (r *reader) flag() bool { return r.u8() != 0 }

func (r *reader) uuid() (u cluster.UUID) {
	copy(u[:], r.take(len(u)))
	return u
}

// bytes returns a part of the message itself; the caller copies what must outlive it.
func (r *reader) bytes() []byte { return r.take(int(r.u32())) }

func (r *reader) str() string   { return string(r.bytes()) }
func (r *reader) short() string { return string(r.take(int(r.u8()))) }

// count reads the length of a list whose items take at least size bytes each, so that a forged length allocates nothing.
func (r *reader) count(size int) int {
	n := int(r.u32())
	if r.err != nil || n > len(r.b)/size {
		r.err = errShort
		return 0
	}
	return n
}
