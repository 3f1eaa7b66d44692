package grpcframe

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// Fetched is moldau.v1.FetchResponse.
type Fetched struct {
	Index         int32
	TopicID       TopicID
	BadTopicID    bool // received a topic id that is none
	Partition     int32
	Error         *moldauv1.Error
	HighWatermark int64
	LogStart      int64
	LeaderEpoch   int32
	Divergence    *moldauv1.EpochEnd

	// Batches lies in a buffer of the codec's pool. Sending passes it on to the transport, which gives it back. Received, it belongs to the
	// receiver, who may give it back with ReleaseBatch or leave it to the garbage collector.
	Batches *[]byte
	// Home, when sending, is told instead of the codec's pool that the transport has let go of Batches, which must have a capacity above MinCounted then.
	Home mem.BufferPool
}

// Fields of FetchResponse.
const (
	fetchedIndex         = 1
	fetchedTopicID       = 2
	fetchedPartition     = 3
	fetchedError         = 4
	fetchedHighWatermark = 5
	fetchedLogStart      = 6
	fetchedLeaderEpoch   = 7
	fetchedDivergence    = 8
	fetchedBatches       = 9
)

func (f *Fetched) marshal(pool *Pool) mem.BufferSlice {
	head := make([]byte, 0, 96)
	head = appendUint(head, fetchedIndex, uint64(f.Index))
	head = appendTopicID(head, fetchedTopicID, f.TopicID)
	head = appendUint(head, fetchedPartition, uint64(f.Partition))
	head = appendError(head, fetchedError, f.Error)
	head = appendUint(head, fetchedHighWatermark, uint64(f.HighWatermark))
	head = appendUint(head, fetchedLogStart, uint64(f.LogStart))
	head = appendUint(head, fetchedLeaderEpoch, uint64(f.LeaderEpoch))
	if f.Divergence != nil {
		body, _ := proto.Marshal(f.Divergence) // two integers: cannot fail
		head = protowire.AppendTag(head, fetchedDivergence, protowire.BytesType)
		head = protowire.AppendBytes(head, body)
	}
	if f.Batches == nil {
		return withTail(head, fetchedBatches, nil)
	}
	return withTail(head, fetchedBatches, mem.NewBuffer(f.Batches, home(f.Home, pool)))
}

func (f *Fetched) unmarshal(data mem.BufferSlice, pool *Pool) error {
	*f = Fetched{}
	err := f.parse(newReader(data), pool)
	if err != nil {
		ReleaseBatch(pool, f.Batches)
		f.Batches = nil
	}
	return err
}

func (f *Fetched) parse(r reader, pool *Pool) error {
	for r.left > 0 {
		num, typ, err := r.tag()
		if err != nil {
			return err
		}
		switch typ {
		case protowire.VarintType:
			v, err := r.varint()
			if err != nil {
				return err
			}
			f.setVarint(num, v)
		case protowire.BytesType:
			if err := f.parseBytes(&r, num, pool); err != nil {
				return err
			}
		default:
			if err := r.skip(num, typ); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fetched) setVarint(num protowire.Number, v uint64) {
	switch num {
	case fetchedIndex:
		f.Index = int32(v)
	case fetchedPartition:
		f.Partition = int32(v)
	case fetchedHighWatermark:
		f.HighWatermark = int64(v)
	case fetchedLogStart:
		f.LogStart = int64(v)
	case fetchedLeaderEpoch:
		f.LeaderEpoch = int32(v)
	}
}

func (f *Fetched) parseBytes(r *reader, num protowire.Number, pool *Pool) (err error) {
	switch num {
	case fetchedTopicID:
		f.TopicID, f.BadTopicID, err = r.topicID()
	case fetchedError:
		f.Error, err = r.refusal(f.Error)
	case fetchedDivergence:
		var body []byte
		if body, err = r.bytes(); err != nil {
			return err
		}
		if f.Divergence == nil {
			f.Divergence = new(moldauv1.EpochEnd)
		}
		err = proto.UnmarshalOptions{Merge: true}.Unmarshal(body, f.Divergence)
	case fetchedBatches:
		ReleaseBatch(pool, f.Batches) // of a repeated field the last counts
		f.Batches = nil
		f.Batches, err = r.pooled(pool)
	default:
		err = r.skip(num, protowire.BytesType)
	}
	return err
}
