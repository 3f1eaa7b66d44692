package grpcframe

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// MinCounted is the least capacity in bytes that a buffer is asked for of which its owner wants to be told when the transport lets go of it: gRPC does not tell of
// those up to 1 KiB.
const MinCounted = minPooled / 2

// Answer is any protobuf message on its way to a client, of which somebody wants to know when the transport has let go of its bytes.
type Answer struct {
	Message proto.Message
	Size    int // proto.Size of the message, in bytes
	// Home gets the encoded bytes back, once, also when the message cannot be encoded; it passes them on to the codec's pool.
	Home mem.BufferPool
}

func (a *Answer) marshal(pool *Pool) (mem.BufferSlice, error) {
	buf := pool.Get(max(a.Size, MinCounted))
	encoded, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], a.Message)
	if err != nil {
		home(a.Home, pool).Put(buf)
		return nil, fmt.Errorf("grpcframe: encode %T: %w", a.Message, err)
	}
	*buf = encoded
	return mem.BufferSlice{mem.NewBuffer(buf, home(a.Home, pool))}, nil
}

// home is where a buffer goes back to.
func home(told mem.BufferPool, pool *Pool) mem.BufferPool {
	if told != nil {
		return told
	}
	return pool
}
