package grpcframe

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is a message that is written and parsed by hand.
type frame interface {
	marshal(pool *Pool) mem.BufferSlice
	unmarshal(data mem.BufferSlice, pool *Pool) error
}

// Codec is the gRPC codec of both ends. Its wire format is protobuf, whatever the message.
type Codec struct {
	pool *Pool
	rest encoding.CodecV2
}

// NewCodec returns a codec whose frames take their buffers from pool.
func NewCodec(pool *Pool) *Codec { return &Codec{pool: pool, rest: encoding.GetCodecV2(proto.Name)} }

// Marshal encodes a frame without copying its batch, or any protobuf message.
func (c *Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case frame:
		return v.marshal(c.pool), nil
	case *Answer:
		return v.marshal(c.pool)
	}
	return c.rest.Marshal(v)
}

// Unmarshal decodes into a frame, which owns its bytes afterwards, or into any protobuf message.
func (c *Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(frame); ok {
		return f.unmarshal(data, c.pool)
	}
	return c.rest.Unmarshal(data, v)
}

// Name is the content subtype: the frames are protobuf on the wire, so that every client fits.
func (c *Codec) Name() string { return proto.Name }
