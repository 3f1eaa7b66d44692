package group

import (
	"fmt"
	"time"
)

// Hard bounds, the same on every broker.
const (
	MaxMemberIDBytes  = 255  // of a member id, an instance id, a client id, a host, a rack
	MaxTopicsOfMember = 1024 // in one subscription
	MaxProtocols      = 64   // that a classic member offers
)

// Config bounds a group and sets its times. Its zero value is not valid: start from DefaultConfig.
type Config struct {
	// MinSession and MaxSession bound what a member may ask for; DefaultSession is what it gets when it asks for nothing.
	MinSession, MaxSession, DefaultSession time.Duration
	// HeartbeatInterval is suggested to members; it is lowered to a third of a member's session.
	HeartbeatInterval time.Duration
	// MinRebalance and MaxRebalance bound how long a member may take to release partitions; DefaultRebalance when it does not say.
	MinRebalance, MaxRebalance, DefaultRebalance time.Duration
	// InitialRebalanceDelay is how long the first generation of a classic group waits for more members, after each that joins.
	InitialRebalanceDelay time.Duration
	// MaxMembers bounds a group.
	MaxMembers int
	// MaxStateBytes bounds the encoded state of a group, and a single commit: a join that makes it larger, and a larger commit, is refused.
	MaxStateBytes int
	// MaxOffsetMetadata bounds the metadata of a committed offset, in bytes.
	MaxOffsetMetadata int
}

// DefaultConfig returns the defaults that docs/configuration.md shows.
func DefaultConfig() Config {
	return Config{
		MinSession:        time.Second,
		MaxSession:        30 * time.Minute,
		DefaultSession:    45 * time.Second,
		HeartbeatInterval: 3 * time.Second,
		MinRebalance:      time.Second,
		MaxRebalance:      24 * time.Hour,
		DefaultRebalance:  5 * time.Minute,

		InitialRebalanceDelay: 3 * time.Second,

		MaxMembers:        1000,
		MaxStateBytes:     4 << 20,
		MaxOffsetMetadata: 4096,
	}
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.MinSession <= 0 || c.MinSession > c.DefaultSession || c.DefaultSession > c.MaxSession:
		return fmt.Errorf("group: session timeouts must rise: min %s, default %s, max %s", c.MinSession, c.DefaultSession, c.MaxSession)
	case c.MinRebalance <= 0 || c.MinRebalance > c.DefaultRebalance || c.DefaultRebalance > c.MaxRebalance:
		return fmt.Errorf("group: rebalance timeouts must rise: min %s, default %s, max %s", c.MinRebalance, c.DefaultRebalance, c.MaxRebalance)
	case c.InitialRebalanceDelay < 0:
		return fmt.Errorf("group: initial rebalance delay must not be below 0, is %s", c.InitialRebalanceDelay)
	case c.HeartbeatInterval <= 0:
		return fmt.Errorf("group: heartbeat interval must be above 0, is %s", c.HeartbeatInterval)
	case c.MaxMembers < 1 || c.MaxStateBytes < 1 || c.MaxOffsetMetadata < 0:
		return fmt.Errorf("group: bounds must be positive: members %d, state bytes %d, offset metadata %d", c.MaxMembers, c.MaxStateBytes, c.MaxOffsetMetadata)
	}
	return nil
}
