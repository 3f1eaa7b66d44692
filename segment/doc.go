// Package segment is one partition's log on disk: segment files of record batches exactly as they travel, sparse indexes, and what is
// needed to find the end of the log after a crash.
//
//	00000000000000000042.log        batches v2 back to back; offset 42 is the first that may be in it
//	00000000000000000042.index      offset -> position, Apache Kafka's format; can be rebuilt
//	00000000000000000042.timeindex  timestamp -> offset, Apache Kafka's format; can be rebuilt
//	00000000000000000042.snapshot   producer state as of offset 42; content belongs to partition
//	leader-epoch-checkpoint         first offset of each leader epoch, Apache Kafka's format; can be rebuilt
//	log.meta                        log start, recovery point, clean mark, relaxed mark, list of segments
//	partition.meta                  whose log this is
//	doubtful                        seldom there: records may be missing, and nobody has been told yet; why
//
// docs/format has a page for each. DESIGN.md in this directory says why it is so.
//
// It knows no topics, brokers, leaders or watermarks: the owner says what to append, where to truncate and below which offset to read.
// It makes no decision by leader epoch; replication takes a copy of the history from Open. It keeps no high watermark.
//
// partition calls it, from one goroutine per log, the owner. Log.View, and all methods of View, Slice and Flush.Sync, may be used on
// any goroutine beside the owner. The package runs no goroutine.
//
// Invariants:
//   - Start <= End, Flushed <= End. Offsets in the log rise; every batch lies in [base, end) of its segment.
//   - Bytes that a View shows are never changed in place. What is truncated is cut off a file that is then never written again.
//   - Flushed moves only after a sync, which succeeded, of every file that was dirty, in the generation that asked for it.
//   - A byte range is CRC-checked before it is first given out after Open, and appended bytes count as checked.
//   - log.meta is changed before files are deleted or cut, so a crash at any point is finished by the next Open.
//   - After an I/O error other than a full disk the log is offline until it is opened again.
package segment
