package history

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Value describes itself: a record's value that says who sent it, as which of its records, and that it is whole. As text:
//
//	client/seq/crc                     what a history has
//	client/seq/crc/size/abcdef...      what is sent: filled up to size bytes
//
// crc is the CRC32C of "client/seq" in eight hexadecimal digits. Where the filling begins in the alphabet depends on it, so that another value's
// filling is recognised too.
type Value struct {
	// Client has letters, digits, '.', '_' and '-' only, at most MaxClient of them.
	Client string
	// Seq counts a client's sends up, over all partitions: each value is sent once, and the order of the numbers is the order of the sends.
	Seq int64
}

// MaxClient bounds the name of a client in a Value, in bytes.
const MaxClient = 64

// ErrForeign is a value that no client of the history can have sent: mangled, or somebody else's.
var ErrForeign = errors.New("history: not a value that describes itself")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fillers are what values are filled up with.
const fillers = "abcdefghijklmnopqrstuvwxyz"

// String is the short form.
func (v Value) String() string { return string(v.append(nil)) }

func (v Value) append(b []byte) []byte {
	start := len(b)
	b = append(b, v.Client...)
	b = append(b, '/')
	b = strconv.AppendInt(b, v.Seq, 10)
	return fmt.Appendf(b, "/%08x", crc32.Checksum(b[start:], castagnoli))
}

// Padded is the value as it is sent: size bytes, or the shortest form where size is too small for a filling.
func (v Value) Padded(size int) []byte {
	b := make([]byte, 0, max(size, MaxClient+40))
	b = v.append(b)
	short := len(b)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(size), 10)
	b = append(b, '/')
	if len(b) > size {
		return b[:short]
	}
	for i := int(b[short-1]); len(b) < size; i++ {
		b = append(b, fillers[i%len(fillers)])
	}
	return b
}

// ParseValue reads either form. The error is ErrForeign.
func ParseValue[T ~string | ~[]byte](raw T) (Value, error) {
	text := string(raw)
	client, rest, _ := strings.Cut(text, "/")
	number, rest, _ := strings.Cut(rest, "/")
	seq, err := strconv.ParseInt(number, 10, 64)
	v := Value{Client: client, Seq: seq}
	if err != nil || seq < 0 || !validClient(client) {
		return Value{}, ErrForeign
	}
	var buf [MaxClient + 40]byte
	short := v.append(buf[:0])
	if string(short) == text {
		return v, nil
	}
	_, rest, padded := strings.Cut(rest, "/")
	size, _, _ := strings.Cut(rest, "/")
	if n, err := strconv.Atoi(size); !padded || err != nil || n != len(text) || !bytes.Equal(v.Padded(n), []byte(text)) {
		return Value{}, ErrForeign
	}
	return v, nil
}

func validClient(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= MaxClient
}

// Describe is what a history says of a value that was read: the short form of a whole one, or "?" with the checksum and the length of anything else, which
// the checks report as a phantom.
func Describe(raw []byte) string {
	if v, err := ParseValue(raw); err == nil {
		return v.String()
	}
	return fmt.Sprintf("?%08x/%d", crc32.Checksum(raw, castagnoli), len(raw))
}
