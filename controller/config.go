package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
)

// Config says who this broker is and how its Raft node behaves.
type Config struct {
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	// Cluster is the cluster id that the data directory remembers; zero for an empty directory.
	Cluster cluster.ClusterID
	// Dir is the directory of the Raft files (docs/format/raft-directory.md). It is created if it does not exist.
	Dir string
	// Address is the host:port under which other brokers reach this broker's peer port, by name where it has one.
	Address string
	// Seeds are host:port addresses of peer ports, of this broker too if that is convenient.
	Seeds []string
	// BootstrapExpect is the size of the bootstrap set, brokers 0 to BootstrapExpect-1. 0 without seeds means 1.
	BootstrapExpect int32
	// FeatureLevel is the metadata feature level that a new cluster starts with.
	FeatureLevel int32

	// RaftHeartbeat and RaftElection are how long a follower waits for its leader before it stands for election, and how long an election may take;
	// RaftLease is how long a leader leads without contact to a quorum.
	RaftHeartbeat, RaftElection, RaftLease time.Duration
	// SessionHeartbeat is the time between a broker's heartbeats to the controller.
	SessionHeartbeat time.Duration
	// SessionTimeout is the silence after which the controller fences a broker.
	SessionTimeout time.Duration
	// ContactLease is how long, from the sending of an answered heartbeat, the broker may act on being in contact with the controller.
	ContactLease time.Duration
	// VoterStabilization is how long a server must have been healthy before it becomes a voter.
	VoterStabilization time.Duration

	// SnapshotThreshold is the number of entries after which the state is written down; TrailingLogs is how many entries stay in the log then,
	// for followers that are a little behind; SnapshotInterval is how often the threshold is looked at (up to twice as long).
	SnapshotThreshold, TrailingLogs uint64
	SnapshotInterval                time.Duration
}

// DefaultConfig returns the values of everything that is not identity.
func DefaultConfig() Config {
	return Config{
		FeatureLevel:       cluster.LevelNewest,
		RaftHeartbeat:      500 * time.Millisecond,
		RaftElection:       500 * time.Millisecond,
		RaftLease:          250 * time.Millisecond,
		SessionHeartbeat:   250 * time.Millisecond,
		SessionTimeout:     1500 * time.Millisecond,
		ContactLease:       time.Second,
		VoterStabilization: 5 * time.Second,
		SnapshotThreshold:  8192,
		TrailingLogs:       8192,
		SnapshotInterval:   20 * time.Second,
	}
}

// maxBootstrapExpect bounds the bootstrap set: more brokers than that join later.
const maxBootstrapExpect = 64

// Validate reports a configuration that cannot work, in words for the operator.
func (c *Config) Validate() error {
	switch {
	case c.Broker < 0:
		return fmt.Errorf("controller: broker id %d: ids start at 0", c.Broker)
	case c.Directory.IsZero():
		return errors.New("controller: the data directory has no id")
	case c.Dir == "":
		return errors.New("controller: no directory for the Raft files")
	case len(c.Seeds) > 0 && c.BootstrapExpect == 0:
		return errors.New("controller: seeds are set but bootstrap-expect is not: say how many brokers form the cluster, the same number on each")
	case c.BootstrapExpect < 0 || c.BootstrapExpect > maxBootstrapExpect:
		return fmt.Errorf("controller: bootstrap-expect %d: it must be between 1 and %d", c.BootstrapExpect, maxBootstrapExpect)
	case len(c.Seeds) == 0 && c.BootstrapExpect > 1:
		return fmt.Errorf("controller: bootstrap-expect is %d but there are no seeds: list the peer addresses of the other brokers", c.BootstrapExpect)
	case c.RaftLease > c.RaftHeartbeat || c.RaftElection < c.RaftHeartbeat:
		return errors.New("controller: the Raft timeouts must satisfy lease <= heartbeat <= election")
	case c.SessionHeartbeat <= 0 || c.ContactLease <= c.SessionHeartbeat:
		return errors.New("controller: the contact lease must be longer than the session heartbeat")
	case c.SessionTimeout <= c.ContactLease:
		return errors.New("controller: the session timeout must be longer than the contact lease, or a broker acts after it was fenced")
	}
	for _, address := range append([]string{c.Address}, c.Seeds...) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("controller: peer address %q is not host:port: %w", address, err)
		}
	}
	return nil
}

// expect is BootstrapExpect with its default.
func (c *Config) expect() int32 { return max(c.BootstrapExpect, 1) }

// Ports is what the controller needs from outside.
type Ports struct {
	Streams StreamLayer
	Calls   LeaderCall
	// Fatal is called, at most once and from any goroutine, when this broker's metadata can no longer be trusted: the process must exit. It must not
	// call back into the Controller.
	Fatal func(error)
	// Now is the broker's monotonic clock; the leases that a Session reports are on it. Nil means the time since Open.
	Now   func() time.Duration
	Log   *slog.Logger // nil means slog.Default
	Meter *meter.Set   // nil counts and exports nothing
}
