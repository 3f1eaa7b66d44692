package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Start says where reading a partition begins.
type Start struct {
	kind startKind
	n    int64
}

type startKind int8

const (
	startEarliest startKind = iota
	startLatest
	startOffset
	startTime
)

// FromStart begins at the first record that is there.
func FromStart() Start { return Start{kind: startEarliest} }

// FromStartPlus begins n offsets behind the first record that is there.
func FromStartPlus(n int64) Start { return Start{kind: startEarliest, n: n} }

// FromEnd begins with the next record that is produced.
func FromEnd() Start { return Start{kind: startLatest} }

// FromEndMinus begins n offsets before the end, or at the start if there are fewer.
func FromEndMinus(n int64) Start { return Start{kind: startLatest, n: -n} }

// FromOffset begins at an offset.
func FromOffset(offset int64) Start { return Start{kind: startOffset, n: offset} }

// FromTime begins with the first record that is at least that young, or at the end if there is none.
func FromTime(t time.Time) Start { return Start{kind: startTime, n: t.UnixMilli()} }

// Reset says what to do without a valid offset: a group has not committed one, or the log no longer has it.
type Reset int8

// The reset policies.
const (
	ResetEarliest Reset = iota // begin at the first record that is there (the default)
	ResetLatest                // begin with the next record; partitions added to a known topic are read from their start, so nothing is lost
	ResetNone                  // Poll returns ErrNoOffset
)

// consumerConfig is what the options set.
type consumerConfig struct {
	group            string
	topics           []string
	partitions       map[TopicPartition]Start
	start            Start
	reset            Reset
	autoCommit       time.Duration // 0: off
	instanceID       string
	rack             string
	assignor         string
	sessionTimeout   time.Duration
	rebalanceTimeout time.Duration
	onAssigned       func(context.Context, []TopicPartition)
	onRevoked        func(context.Context, []TopicPartition)
	onLost           func(context.Context, []TopicPartition)
	maxPollRecords   int
	fetchMaxBytes    int
	maxDecompressed  int
	trustBatches     bool
}

func defaultConsumerConfig() consumerConfig {
	return consumerConfig{
		start:           FromEnd(),
		autoCommit:      5 * time.Second,
		maxPollRecords:  10000,
		fetchMaxBytes:   1 << 20,
		maxDecompressed: 256 << 20,
	}
}

func (c *consumerConfig) validate() error {
	switch {
	case len(c.topics) == 0 && len(c.partitions) == 0:
		return errors.New("client: a consumer needs WithTopics or WithPartitions")
	case c.group != "" && len(c.topics) == 0:
		return errors.New("client: a group member needs WithTopics")
	case c.group != "" && len(c.partitions) > 0:
		return errors.New("client: WithPartitions and WithGroup exclude each other: the group assigns")
	case c.maxPollRecords < 1 || c.fetchMaxBytes < 1 || c.maxDecompressed < 1:
		return fmt.Errorf("client: a consumer limit is below 1")
	case c.autoCommit < 0 || c.sessionTimeout < 0 || c.rebalanceTimeout < 0:
		return errors.New("client: a consumer time is below 0")
	}
	return nil
}

// ConsumerOption changes the defaults of NewConsumer.
type ConsumerOption func(*consumerConfig)

// WithGroup joins a consumer group, which assigns partitions of WithTopics and keeps positions.
func WithGroup(group string) ConsumerOption { return func(c *consumerConfig) { c.group = group } }

// WithTopics reads all partitions of topics, or those that the group assigns.
func WithTopics(topics ...string) ConsumerOption {
	return func(c *consumerConfig) { c.topics = topics }
}

// WithPartitions reads single partitions, without a group.
func WithPartitions(p map[TopicPartition]Start) ConsumerOption {
	return func(c *consumerConfig) { c.partitions = p }
}

// WithStart says where WithTopics without a group begins. Default: FromEnd. Partitions that are added later are read from their start.
func WithStart(s Start) ConsumerOption { return func(c *consumerConfig) { c.start = s } }

// WithOffsetReset says what to do without a valid offset. Default: ResetEarliest.
func WithOffsetReset(r Reset) ConsumerOption { return func(c *consumerConfig) { c.reset = r } }

// WithAutoCommit sets how often a group member commits what it has processed: what earlier Polls returned. 0 switches it off; then Commit is
// for the caller. Default: 5 s. It also commits before a partition is given up, and at Close.
func WithAutoCommit(every time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.autoCommit = every }
}

// WithInstanceID makes a static member: restarted within the session timeout it gets its partitions back without a rebalance.
func WithInstanceID(id string) ConsumerOption { return func(c *consumerConfig) { c.instanceID = id } }

// WithRack tells the group where the consumer is.
func WithRack(rack string) ConsumerOption { return func(c *consumerConfig) { c.rack = rack } }

// WithAssignor asks for an assignor, "uniform" or "range". Default: the group's.
func WithAssignor(name string) ConsumerOption { return func(c *consumerConfig) { c.assignor = name } }

// WithSessionTimeout is how long the group waits for a silent member. Default: the broker's.
func WithSessionTimeout(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.sessionTimeout = d }
}

// WithRebalanceTimeout is how long the group waits for a member to give up partitions. Default: the broker's.
func WithRebalanceTimeout(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.rebalanceTimeout = d }
}

// WithOnAssigned is called when partitions come, before their records do.
func WithOnAssigned(f func(context.Context, []TopicPartition)) ConsumerOption {
	return func(c *consumerConfig) { c.onAssigned = f }
}

// WithOnRevoked is called before partitions go. No other member has them until it returns, so it is the place to finish and commit.
func WithOnRevoked(f func(context.Context, []TopicPartition)) ConsumerOption {
	return func(c *consumerConfig) { c.onRevoked = f }
}

// WithOnLost is called when partitions are gone already: the group gave up this member. Without it WithOnRevoked's function is called.
func WithOnLost(f func(context.Context, []TopicPartition)) ConsumerOption {
	return func(c *consumerConfig) { c.onLost = f }
}

// WithMaxPollRecords bounds what one Poll returns. Default: 10,000.
func WithMaxPollRecords(n int) ConsumerOption {
	return func(c *consumerConfig) { c.maxPollRecords = n }
}

// WithFetchMaxBytes bounds one fetched stretch of a partition, except that one batch always fits. Default: 1 MiB.
func WithFetchMaxBytes(n int) ConsumerOption { return func(c *consumerConfig) { c.fetchMaxBytes = n } }

// WithMaxDecompressed bounds one decompressed batch. Default: 256 MiB.
func WithMaxDecompressed(bytes int) ConsumerOption {
	return func(c *consumerConfig) { c.maxDecompressed = bytes }
}

// WithoutChecksums does not verify the checksums of batches. Default: they are verified.
func WithoutChecksums() ConsumerOption { return func(c *consumerConfig) { c.trustBatches = true } }
