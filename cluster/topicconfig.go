package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/record"
)

// FlushPolicy says what an acknowledgement means for the disk.
type FlushPolicy int8

// The flush policies.
const (
	FlushAlways   FlushPolicy = iota // flushed before it is acknowledged
	FlushInterval                    // flushed every FlushInterval
	FlushOS                          // flushed when the operating system likes
)

// String gives the config value.
func (p FlushPolicy) String() string {
	switch p {
	case FlushInterval:
		return "interval"
	case FlushOS:
		return "os"
	}
	return "always"
}

// TimestampType says whose clock the timestamps of a topic come from.
type TimestampType int8

// The timestamp types. The numbers are the bit in a batch's attributes.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// CompressionType is the stored compression that a topic asks for: a record.Codec, or CompressionProducer.
type CompressionType int8

// CompressionProducer keeps each batch as its producer compressed it.
const CompressionProducer CompressionType = -1

// Codec returns the codec that batches must have, and false where the producer chooses.
func (c CompressionType) Codec() (record.Codec, bool) {
	return record.Codec(c), c != CompressionProducer
}

// TopicConfig is the effective configuration of one topic: what is set on it, else the cluster default, else the built-in default. Two of
// them can be compared with ==.
type TopicConfig struct {
	SegmentBytes       int64
	SegmentAge         time.Duration
	SegmentIndexBytes  int64
	IndexIntervalBytes int64
	// RetentionAge and RetentionBytes are -1 where there is no bound.
	RetentionAge   time.Duration
	RetentionBytes int64
	// Delete and Compact are the items of cleanup.policy.
	Delete, Compact bool
	MaxMessageBytes int64
	// MinISR is min.insync.replicas as set, 0 where it derives from the replication factor; see Image.MinISR.
	MinISR          int
	FlushPolicy     FlushPolicy
	FlushInterval   time.Duration // under FlushInterval
	FlushMessages   int64         // flush.messages: may only make flushing stricter
	FlushAge        time.Duration // flush.ms: may only make flushing stricter
	TimestampType   TimestampType
	TimestampBefore time.Duration // how far a record may lie behind the clock
	TimestampAfter  time.Duration // how far a record may lie ahead of the clock
	Compression     CompressionType
	UncleanElection bool
}

// CleanupPolicy is the config value of Delete and Compact.
func (c *TopicConfig) CleanupPolicy() string {
	switch {
	case c.Delete && c.Compact:
		return "compact,delete"
	case c.Compact:
		return "compact"
	}
	return "delete"
}

// DefaultTopicConfig is a topic's configuration where nothing is set anywhere.
func DefaultTopicConfig() TopicConfig {
	return TopicConfig{
		SegmentBytes:       defaultSegmentBytes,
		SegmentAge:         defaultSegmentMs * time.Millisecond,
		SegmentIndexBytes:  defaultIndexBytes,
		IndexIntervalBytes: defaultIndexInterval,
		RetentionAge:       defaultRetentionMs * time.Millisecond,
		RetentionBytes:     -1,
		Delete:             true,
		MaxMessageBytes:    defaultMaxMessageBytes,
		FlushPolicy:        FlushAlways,
		FlushInterval:      defaultFlushIntervalMs * time.Millisecond,
		FlushMessages:      maxInt64,
		FlushAge:           maxInt64,
		TimestampType:      CreateTime,
		TimestampBefore:    maxInt64,
		TimestampAfter:     defaultTimestampAfter * time.Millisecond,
		Compression:        CompressionProducer,
	}
}

// TopicConfig gives the effective configuration of a topic.
func (i *Image) TopicConfig(t *Topic) TopicConfig {
	cfg := DefaultTopicConfig()
	for _, e := range i.clusterDefault() {
		for _, name := range topicKeysOf(e.Key) {
			cfg.set(name, e.Value)
		}
	}
	for _, e := range t.Configs {
		cfg.set(e.Key, e.Value)
	}
	return cfg
}

func (i *Image) clusterDefault() Configs {
	return i.Configs(ConfigResource{Kind: ConfigClusterDefault})
}

// topicKeysOf lists the topic keys whose default the cluster-default key gives. The list is at most one long today.
func topicKeysOf(synonym string) []string {
	var out []string
	for i := range topicKeys {
		if topicKeys[i].Synonym == synonym {
			out = append(out, topicKeys[i].Name)
		}
	}
	return out
}

// set takes one value over. Values in an Image are canonical; one that this version cannot read (written by a newer one) leaves the default.
func (c *TopicConfig) set(key, value string) {
	if k, ok := TopicKey(key); ok && k.set != nil {
		k.set(c, value)
	}
}

func setCleanup(c *TopicConfig, v string) {
	items := splitList(v)
	c.Delete, c.Compact = slices.Contains(items, "delete"), slices.Contains(items, "compact")
}

func setTimestampType(c *TopicConfig, v string) {
	c.TimestampType = CreateTime
	if v == "LogAppendTime" {
		c.TimestampType = LogAppendTime
	}
}

func setMinISR(c *TopicConfig, v string) {
	n := int64(c.MinISR)
	setInt(&n, v)
	c.MinISR = int(n)
}

func setInt(dst *int64, value string) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		*dst = n
	}
}

