package admission

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Checker checks the batches of one goroutine against the limits of their topics. It remembers the limits for as long as the metadata does not change.
type Checker struct {
	cfg    Config
	image  *cluster.Image // the one that topics belong to
	topics map[cluster.TopicID]topicLimits
}

// Config is what a door gives to its Checkers.
type Config struct {
	Image           func() *cluster.Image // the newest metadata
	MaxDecompressed int                   // the bound on one decompressed batch, in bytes
	Memory          *record.Memory        // counts what all decompressions hold; nil for none
	Now             func() time.Time      // the wall clock
}

// NewChecker returns a Checker for one goroutine.
func NewChecker(cfg Config) *Checker { return &Checker{cfg: cfg} }

// topicLimits are what a topic's configuration says about batches.
type topicLimits struct {
	name          string
	maxBytes      int64
	requireKeys   bool
	createTime    bool
	before, after time.Duration
}

// magicAt is where the number of the format is, in every format.
const magicAt = 16

// Check refuses what may not enter the log of a topic, which is named by id, or by name where the id is zero. Where single records are to blame it gives their
// indexes. It corrects a wrong maximum timestamp in place, so the caller holds the only reference to the batch.
func (c *Checker) Check(id cluster.TopicID, name string, raw []byte) (refusal *cluster.Error, blamed []int32) {
	limits := c.limits(id, name)
	if int64(len(raw)) > limits.maxBytes {
		return cluster.Refuse(cluster.CodeTooLarge, fmt.Sprintf(
			"batch of %d bytes is larger than max.message.bytes=%d of topic %s; send smaller batches or raise it", len(raw), limits.maxBytes, limits.name)), nil
	}
	batch, err := record.Parse(raw)
	if err == nil && batch.Size() != len(raw) {
		return cluster.Refuse(cluster.CodeInvalidRecord, fmt.Sprintf("exactly one record batch is allowed, and %d bytes follow it", len(raw)-batch.Size())), nil
	}
	if err == nil && batch.IsTransactional() {
		return cluster.Refuse(cluster.CodeTransactional, "transactions are not supported"), nil
	}
	if err == nil {
		err = batch.Validate(c.recordLimits(&limits))
	}
	if errors.Is(err, record.ErrMagic) && raw[magicAt] > 1 { // nobody sends a format that does not exist
		return cluster.Refuse(cluster.CodeCorrupt, err.Error()), nil
	}
	if err != nil {
		var bad *record.RecordError
		if errors.As(err, &bad) {
			return refuseBatch(err), append([]int32{bad.Index}, bad.More...)
		}
		return refuseBatch(err), nil
	}
	return nil, nil
}

func (c *Checker) recordLimits(t *topicLimits) record.Limits {
	lim := record.Limits{MaxDecompressed: c.cfg.MaxDecompressed, Memory: c.cfg.Memory, RequireKeys: t.requireKeys}
	if t.createTime {
		now := c.cfg.Now()
		if t.before < now.Sub(time.Unix(0, 0)) {
			lim.MinTimestamp = now.Add(-t.before).UnixMilli()
		}
		if t.after < math.MaxInt64/2 {
			lim.MaxTimestamp = now.Add(t.after).UnixMilli()
		}
	}
	return lim
}

// limits returns the topic's limits; those of the defaults for a topic that is not there, which the broker will refuse or create.
func (c *Checker) limits(id cluster.TopicID, name string) topicLimits {
	image := c.cfg.Image()
	if image != c.image {
		c.image, c.topics = image, map[cluster.TopicID]topicLimits{}
	}
	if l, ok := c.topics[id]; ok && !id.IsZero() {
		return l
	}
	t, ok := image.Topic(id)
	if id.IsZero() {
		t, ok = image.TopicByName(name)
	}
	if !ok {
		return limitsOf(name, cluster.DefaultTopicConfig())
	}
	l := limitsOf(t.Name, image.TopicConfig(t))
	c.topics[t.ID] = l
	return l
}

func limitsOf(name string, cfg cluster.TopicConfig) topicLimits {
	return topicLimits{
		name: name, maxBytes: cfg.MaxMessageBytes, requireKeys: cfg.Compact, createTime: cfg.TimestampType == cluster.CreateTime,
		before: cfg.TimestampBefore, after: cfg.TimestampAfter,
	}
}

// refuseBatch says which code a fault of a batch has.
func refuseBatch(err error) *cluster.Error {
	code := cluster.CodeInvalidRecord
	switch {
	case errors.Is(err, record.ErrMagic), errors.Is(err, record.ErrShort): // an older format, or not all of it: as its producer meant it: sending it again does not help
	case errors.Is(err, record.ErrCorrupt):
		code = cluster.CodeCorrupt
	case errors.Is(err, record.ErrCodec):
		code = cluster.CodeUnsupportedCompression
	case errors.Is(err, record.ErrTooLarge):
		code = cluster.CodeTooLarge
	case errors.Is(err, record.ErrTimestamp):
		code = cluster.CodeInvalidTimestamp
	}
	return cluster.Refuse(code, err.Error())
}
