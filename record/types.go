package record

// Offset is a position in one partition's log. Every end in this code base is exclusive.
type Offset int64

// LeaderEpoch counts the elections of one partition. It rises by at least one at each election and is stamped by the leader into
// every batch it appends, outside the checksum.
type LeaderEpoch int32

// NoEpoch stands for "no leader epoch is known": an empty log has no last epoch.
const NoEpoch LeaderEpoch = -1

// EpochStart is one line of an epoch history: the first offset written under an epoch.
type EpochStart struct {
	Epoch LeaderEpoch
	Start Offset
}

// ProducerID identifies an idempotent producer for the life of its sequence numbers. NoProducerID marks a batch without one.
type ProducerID int64

// NoProducerID is the producer id of a batch that asks for no de-duplication.
const NoProducerID ProducerID = -1

// ProducerEpoch fences older incarnations of one producer id.
type ProducerEpoch int16

// NoProducerEpoch is the producer epoch of a batch without a producer id.
const NoProducerEpoch ProducerEpoch = -1

// Sequence numbers the records of one producer in one partition. After 2^31-1 follows 0.
type Sequence int32

// NoSequence is the base sequence of a batch without a producer id.
const NoSequence Sequence = -1

// Next returns the sequence that follows s after n records, wrapping from 2^31-1 to 0.
func (s Sequence) Next(n int32) Sequence {
	return Sequence((int64(s) + int64(n)) & 0x7fffffff)
}

// Codec is a compression codec, by the number that the batch attributes carry.
type Codec int8

// The codecs of record batch v2. The numbers are on disk and on the wire.
const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLZ4    Codec = 3
	CodecZstd   Codec = 4
)
