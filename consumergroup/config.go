package consumergroup

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// Config sets the coordinator of one broker. Its zero value is not valid: start from DefaultConfig.
type Config struct {
	Broker cluster.BrokerID
	// Group bounds and times of every group.
	Group group.Config
	// Batch bounds what waits for the log.
	Batch coordinator.Config
	// AppendTimeout is how long an append may take before its outcome counts as unknown.
	AppendTimeout time.Duration
	// LoadTimeout is how long one attempt to load a shard may take; attempts repeat, LoadRetry apart, while the shard is led.
	LoadTimeout time.Duration
	LoadRetry   time.Duration
	// OffsetsRetention is how long offsets of a group without members are kept, from when it became empty.
	OffsetsRetention time.Duration
	// ExpireInterval is how often expired offsets are looked for.
	ExpireInterval time.Duration
	// LagInterval is the least time between two questions to the leaders.
	LagInterval time.Duration
	// Inbox is how many requests may wait for the loop; more are refused as overloaded.
	Inbox int
}

// DefaultConfig returns the defaults that docs/configuration.md shows.
func DefaultConfig() Config {
	return Config{
		Group:            group.DefaultConfig(),
		Batch:            coordinator.DefaultConfig(),
		AppendTimeout:    5 * time.Second,
		LoadTimeout:      5 * time.Second,
		LoadRetry:        200 * time.Millisecond,
		OffsetsRetention: 7 * 24 * time.Hour,
		ExpireInterval:   10 * time.Minute,
		LagInterval:      5 * time.Second,
		Inbox:            4096,
	}
}

// Settings are the part of Config that may change while a coordinator runs.
type Settings struct {
	// MinSession and MaxSession bound the session timeout that a member may ask for.
	MinSession, MaxSession time.Duration
	InitialRebalanceDelay  time.Duration
	MaxMembers             int
	MaxOffsetMetadata      int // bytes
	OffsetsRetention       time.Duration
}

// Settings are those that c begins with.
func (c Config) Settings() Settings {
	g := c.Group
	return Settings{
		MinSession: g.MinSession, MaxSession: g.MaxSession, InitialRebalanceDelay: g.InitialRebalanceDelay,
		MaxMembers: g.MaxMembers, MaxOffsetMetadata: g.MaxOffsetMetadata, OffsetsRetention: c.OffsetsRetention,
	}
}

// apply gives a group's configuration under the settings. Each is in its own range; where two do not fit, the lower bound counts.
func (s Settings) apply(g group.Config) group.Config {
	g.MinSession, g.MaxSession = s.MinSession, max(s.MinSession, s.MaxSession)
	g.DefaultSession = min(max(g.DefaultSession, g.MinSession), g.MaxSession)
	g.InitialRebalanceDelay, g.MaxMembers, g.MaxOffsetMetadata = s.InitialRebalanceDelay, s.MaxMembers, s.MaxOffsetMetadata
	return g
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"append timeout", c.AppendTimeout}, {"load timeout", c.LoadTimeout}, {"load retry", c.LoadRetry},
		{"offsets retention", c.OffsetsRetention}, {"expire interval", c.ExpireInterval}, {"lag interval", c.LagInterval},
	} {
		if d.value <= 0 {
			return fmt.Errorf("consumergroup: %s must be above 0, is %s", d.key, d.value)
		}
	}
	if c.Inbox < 1 {
		return fmt.Errorf("consumergroup: inbox must be at least 1, is %d", c.Inbox)
	}
	if err := c.Group.Validate(); err != nil {
		return fmt.Errorf("consumergroup: %w", err)
	}
	if err := c.Batch.Validate(); err != nil {
		return fmt.Errorf("consumergroup: %w", err)
	}
	return nil
}