// setMillis reads Kafka's milliseconds. A negative number means "no bound" and becomes -1; what a Duration cannot hold (292 years) becomes its largest.
func setMillis(dst *time.Duration, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
	case n < 0:
		*dst = -1
	case n > maxInt64/int64(time.Millisecond):
		*dst = maxInt64
	default:
		*dst = time.Duration(n) * time.Millisecond
	}
}

func setCompression(dst *CompressionType, value string) {
	switch value {
	case "producer":
		*dst = CompressionProducer
	case "uncompressed", "none":
		*dst = CompressionType(record.CodecNone)
	case "gzip":
		*dst = CompressionType(record.CodecGzip)
	case "snappy":
		*dst = CompressionType(record.CodecSnappy)
	case "lz4":
		*dst = CompressionType(record.CodecLZ4)
	case "zstd":
		*dst = CompressionType(record.CodecZstd)
	}
}

func setFlushPolicy(dst *FlushPolicy, value string) {
	switch value {
	case "always":
		*dst = FlushAlways
	case "interval":
		*dst = FlushInterval
	case "os":
		*dst = FlushOS
	}
}

// MinISR is the effective min.insync.replicas of a partition: what is set, or what derives from the replication factor, and never more than
// the replication factor. While a reassignment is in progress the factor is the smaller of before and after: growing a topic must not make
// its partitions refuse writes until the new replicas have caught up.
func (i *Image) MinISR(t *Topic, p *Partition) int {
	rf := len(p.Replicas) - max(len(p.Adding), len(p.Removing))
	return EffectiveMinISR(i.setMinISR(t), rf)
}

// ReplicationFactor is how many replicas a topic's partitions have, or will have when a reassignment that is in progress ends. Partition 0 speaks
// for the topic, as in Kafka: what the topic was created with is history once its replicas were reassigned.
func (i *Image) ReplicationFactor(t *Topic) int {
	p, ok := i.Partition(TopicPartition{Topic: t.ID})
	if !ok {
		return int(t.ReplicationFactor)
	}
	return len(p.Replicas) - len(p.Removing)
}

// setMinISR is min.insync.replicas as set for the topic or the cluster, 0 when unset.
func (i *Image) setMinISR(t *Topic) int {
	var n int64
	setInt(&n, i.topicValue(t, "min.insync.replicas", "min.insync.replicas"))
	return int(n)
}

// UncleanElection reports whether a replica of t may lead that is known to lack acknowledged records, when no other is alive.
func (i *Image) UncleanElection(t *Topic) bool {
	return i.topicValue(t, "unclean.leader.election.enable", "unclean.leader.election.enable") == "true"
}

// topicValue is one effective value of a topic, empty when it is set nowhere.
func (i *Image) topicValue(t *Topic, key, synonym string) string {
	if v, ok := t.Configs.Get(key); ok {
		return v
	}
	v, _ := i.clusterDefault().Get(synonym)
	return v
}

// EffectiveMinISR combines min.insync.replicas as set (0: unset) with the replication factor.
func EffectiveMinISR(set, rf int) int {
	if set <= 0 {
		set = DerivedMinISR(rf)
	}
	return max(1, min(set, rf))
}

// DerivedMinISR is min.insync.replicas where it is not set: 1 for a factor of 1 and 2, a majority from 3 on.
func DerivedMinISR(rf int) int {
	if rf < 3 {
		return 1
	}
	return rf/2 + 1
}

// checkTogether refuses values that are each allowed but make no sense together.
func checkTogether(c Configs) error {
	var least, most int64 = 0, maxInt64
	if v, ok := c.Get("min.compaction.lag.ms"); ok {
		setInt(&least, v)
	}
	if v, ok := c.Get("max.compaction.lag.ms"); ok {
		setInt(&most, v)
	}
	if least > most {
		return Refuse(CodeInvalidConfig, fmt.Sprintf("min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)", least, most))
	}
	return nil
}

// ConfigSource says where an effective value comes from. The numbers are those of Kafka's DescribeConfigs.
type ConfigSource int8

// The sources of effective values.
const (
	SourceTopic          ConfigSource = 1
	SourceBroker         ConfigSource = 2
	SourceClusterDefault ConfigSource = 3
	SourceStatic         ConfigSource = 4
	SourceDefault        ConfigSource = 5
)

// EffectiveConfig is one key with its effective value, for people and tools.
type EffectiveConfig struct {
	Key    *ConfigKey
	Value  string
	Source ConfigSource
}

// DescribeTopicConfig lists the effective value of every topic key in the order of names. An unset min.insync.replicas is reported as what
// derives from the topic's replication factor.
func (i *Image) DescribeTopicConfig(t *Topic) []EffectiveConfig {
	base := i.clusterDefault()
	out := make([]EffectiveConfig, 0, len(topicKeys))
	for n := range topicKeys {
		k := &topicKeys[n]
		e := EffectiveConfig{Key: k, Value: k.Default, Source: SourceDefault}
		if k.Name == "min.insync.replicas" {
			e.Value = strconv.Itoa(DerivedMinISR(i.ReplicationFactor(t)))
		}
		if v, ok := t.Configs.Get(k.Name); ok {
			e.Value, e.Source = v, SourceTopic
		} else if v, ok := base.Get(k.Synonym); ok && k.Synonym != "" {
			e.Value, e.Source = v, SourceClusterDefault
		}
		out = append(out, e)
	}
	return out
}
