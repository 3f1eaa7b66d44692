package segment

import (
	"fmt"
	"math"
	"time"
)

// MaxSegmentBytes is the largest segment that the index format can address: positions are 31 bits.
const MaxSegmentBytes = math.MaxInt32

// NoLimit switches a retention bound off.
const NoLimit = -1

// Config shapes one log. All of it may change while the log is open; a change applies from the next append or Retain on.
type Config struct {
	SegmentBytes       int64         // a segment that would grow past this rolls first; 1 KiB to MaxSegmentBytes
	SegmentAge         time.Duration // a segment whose first append is older than this rolls
	IndexIntervalBytes int           // an index entry at most every so many bytes of log
	MaxBatchBytes      int           // Append refuses larger batches; AppendReplicated takes what the leader had
	RetentionBytes     int64         // Retain deletes oldest segments while the rest still holds this much; NoLimit keeps all
	RetentionAge       time.Duration // Retain deletes segments older than this; NoLimit keeps all
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       1 << 30,
		SegmentAge:         7 * 24 * time.Hour,
		IndexIntervalBytes: 4096,
		MaxBatchBytes:      1<<20 + 12,
		RetentionBytes:     NoLimit,
		RetentionAge:       7 * 24 * time.Hour,
	}
}

// Validate refuses what the format or common sense cannot carry.
func (c Config) Validate() error {
	switch {
	case c.SegmentBytes < 1<<10 || c.SegmentBytes > MaxSegmentBytes:
		return fmt.Errorf("segment: segment bytes must be 1024 to %d, is %d", MaxSegmentBytes, c.SegmentBytes)
	case c.SegmentAge < time.Millisecond:
		return fmt.Errorf("segment: segment age must be at least 1ms, is %s", c.SegmentAge)
	case c.IndexIntervalBytes < 0:
		return fmt.Errorf("segment: index interval must not be negative, is %d", c.IndexIntervalBytes)
	case c.MaxBatchBytes < 1:
		return fmt.Errorf("segment: max batch bytes must be positive, is %d", c.MaxBatchBytes)
	case c.RetentionBytes < NoLimit:
		return fmt.Errorf("segment: retention bytes must be -1 (no limit) or more, is %d", c.RetentionBytes)
	case c.RetentionAge < 0 && c.RetentionAge != NoLimit:
		return fmt.Errorf("segment: retention age must be -1 (no limit) or not negative, is %s", c.RetentionAge)
	}
	return nil
}
