package client

import (
	"time"

	"github.com/moldau-log/moldau/record"
)

// Header is one header of a record. Keys may repeat and keep their order. A nil Value is null.
type Header = record.Header

// Record is one record. Key, Value and Headers must not be changed from Produce until the promise is called. In consumed records they alias
// a buffer of the whole fetched stretch: copy what is kept for long.
type Record struct {
	Topic string
	// Partition is set by the producer before the promise is called. It is an input only with ManualPartitioner.
	Partition int32
	// Key and Value are nil when null; empty is not null.
	Key, Value []byte
	Headers    []Header
	// Timestamp has millisecond precision. Produce sets a zero one to the present.
	Timestamp time.Time

	// Offset is set by the producer before the promise is called; -1 when unknown (WithAcks(AcksNone), or a duplicate of long ago).
	Offset int64
	// LeaderEpoch is the epoch under which a consumed record was appended.
	LeaderEpoch int32
}

// size estimates the record's share of a batch, in bytes.
func (r *Record) size() int {
	n := len(r.Key) + len(r.Value) + record.MaxRecordOverhead
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

// TopicPartition names one partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}
