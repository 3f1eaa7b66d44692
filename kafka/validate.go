package kafka

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// batchChecker checks the batches of one goroutine against the limits of their topics. It remembers the limits for as long as the metadata
// does not change.
type batchChecker struct {
	s      *Server
	image  *cluster.Image
	topics map[cluster.TopicID]topicLimits
}

// topicLimits are what a topic's configuration says about batches.
type topicLimits struct {
	name          string
	maxBytes      int64
	requireKeys   bool
	createTime    bool
	before, after time.Duration
}

// check refuses what may not enter a log, and gives the indexes of the records that are to blame, if single ones are. It corrects a wrong maximum timestamp in place, so the
// caller holds the only reference.
func (c *batchChecker) check(ref broker.TopicRef, raw []byte) (*cluster.Error, []int32) {
	limits := c.limits(ref)
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
	if err != nil {
		var bad *record.RecordError
		if errors.As(err, &bad) {
			return refuseBatch(err), append([]int32{bad.Index}, bad.More...)
		}
		return refuseBatch(err), nil
	}
	return nil, nil
}

func (c *batchChecker) recordLimits(t *topicLimits) record.Limits {
	lim := record.Limits{MaxDecompressed: c.s.cfg.MaxDecompressedBytes, RequireKeys: t.requireKeys}
	if t.createTime {
		now := c.s.cfg.Now()
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
func (c *batchChecker) limits(ref broker.TopicRef) topicLimits {
	image := c.s.broker.Image()
	if image != c.image {
		c.image, c.topics = image, map[cluster.TopicID]topicLimits{}
	}
	if l, ok := c.topics[ref.ID]; ok && !ref.ID.IsZero() {
		return l
	}
	t, ok := image.Topic(ref.ID)
	if ref.ID.IsZero() {
		t, ok = image.TopicByName(ref.Name)
	}
	if !ok {
		return limitsOf(ref.Name, cluster.DefaultTopicConfig())
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
	case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrShort):
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
