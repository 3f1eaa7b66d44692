package coordinator

import (
	"fmt"
	"iter"

	"github.com/moldau-log/moldau/cluster"
)

// Config bounds what waits for the log. Its zero value is not valid: start from DefaultConfig.
type Config struct {
	// MaxAppendBytes is the size at which an append takes no more records. A larger change of a single group still goes, alone.
	MaxAppendBytes int
	// MaxPendingBytes and MaxPendingRequests bound what waits for the log: above, requests are refused as overloaded.
	MaxPendingBytes    int
	MaxPendingRequests int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{MaxAppendBytes: 512 << 10, MaxPendingBytes: 16 << 20, MaxPendingRequests: 32768}
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	if c.MaxAppendBytes < 1 || c.MaxPendingBytes < c.MaxAppendBytes || c.MaxPendingRequests < 1 {
		return fmt.Errorf("coordinator: bounds make no sense: append %d bytes, pending %d bytes and %d requests",
			c.MaxAppendBytes, c.MaxPendingBytes, c.MaxPendingRequests)
	}
	return nil
}

// ShardLead names a shard that this broker leads, and in which epoch.
type ShardLead struct {
	Shard cluster.ShardID
	Epoch cluster.ShardEpoch
}

// ShardContent is one shard as the metadata log has it.
type ShardContent struct {
	Epoch        cluster.ShardEpoch
	NextSequence int64
	// Records rebuild the shard when they are replayed into an empty one: a GroupState per group, an OffsetCommitted per offset.
	Records iter.Seq[cluster.GroupRecord]
}
