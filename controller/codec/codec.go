package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
)

// version is the first byte of every command and result, and follows the magic of a snapshot. It changes only when the bytes behind it are no
// longer protobuf messages of this package.
const version = 1

// ErrUnknownCommand reports bytes of a newer version of the software: a version, command, record or field that this one does not know. A
// broker that meets it in its metadata log must stop, not skip.
var ErrUnknownCommand = errors.New("controller/codec: written by a newer version of the software: upgrade this broker")

// ErrMalformed reports bytes that are damaged.
var ErrMalformed = errors.New("controller/codec: malformed bytes")

// EncodeCommand gives the bytes of a command. It fails only for text that is not UTF-8 where names are expected.
func EncodeCommand(cmd cluster.Command) ([]byte, error) {
	m, err := commandToProto(cmd)
	if err != nil {
		return nil, err
	}
	return encode(m)
}

// DecodeCommand reads a command. The error is ErrUnknownCommand or ErrMalformed.
func DecodeCommand(b []byte) (cluster.Command, error) {
	var m metadatav1.Command
	if err := decode(b, &m); err != nil {
		return nil, err
	}
	d := decoder{}
	cmd := d.command(&m)
	if d.err != nil {
		return nil, d.err
	}
	return cmd, nil
}

// EncodeResult gives the bytes of a command's result.
func EncodeResult(r cluster.Result) ([]byte, error) { return encode(resultToProto(r)) }

// DecodeResult reads a result. The error is ErrUnknownCommand or ErrMalformed.
func DecodeResult(b []byte) (cluster.Result, error) {
	var m metadatav1.Result
	if err := decode(b, &m); err != nil {
		return cluster.Result{}, err
	}
	d := decoder{}
	r := d.result(&m)
	return r, d.err
}

func encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{version}, m)
	if err != nil {
		return nil, fmt.Errorf("controller/codec: encode: %w", err)
	}
	return b, nil
}

func decode(b []byte, m proto.Message) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: no bytes", ErrMalformed)
	}
	if b[0] != version {
		return fmt.Errorf("%w (version %d, this one knows %d)", ErrUnknownCommand, b[0], version)
	}
	return unmarshal(b[1:], m)
}

func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return known(m.ProtoReflect())
}

// known refuses a message that has, at any depth, a field without a name here.
func known(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%w (a field of %s)", ErrUnknownCommand, m.Descriptor().Name())
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if err = known(v.List().Get(i).Message()); err != nil {
					return false
				}
			}
		default:
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}

// decoder turns messages into plain types and keeps the first error.
type decoder struct{ err error }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// unknown notes a oneof without a case: one that a newer version has.
func (d *decoder) unknown(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w (%s)", ErrUnknownCommand, what)
	}
}
