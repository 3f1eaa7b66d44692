package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/internal/budget"
)

// What a request holds when it is decoded goes with its structure: names, numbers, and the lengths of lists. An item of a list that takes two or three bytes on the wire takes
// fifty to a hundred, and with a tag that nobody knows some four hundred. Payload (records, and what members of groups say to each other) stays the bytes that it is.

// Bounds in bytes of structure.
const (
	// Requests of more than largeRequest share workingBytes while they are worked on, so that a few are at a time. One that is larger than all of it is refused.
	largeRequest = 128 << 10
	workingBytes = 4 << 20
	// Produce requests of more than largeProduce share as much of their own until they are answered, one for each connection: they may wait for acknowledgements as long as
	// their client says, and nobody else waits for that.
	largeProduce = 16 << 10
	// groupStructure bounds JoinGroup and SyncGroup, which wait for each other.
	groupStructure = 1 << 20
)

// Bounds of JoinGroup and SyncGroup: whole requests in bytes, twice what a group may have as its state; and protocols or assignments in one, many times the members of a group.
const (
	groupRequest = 8 << 20
	groupItems   = 32 << 10
)

// errTooMuch says that a request is larger than its kind may be.
type errTooMuch struct {
	key      int16
	of       string
	n, bound int
}

// Error names the bound.
func (e errTooMuch) Error() string {
	return fmt.Sprintf("kafka: %s with %d %s, above the bound of %d", kmsg.NameForKey(e.key), e.n, e.of, e.bound)
}

// sized refuses a request by its length, before it is read.
func sized(key int16, n int) error {
	bound := workingBytes
	switch key {
	case kmsg.Produce.Int16():
		return nil
	case kmsg.JoinGroup.Int16(), kmsg.SyncGroup.Int16():
		bound = groupRequest
	}
	if n > bound {
		return errTooMuch{key, "bytes", n, bound}
	}
	return nil
}

// payload says whether an API carries any: its length says little of its structure.
func payload(key int16) bool {
	return key == kmsg.Produce.Int16() || key == kmsg.JoinGroup.Int16() || key == kmsg.SyncGroup.Int16()
}

// weigh refuses a request by its structure, before it is decoded. It returns the budget that the request shares with others, nil for a small one, and how much of it.
func (s *Server) weigh(h header, flexible bool, body []byte) (*budget.Budget, int, error) {
	w := walk{rest: body, flexible: flexible}
	bound, large, of := workingBytes, largeRequest, s.working
	switch h.key {
	case kmsg.Produce.Int16():
		large, of = largeProduce, s.producing
	case kmsg.JoinGroup.Int16(), kmsg.SyncGroup.Int16():
		bound = groupStructure
	}
	w.pass(h.key, h.version)
	n := len(body) - w.payload
	switch {
	case w.short:
		return nil, 0, errShortBody
	case n > bound:
		return nil, 0, errTooMuch{h.key, "bytes of names and numbers", n, bound}
	case bound == groupStructure && w.items > groupItems:
		return nil, 0, errTooMuch{h.key, "items", w.items, groupItems}
	case n <= large:
		return nil, 0, nil
	}
	return of, n, nil
}

// work waits until a large request may be worked on, which takes n of a budget. worked gives it back; it may be called more than once.
func (s *slot) work(ctx context.Context, of *budget.Budget, n int) error {
	if of == nil {
		return nil
	}
	if err := of.Take(ctx, n); err != nil {
		return err
	}
	s.working, s.large = of, n
	return nil
}

func (s *slot) worked() {
	if s.working != nil {
		s.working.Give(s.large)
		s.working = nil
	}
}

// walk passes over the body of a request and allocates nothing. It finds what is payload, and how many items the lists with payload have.
type walk struct {
	rest     []byte
	flexible bool
	short    bool // the body ends too early; nothing is left then
	payload  int
	items    int
}

var errShortBody = errors.New("the body is cut off")

// pass walks a body that can have payload; of another one there is nothing to find.
func (w *walk) pass(key, version int16) {
	switch key {
	case kmsg.Produce.Int16():
		w.produce(version)
	case kmsg.JoinGroup.Int16():
		w.join(version)
	case kmsg.SyncGroup.Int16():
		w.sync(version)
	}
}

// produce walks versions 3 to 13.
func (w *walk) produce(version int16) {
	w.text()
	w.skip(2 + 4) // acks, timeout
	w.list(func() {
		if version < firstProduceByID {
			w.text()
		} else {
			w.skip(16)
		}
		w.list(func() {
			w.items++
			w.skip(4)
			w.bytes()
		})
	})
	w.tags()
}

// join walks versions 0 to 9.
func (w *walk) join(version int16) {
	w.text()
	w.skip(4)
	if version >= 1 {
		w.skip(4)
	}
	w.text()
	if version >= 5 {
		w.text()
	}
	w.text()
	w.named()
	if version >= 8 {
		w.text()
	}
	w.tags()
}

// sync walks versions 0 to 5.
func (w *walk) sync(version int16) {
	w.text()
	w.skip(4)
	w.text()
	if version >= 3 {
		w.text()
	}
	if version >= 5 {
		w.text()
		w.text()
	}
	w.named()
	w.tags()
}

// named passes a list of names with payload.
func (w *walk) named() {
	w.list(func() {
		w.items++
		w.text()
		w.bytes()
	})
}

func (w *walk) skip(n int) {
	if n > len(w.rest) {
		w.short, w.rest = true, nil
		return
	}
	w.rest = w.rest[n:]
}

func (w *walk) uvarint() int {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 || v > 1<<31 {
		w.short, w.rest = true, nil
		return 0
	}
	w.rest = w.rest[n:]
	return int(v)
}

// length is one of so many bytes, or a compact one; null is 0.
func (w *walk) length(size int) (n int) {
	if w.flexible {
		return max(w.uvarint()-1, 0)
	}
	b := w.rest
	if w.skip(size); w.short {
		return 0
	}
	if size == 2 {
		n = int(int16(binary.BigEndian.Uint16(b)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(b)))
	}
	return max(n, 0)
}

func (w *walk) text() { w.skip(w.length(2)) }

func (w *walk) bytes() {
	n := w.length(4)
	if w.skip(n); !w.short {
		w.payload += n
	}
}

func (w *walk) list(item func()) {
	for n := w.length(4); n > 0 && !w.short; n-- {
		item()
		w.tags()
	}
}

func (w *walk) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.short; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
