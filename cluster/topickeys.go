package cluster

import "math"

// Bounds and defaults of topic configs. Kafka's unless the line says otherwise.
const (
	defaultSegmentBytes    = 1 << 30
	defaultSegmentMs       = 7 * 24 * 3600 * 1000
	defaultRetentionMs     = 7 * 24 * 3600 * 1000
	defaultMaxMessageBytes = 1<<20 + 12
	defaultIndexInterval   = 4096
	defaultIndexBytes      = 10 << 20
	defaultTimestampAfter  = 3600 * 1000
	defaultFlushIntervalMs = 1000 // Moldau's own

	// minSegmentBytes leaves room for an empty batch and one small record; Kafka allows 14 before 4.1 and 1 MiB since.
	minSegmentBytes = 14
	maxInt32        = math.MaxInt32
	maxInt64        = math.MaxInt64
)

const notCompacting = " Accepted and reported; compaction is not carried out yet."

// topicKeys is every topic config name of Kafka, and Moldau's own flush.policy and flush.interval.ms. Sorted by name; never changed.
var topicKeys = [...]ConfigKey{
	{Name: "cleanup.policy", Type: ConfigList, Default: "delete", oneOf: []string{"delete", "compact"}, Synonym: "log.cleanup.policy", Enforced: true,
		Doc: "What happens to old segments: delete by retention, compact by key, or both. Compaction is accepted and reported but not carried out yet: a topic with compact alone keeps everything.",
		set: setCleanup},
	{Name: "compression.gzip.level", Type: ConfigInt, Default: "-1", min: -1, max: 9, Synonym: "compression.gzip.level",
		Doc: "The level of gzip when the broker compresses. Accepted and reported; batches are stored as producers compress them."},
	{Name: "compression.lz4.level", Type: ConfigInt, Default: "9", min: 1, max: 17, Synonym: "compression.lz4.level",
		Doc: "The level of lz4 when the broker compresses. Accepted and reported; batches are stored as producers compress them."},
	{Name: "compression.type", Type: ConfigString, Default: "producer", oneOf: []string{"producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd"},
		Synonym: "compression.type",
		Doc:     "The codec of stored batches: producer keeps the producer's choice, uncompressed (or none) and the codec names ask for that codec; the broker recompresses batches that differ.", Enforced: true,
		set: func(c *TopicConfig, v string) { setCompression(&c.Compression, v) }},
	{Name: "compression.zstd.level", Type: ConfigInt, Default: "3", min: -131072, max: 22, Synonym: "compression.zstd.level",
		Doc: "The level of zstd when the broker compresses. Accepted and reported; batches are stored as producers compress them."},
	{Name: "delete.retention.ms", Type: ConfigLong, Default: "86400000", min: 0, max: maxInt64, Synonym: "log.cleaner.delete.retention.ms",
		Doc: "How long compaction keeps the marks of deleted keys." + notCompacting},
	{Name: "file.delete.delay.ms", Type: ConfigLong, Default: "60000", min: 0, max: maxInt64, Synonym: "log.segment.delete.delay.ms",
		Doc: "How long a removed segment file stays on disk. Accepted and reported; files go when their last reader is done."},
	{Name: "flush.interval.ms", Type: ConfigLong, Default: "1000", min: 1, max: maxInt64, Synonym: "log.flush.policy.interval.ms", Enforced: true,
		Doc: "Moldau's own. Under flush.policy=interval, the longest time that a written batch stays unflushed: what a power cut can lose.",
		set: func(c *TopicConfig, v string) { setMillis(&c.FlushInterval, v) }},
	{Name: "flush.messages", Type: ConfigLong, Default: "9223372036854775807", min: 1, max: maxInt64, Synonym: "log.flush.interval.messages", Enforced: true,
		Doc: "Flush after this many records. It can make flushing stricter than flush.policy asks, never looser.",
		set: func(c *TopicConfig, v string) { setInt(&c.FlushMessages, v) }},
	{Name: "flush.ms", Type: ConfigLong, Default: "9223372036854775807", min: 0, max: maxInt64, Synonym: "log.flush.interval.ms", Enforced: true,
		Doc: "Flush at least this often. It can make flushing stricter than flush.policy asks, never looser.",
		set: func(c *TopicConfig, v string) { setMillis(&c.FlushAge, v) }},
	{Name: "flush.policy", Type: ConfigString, Default: "always", oneOf: []string{"always", "interval", "os"}, Synonym: "log.flush.policy", Enforced: true,
		Doc: "Moldau's own. always: acknowledged means on disk on every in-sync replica (group commit). interval: flushed every flush.interval.ms. os: left to the operating system. The last two can lose acknowledged records when several brokers lose power.",
		set: func(c *TopicConfig, v string) { setFlushPolicy(&c.FlushPolicy, v) }},
	{Name: "follower.replication.throttled.replicas", Type: ConfigList, Default: "", Doc: "Replicas whose follower side is throttled. Accepted and reported; replication is not throttled yet."},
	{Name: "index.interval.bytes", Type: ConfigInt, Default: "4096", min: 0, max: maxInt32, Synonym: "log.index.interval.bytes", Enforced: true,
		Doc: "About how many bytes of log lie between two entries of the offset index.",
		set: func(c *TopicConfig, v string) { setInt(&c.IndexIntervalBytes, v) }},
	{Name: "leader.replication.throttled.replicas", Type: ConfigList, Default: "", Doc: "Replicas whose leader side is throttled. Accepted and reported; replication is not throttled yet."},
	{Name: "local.retention.bytes", Type: ConfigLong, Default: "-2", min: -2, max: maxInt64, Synonym: "log.local.retention.bytes",
		Doc: "How many bytes stay on local disk once they are tiered; -2 follows retention.bytes. Accepted and reported; tiering does not exist yet."},
	{Name: "local.retention.ms", Type: ConfigLong, Default: "-2", min: -2, max: maxInt64, Synonym: "log.local.retention.ms",
		Doc: "How long segments stay on local disk once they are tiered; -2 follows retention.ms. Accepted and reported; tiering does not exist yet."},
	{Name: "max.compaction.lag.ms", Type: ConfigLong, Default: "9223372036854775807", min: 1, max: maxInt64, Synonym: "log.cleaner.max.compaction.lag.ms",
		Doc: "The longest time that a record may stay uncompacted." + notCompacting},
	{Name: "max.message.bytes", Type: ConfigInt, Default: "1048588", min: 0, max: maxInt32, Synonym: "message.max.bytes", Enforced: true,
		Doc: "The largest record batch in bytes, as compressed, that the topic accepts.",
		set: func(c *TopicConfig, v string) { setInt(&c.MaxMessageBytes, v) }},
	{Name: "message.timestamp.after.max.ms", Type: ConfigLong, Default: "3600000", min: 0, max: maxInt64, Synonym: "log.message.timestamp.after.max.ms", Enforced: true,
		Doc: "How far a record's timestamp may lie ahead of the broker's clock (CreateTime only).",
		set: func(c *TopicConfig, v string) { setMillis(&c.TimestampAfter, v) }},
	{Name: "message.timestamp.before.max.ms", Type: ConfigLong, Default: "9223372036854775807", min: 0, max: maxInt64, Synonym: "log.message.timestamp.before.max.ms", Enforced: true,
		Doc: "How far a record's timestamp may lie behind the broker's clock (CreateTime only).",
		set: func(c *TopicConfig, v string) { setMillis(&c.TimestampBefore, v) }},
	{Name: "message.timestamp.type", Type: ConfigString, Default: "CreateTime", oneOf: []string{"CreateTime", "LogAppendTime"}, Synonym: "log.message.timestamp.type", Enforced: true,
		Doc: "Whose clock a record's timestamp comes from: the producer's (CreateTime) or the leader's (LogAppendTime).",
		set: setTimestampType},
	{Name: "min.cleanable.dirty.ratio", Type: ConfigDouble, Default: "0.5", min: 0, max: 1, Synonym: "log.cleaner.min.cleanable.ratio",
		Doc: "The share of uncompacted log from which on compaction starts." + notCompacting},
	{Name: "min.compaction.lag.ms", Type: ConfigLong, Default: "0", min: 0, max: maxInt64, Synonym: "log.cleaner.min.compaction.lag.ms",
		Doc: "The shortest time that a record stays uncompacted." + notCompacting},
	{Name: "min.insync.replicas", Type: ConfigInt, Default: "1", min: 1, max: maxInt32, Synonym: "min.insync.replicas", Enforced: true,
		Doc: "How many replicas must be in sync for acks=all. Unset, it derives from the replication factor: 1 for 1 and 2, 2 for 3, 3 for 5. A value above the replication factor counts as the replication factor.",
		set: setMinISR},
	{Name: "preallocate", Type: ConfigBoolean, Default: "false", Synonym: "log.preallocate",
		Doc: "Reserve the whole segment file at its creation. Accepted and reported; the log prepares its tail by itself."},
	{Name: "remote.log.copy.disable", Type: ConfigBoolean, Default: "false", Doc: "Stop copying to the remote tier. Accepted and reported; tiering does not exist yet."},
	{Name: "remote.log.delete.on.disable", Type: ConfigBoolean, Default: "false", Doc: "Delete tiered data when tiering is switched off. Accepted and reported; tiering does not exist yet."},
	{Name: "remote.storage.enable", Type: ConfigBoolean, Default: "false", oneOf: []string{"false"}, Doc: "Tiered storage. Only false is allowed: tiering does not exist yet."},
	{Name: "retention.bytes", Type: ConfigLong, Default: "-1", min: -1, max: maxInt64, Synonym: "log.retention.bytes", Enforced: true,
		Doc: "The size of a partition's log above which its oldest segments are deleted; -1 for no bound.",
		set: func(c *TopicConfig, v string) { setInt(&c.RetentionBytes, v) }},
	{Name: "retention.ms", Type: ConfigLong, Default: "604800000", min: -1, max: maxInt64, Synonym: "log.retention.ms", Enforced: true,
		Doc: "How long records are kept before their segment is deleted; -1 for ever.",
		set: func(c *TopicConfig, v string) { setMillis(&c.RetentionAge, v) }},
	{Name: "segment.bytes", Type: ConfigInt, Default: "1073741824", min: minSegmentBytes, max: maxInt32, Synonym: "log.segment.bytes", Enforced: true,
		Doc: "The size of a segment file. Positions in its index are 31 bits wide, so 2147483647 is the most.",
		set: func(c *TopicConfig, v string) { setInt(&c.SegmentBytes, v) }},
	{Name: "segment.index.bytes", Type: ConfigInt, Default: "10485760", min: 4, max: maxInt32, Synonym: "log.index.size.max.bytes",
		Doc: "The largest size of an index file; a full index rolls the segment. Accepted and reported; index files grow with their segment.",
		set: func(c *TopicConfig, v string) { setInt(&c.SegmentIndexBytes, v) }},
	{Name: "segment.jitter.ms", Type: ConfigLong, Default: "0", min: 0, max: maxInt64, Synonym: "log.roll.jitter.ms",
		Doc: "A random part taken off segment.ms, so that many segments do not roll at once. Accepted and reported."},
	{Name: "segment.ms", Type: ConfigLong, Default: "604800000", min: 1, max: maxInt64, Synonym: "log.roll.ms", Enforced: true,
		Doc: "The age at which a segment is closed even when it is not full, so that retention can take it.",
		set: func(c *TopicConfig, v string) { setMillis(&c.SegmentAge, v) }},
	{Name: "unclean.leader.election.enable", Type: ConfigBoolean, Default: "false", Synonym: "unclean.leader.election.enable", Enforced: true,
		Doc: "Let a replica lead that is known to lack acknowledged records when no other is alive. It loses data; each such election is counted.",
		set: func(c *TopicConfig, v string) { c.UncleanElection = v == "true" }},
}
