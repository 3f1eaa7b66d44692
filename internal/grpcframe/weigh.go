package grpcframe

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What the generated code allocates for a field, in bytes, beside the bytes of the message; rather too much than too little. TestWeigh_CoversWhatDecodingTakes compares.
const (
	messageCost = 192 // a message, with its place in a list that has grown by doubling
	bytesCost   = 64  // a string or bytes
	scalarCost  = 32  // a number that is optional, of a oneof, or in a list that has grown
	packedCost  = 20  // each byte of a packed list may be a number of up to 8 bytes, in a list that has grown
)

// Weigh says how many bytes a message takes when it is decoded, before it is; at least its length. It stops when that is above bound. It allocates nothing that goes with the
// length of the message.
func Weigh(data mem.BufferSlice, of protoreflect.MessageDescriptor, bound int) (int, error) {
	w := weight{r: newReader(data), bytes: data.Len(), bound: bound}
	err := w.message(of, 0)
	return w.bytes, err
}

type weight struct {
	r     reader
	bytes int
	bound int
}

// message weighs the fields up to the point where so many bytes are left.
func (w *weight) message(of protoreflect.MessageDescriptor, end int) error {
	fields := of.Fields()
	for w.r.left > end && w.bytes <= w.bound {
		num, typ, err := w.r.tag()
		if err != nil {
			return err
		}
		f := fields.ByNumber(num)
		if f == nil || typ != protowire.BytesType {
			before := w.r.left
			if err := w.r.skip(num, typ); err != nil {
				return err
			}
			if w.bytes += scalarCost; f == nil {
				w.bytes += 2 * (before - w.r.left) // kept as it is, in a list that grows
			}
			continue
		}
		n, err := w.r.length()
		if err != nil {
			return err
		}
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			w.bytes += messageCost
			if err := w.message(f.Message(), w.r.left-n); err != nil {
				return err
			}
		case protoreflect.StringKind, protoreflect.BytesKind:
			w.bytes += bytesCost
			w.r.discard(n)
		default:
			w.bytes += scalarCost + packedCost*n
			w.r.discard(n)
		}
	}
	if w.bytes <= w.bound && w.r.left < end {
		return errMalformed
	}
	return nil
}
