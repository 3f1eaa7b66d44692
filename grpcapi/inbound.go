package grpcapi

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// A repeated field of two bytes decodes to a hundred and more, and gRPC has one bound for the messages of all methods. So the codec decodes only what is small. It parks the rest for
// the interceptor, which knows the call's context and may refuse with any status: by its length, then by what it would decode to; and which waits for room.

// Bounds of requests in bytes.
const (
	// A message of up to smallMessage is decoded at once: it cannot become large.
	smallMessage = 512
	// maxRequestBytes bounds every message but those with records: 100,000 partitions, or 10,000 queries with the longest names, fit.
	maxRequestBytes = 8 << 20
	// maxDecoded bounds what a message decodes to beside its own bytes.
	maxDecoded = 64 << 20
	// What decodes to more than largeDecoded shares workingBytes while it is worked on, or, with records, Config.MaxInFlightBytes.
	largeDecoded = 64 << 10
	workingBytes = maxRequestBytes + maxDecoded
)

// inbound is the server's codec: parsing is the business of grpcframe, and of decode.
type inbound struct {
	*grpcframe.Codec

	mu     sync.Mutex // guards what follows
	parked map[any]mem.BufferSlice
}

func newInbound(codec *grpcframe.Codec) *inbound {
	return &inbound{Codec: codec, parked: map[any]mem.BufferSlice{}}
}

// Unmarshal decodes a frame or a small message, and parks another one.
func (c *inbound) Unmarshal(data mem.BufferSlice, v any) error {
	if _, frame := v.(*grpcframe.Produce); frame || data.Len() <= smallMessage {
		return c.Codec.Unmarshal(data, v)
	}
	data.Ref()
	c.mu.Lock()
	before := c.parked[v] // a second message where there may be one only; gRPC is about to say so
	c.parked[v] = data
	c.mu.Unlock()
	before.Free()
	return nil
}

// unpark gives what was parked for a message; nil when it is decoded.
func (c *inbound) unpark(v any) mem.BufferSlice {
	c.mu.Lock()
	defer c.mu.Unlock()
	data := c.parked[v]
	delete(c.parked, v)
	return data
}

// rooms are the bounds on requests over all calls, in bytes.
type rooms struct {
	unfinished *budget.Budget // messages of which a part has come
	received   *budget.Budget // large messages that wait to be decoded
	working    *budget.Budget // decoded, until their call has ended
	producing  *budget.Budget // the same of records, which wait for acknowledgements as long as their client says
	standing   *budget.Budget // what streams have been asked for, until they end
}

func newRooms(maxInFlight int) *rooms {
	return &rooms{
		unfinished: budget.New(maxInFlight), received: budget.New(maxInFlight / 2), working: budget.New(workingBytes), producing: budget.New(maxInFlight), standing: budget.New(maxInFlight),
	}
}

// taken is what a message holds of a room. The zero one holds nothing.
type taken struct {
	room *budget.Budget
	n    int // bytes
}

func (t taken) giveBack() {
	if t.room != nil {
		t.room.Give(t.n)
	}
}

// decode decodes what the codec has parked for a message, and says what that has taken.
func (s *Server) decode(ctx context.Context, m any) (taken, error) {
	data := s.inbound.unpark(m)
	if data == nil {
		return taken{}, nil
	}
	defer data.Free()
	n, err := s.weigh(data, m)
	if err != nil {
		return taken{}, err
	}
	t := taken{}
	if n > largeDecoded {
		t = taken{s.rooms.working, n}
		if _, records := m.(*moldauv1.ProduceRecordsRequest); records {
			t.room = s.rooms.producing
		}
		if !s.rooms.received.Try(data.Len()) {
			return taken{}, errTooManyLarge()
		}
		defer s.rooms.received.Give(data.Len())
		if err := t.room.Take(ctx, n); err != nil {
			return taken{}, err
		}
	}
	if err := s.inbound.Codec.Unmarshal(data, m); err != nil {
		t.giveBack()
		return taken{}, unreadable(err)
	}
	return t, nil
}

func errTooManyLarge() error {
	return cluster.Refuse(cluster.CodeOverloaded, "the broker has more large requests than it works on at a time; try again")
}

// weigh refuses a message that is larger than its kind may be, or would be when it is decoded; else it says how many bytes it will be.
func (s *Server) weigh(data mem.BufferSlice, m any) (int, error) {
	bound := maxRequestBytes
	if _, records := m.(*moldauv1.ProduceRecordsRequest); records {
		bound = s.cfg.MaxMessageBytes
	}
	if n := data.Len(); n > bound {
		return 0, status.Errorf(codes.ResourceExhausted, "the request has %d bytes, above the bound of %d for this call", n, bound)
	}
	p, ok := m.(proto.Message)
	if !ok {
		return data.Len(), nil // gRPC says what is wrong
	}
	most := data.Len() + maxDecoded
	n, err := grpcframe.Weigh(data, p.ProtoReflect().Descriptor(), most)
	switch {
	case err != nil:
		return 0, unreadable(err)
	case n > most:
		return 0, status.Errorf(codes.ResourceExhausted, "the request would take more than %d bytes beside the %d that it has: name fewer things in one call", maxDecoded, data.Len())
	}
	return n, nil
}

func unreadable(err error) error {
	return status.Error(codes.Internal, fmt.Sprintf("error unmarshalling request: %v", err))
}

// inboundStream decodes the messages of a stream. What a large one holds counts until the next, or the end, and it does not wait for room that other streams may have for long.
type inboundStream struct {
	grpc.ServerStream
	s    *Server
	held taken
}

// RecvMsg receives one message.
func (i *inboundStream) RecvMsg(m any) error {
	if err := i.ServerStream.RecvMsg(m); err != nil {
		i.s.inbound.unpark(m).Free() // gRPC was not content with what came behind it
		return err
	}
	t, err := i.s.decode(i.Context(), m)
	if err != nil {
		return err
	}
	i.end()
	t.giveBack()
	if t.room == nil {
		return nil
	}
	if !i.s.rooms.standing.Try(t.n) {
		return errTooManyLarge()
	}
	i.held = taken{i.s.rooms.standing, t.n}
	return nil
}

// end gives back what the last message holds.
func (i *inboundStream) end() {
	i.held.giveBack()
	i.held = taken{}
}
