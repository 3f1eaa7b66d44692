package grpcframe

import (
	"encoding/base64"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// NoEpoch stands for an absent leader epoch.
const NoEpoch int32 = -1

// TopicID is a topic id as bytes. Zero is absent.
type TopicID [16]byte

// textIDSize is the length of a topic id as text: unpadded URL-safe base64, as cluster.UUID prints it.
const textIDSize = 22

// strictURL refuses text whose spare bits are set: one id has one text.
var strictURL = base64.RawURLEncoding.Strict()

// Produce is moldau.v1.ProduceRequest.
type Produce struct {
	ClientSeq   uint64
	Topic       string // used while TopicID is zero
	TopicID     TopicID
	BadTopicID  bool // received a topic id that is none
	Partition   int32
	LeaderEpoch int32 // NoEpoch: unfenced
	Acks        moldauv1.Acks
	TimeoutMs   int32

	// Batch is one record batch v2. Received, it lies in a buffer of the codec's pool, to be given back with ReleaseBatch; nil when the
	// message had none.
	Batch *[]byte
	// Shared, when sending, is the batch instead of Batch: it is referenced until the transport has written it.
	Shared mem.Buffer
}

// Fields of ProduceRequest; TestFieldNumbers compares them with the .proto file.
const (
	produceClientSeq   = 1
	produceTopic       = 2
	produceTopicID     = 3
	producePartition   = 4
	produceLeaderEpoch = 5
	produceAcks        = 6
	produceTimeoutMs   = 7
	produceBatch       = 8
)

// ReleaseBatch gives a received batch back to the pool it came from.
func ReleaseBatch(pool *Pool, batch *[]byte) {
	if batch != nil {
		pool.Put(batch)
	}
}

func (f *Produce) marshal(pool *Pool) mem.BufferSlice {
	batch := f.Shared
	if batch != nil {
		batch.Ref()
	} else if f.Batch != nil {
		batch = mem.NewBuffer(f.Batch, pool)
	}
	head := make([]byte, 0, 64+len(f.Topic))
	head = appendUint(head, produceClientSeq, f.ClientSeq)
	if f.Topic != "" {
		head = protowire.AppendTag(head, produceTopic, protowire.BytesType)
		head = protowire.AppendString(head, f.Topic)
	}
	head = appendTopicID(head, produceTopicID, f.TopicID)
	head = appendUint(head, producePartition, uint64(f.Partition))
	if f.LeaderEpoch != NoEpoch {
		head = protowire.AppendTag(head, produceLeaderEpoch, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(f.LeaderEpoch))
	}
	head = appendUint(head, produceAcks, uint64(f.Acks))
	head = appendUint(head, produceTimeoutMs, uint64(f.TimeoutMs))
	return withTail(head, produceBatch, batch)
}

func (f *Produce) unmarshal(data mem.BufferSlice, pool *Pool) error {
	*f = Produce{LeaderEpoch: NoEpoch}
	err := f.parse(newReader(data), pool)
	if err != nil {
		ReleaseBatch(pool, f.Batch)
		f.Batch = nil
	}
	return err
}

func (f *Produce) parse(r reader, pool *Pool) error {
	for r.left > 0 {
		num, typ, err := r.tag()
		if err != nil {
			return err
		}
		switch {
		case typ == protowire.VarintType && num != produceTopic && num != produceTopicID && num < produceBatch:
			v, err := r.varint()
			if err != nil {
				return err
			}
			f.setVarint(num, v)
		case typ == protowire.BytesType && num == produceTopic:
			if f.Topic, err = r.text(); err != nil {
				return err
			}
		case typ == protowire.BytesType && num == produceTopicID:
			if f.TopicID, f.BadTopicID, err = r.topicID(); err != nil {
				return err
			}
		case typ == protowire.BytesType && num == produceBatch:
			ReleaseBatch(pool, f.Batch) // of a repeated field the last counts
			f.Batch = nil
			if f.Batch, err = r.pooled(pool); err != nil {
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

func (f *Produce) setVarint(num protowire.Number, v uint64) {
	switch num {
	case produceClientSeq:
		f.ClientSeq = v
	case producePartition:
		f.Partition = int32(v)
	case produceLeaderEpoch:
		f.LeaderEpoch = int32(v)
	case produceAcks:
		f.Acks = moldauv1.Acks(int32(v))
	case produceTimeoutMs:
		f.TimeoutMs = int32(v)
	}
}

// Results is moldau.v1.ProduceResponse.
type Results struct {
	Results     []Result
	WindowBytes int64
}

// Result is moldau.v1.ProduceResult.
type Result struct {
	ClientSeq   uint64
	Error       *moldauv1.Error
	BaseOffset  int64
	LogStart    int64
	LogAppendMs int64
}

// Fields of ProduceResponse and ProduceResult.
const (
	resultsResults     = 1
	resultsWindowBytes = 2

	resultClientSeq   = 1
	resultError       = 2
	resultBaseOffset  = 3
	resultLogStart    = 4
	resultLogAppendMs = 5
)

func (f *Results) marshal(*Pool) mem.BufferSlice {
	out := make([]byte, 0, 16+48*len(f.Results))
	var one [128]byte
	for i := range f.Results {
		body := f.Results[i].appendTo(one[:0])
		out = protowire.AppendTag(out, resultsResults, protowire.BytesType)
		out = protowire.AppendBytes(out, body)
	}
	out = appendUint(out, resultsWindowBytes, uint64(f.WindowBytes))
	return mem.BufferSlice{mem.SliceBuffer(out)}
}

func (r *Result) appendTo(b []byte) []byte {
	b = appendUint(b, resultClientSeq, r.ClientSeq)
	b = appendError(b, resultError, r.Error)
	b = appendUint(b, resultBaseOffset, uint64(r.BaseOffset))
	b = appendUint(b, resultLogStart, uint64(r.LogStart))
	return appendUint(b, resultLogAppendMs, uint64(r.LogAppendMs))
}

// unmarshal reuses the Results slice of the frame.
func (f *Results) unmarshal(data mem.BufferSlice, _ *Pool) error {
	*f = Results{Results: f.Results[:0]}
	r := newReader(data)
	for r.left > 0 {
		num, typ, err := r.tag()
		if err != nil {
			return err
		}
		switch {
		case num == resultsResults && typ == protowire.BytesType:
			body, err := r.bytes()
			if err != nil {
				return err
			}
			f.Results = append(f.Results, Result{})
			if err := f.Results[len(f.Results)-1].parse(body); err != nil {
				return err
			}
		case num == resultsWindowBytes && typ == protowire.VarintType:
			v, err := r.varint()
			if err != nil {
				return err
			}
			f.WindowBytes = int64(v)
		default:
			if err := r.skip(num, typ); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Result) parse(body []byte) error {
	in := reader{cur: body, left: len(body)}
	for in.left > 0 {
		num, typ, err := in.tag()
		if err != nil {
			return err
		}
		switch {
		case num == resultError && typ == protowire.BytesType:
			if r.Error, err = in.refusal(r.Error); err != nil {
				return err
			}
		case typ == protowire.VarintType && num <= resultLogAppendMs && num != resultError:
			v, err := in.varint()
			if err != nil {
				return err
			}
			switch num {
			case resultClientSeq:
				r.ClientSeq = v
			case resultBaseOffset:
				r.BaseOffset = int64(v)
			case resultLogStart:
				r.LogStart = int64(v)
			case resultLogAppendMs:
				r.LogAppendMs = int64(v)
			}
		default:
			if err := in.skip(num, typ); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusal reads an Error field, merged into one that came before, as protobuf wants it.
func (r *reader) refusal(into *moldauv1.Error) (*moldauv1.Error, error) {
	body, err := r.bytes()
	if err != nil {
		return into, err
	}
	if into == nil {
		into = new(moldauv1.Error)
	}
	return into, proto.UnmarshalOptions{Merge: true}.Unmarshal(body, into)
}

// topicID reads a topic id. Text that is no id is no broken message: it is reported as bad, and the id is zero.
func (r *reader) topicID() (id TopicID, bad bool, err error) {
	n, err := r.length()
	if err != nil {
		return id, false, err
	}
	if n != textIDSize {
		r.discard(n)
		return id, n != 0, nil
	}
	var text [textIDSize]byte
	r.copyTo(text[:])
	if _, err := strictURL.Decode(id[:], text[:]); err != nil {
		return TopicID{}, true, nil
	}
	return id, false, nil
}

// pooled reads a bytes field into one buffer of the pool: the one copy on receipt.
func (r *reader) pooled(pool *Pool) (*[]byte, error) {
	n, err := r.length()
	if err != nil || n == 0 {
		return nil, err
	}
	b := pool.Get(n)
	r.copyTo(*b)
	return b, nil
}

// withTail ends a message with a bytes field that is not copied.
func withTail(head []byte, num protowire.Number, tail mem.Buffer) mem.BufferSlice {
	if tail == nil {
		return mem.BufferSlice{mem.SliceBuffer(head)}
	}
	if tail.Len() == 0 {
		tail.Free()
		return mem.BufferSlice{mem.SliceBuffer(head)}
	}
	head = protowire.AppendTag(head, num, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(tail.Len()))
	return mem.BufferSlice{mem.SliceBuffer(head), tail}
}

// appendUint appends a varint field unless it is 0. Signed numbers come sign-extended, as protobuf writes them.
func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

func appendTopicID(b []byte, num protowire.Number, id TopicID) []byte {
	if id == (TopicID{}) {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = protowire.AppendVarint(b, textIDSize)
	return base64.RawURLEncoding.AppendEncode(b, id[:])
}

func appendError(b []byte, num protowire.Number, e *moldauv1.Error) []byte {
	if e == nil {
		return b
	}
	body, err := proto.Marshal(e)
	if err != nil { // only text that is not UTF-8 can do that: say the code at least
		body, _ = proto.Marshal(&moldauv1.Error{Code: e.GetCode(), Retriable: e.GetRetriable()})
	}
	b = protowire.AppendTag(b, num, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}
