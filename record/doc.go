// Package record is Kafka's record batch v2, exactly: the bytes that producers send, that segments store, that replicas copy and that
// consumers receive. docs/format/record-batch.md specifies the format.
//
//	offset size field                   covered by the CRC?
//	     0    8 base offset             no: the leader stamps it
//	     8    4 length                  no: bytes after this field = total size - 12
//	    12    4 partition leader epoch  no: the leader stamps it
//	    16    1 magic = 2               no
//	    17    4 CRC-32C                 no
//	    21    2 attributes              yes, from here to the end
//	    23    4 last offset delta
//	    27    8 base timestamp          ms; record timestamps are relative to it
//	    35    8 max timestamp           ms
//	    43    8 producer id             -1 = none
//	    51    2 producer epoch          -1 = none
//	    53    4 base sequence           -1 = none
//	    57    4 record count
//	    61      records                 compressed as one block if a codec is set
//
//	attributes   15 ........ 7 | 6 delete horizon | 5 control | 4 transactional | 3 log append time | 2..0 codec
//
//	record       length varint | attributes 1 (0) | timestamp delta varlong | offset delta varint |
//	             key length varint (-1 null) | key | value length varint (-1 null) | value |
//	             header count varint | { key length varint | key | value length varint (-1 null) | value }...
//
// Fixed fields are big-endian; varints are zig-zag.
//
// Batch is a checked view over such bytes and copies nothing; Head is one over the fixed part alone. Parse and ParseHead check only what it
// takes to walk a log: magic, length, ranges.
// VerifyCRC says whether the bytes are those that were written, Validate whether a producer's batch may enter a log, Records decodes.
// Builder makes batches. Offset, LeaderEpoch, ProducerID and Sequence live here because a batch carries them.
//
// What it is not: it knows no topics, no files, no connections, and none of the message formats 0 and 1. It does not choose offsets.
//
// Producers (client), doors (kafka, grpcapi), the log (segment), and partition call it. It runs no goroutines. A Batch may be read by
// many goroutines; Stamp, StampLogAppendTime and Validate write to its bytes and need the only reference. Builder and Iterator belong
// to one goroutine each.
//
// Invariants: a Batch covers exactly one whole batch; no input makes this package panic, read beyond the batch, or hold more than a
// small multiple of the decompression bound that the caller names. A Memory counts what all decompressions hold, before it is allocated.
package record
