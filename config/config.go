package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is everything a broker can be told. It is loaded once, at the start; what may change while a broker runs are the topic, broker and cluster
// configs in the metadata. The struct tags `doc` become docs/configuration.md.
type Config struct {
	ID                  int32    `key:"id" doc:"Broker id: 0, 1, 2 ... It stays with the data directory for ever."`
	Data                string   `key:"data" doc:"Data directory. One broker, one directory."`
	Seeds               []string `key:"seeds" doc:"Peer addresses (host:9093) of brokers to find the cluster through; the same list on every broker."`
	BootstrapExpect     int32    `key:"bootstrap-expect" doc:"How many brokers form the cluster at its very first start: exactly the ids 0 to N-1. Needed with seeds."`
	Rack                string   `key:"rack" doc:"Failure domain of this broker; replicas of a partition are spread over racks."`
	Kafka               Door     `key:"kafka" doc:"Kafka protocol, for clients."`
	Listeners           []string `key:"listeners" doc:"More Kafka listeners, each name://host:port. Who comes through one is told the addresses that the brokers advertise under its name, so every broker names the same ones."`
	AdvertisedListeners []string `key:"advertised-listeners" doc:"Addresses under which clients reach the named listeners, each name://host:port. Without one: the listening address, as with kafka.advertise."`
	GRPC                Door     `key:"grpc" doc:"Native gRPC API, for clients."`
	GRPCReflection      bool     `key:"grpc-reflection" doc:"Let tools such as grpcurl ask the native API for its services. Off unless wanted: it tells strangers what is there."`
	Peer                Door     `key:"peer" doc:"Brokers among themselves. Never open it to clients."`
	HTTP                Door     `key:"http" doc:"Metrics, health and readiness."`
	Log                 Log      `key:"log" doc:"Logging, to standard error."`
	Topic               Topic    `key:"topic" doc:"Defaults of new topics."`
	Storage             Storage  `key:"storage" doc:"Logs on disk."`
	Replica             Replica  `key:"replica" doc:"Replication between brokers."`
	Session             Session  `key:"session" doc:"Broker sessions with the controller."`
	Group               Group    `key:"group" doc:"Consumer groups."`
	Limits              Limits   `key:"limits" doc:"Bounds against overload."`
	Shutdown            Shutdown `key:"shutdown" doc:"Orderly stop."`
}

// Door is one listening port.
type Door struct {
	Addr      string `key:"addr" doc:"Address to listen on, host:port. Port 0 takes a free one."`
	Advertise string `key:"advertise" doc:"Address that others use to reach this port, host:port. Empty: the listening address, or the host name when it listens on all interfaces."`
}

// Log configures slog.
type Log struct {
	Level  string `key:"level" doc:"debug, info, warn or error."`
	Format string `key:"format" doc:"text or json."`
}

// Topic holds the defaults of new topics.
type Topic struct {
	Partitions        int32 `key:"partitions" doc:"Partitions of a topic created without a number."`
	ReplicationFactor int16 `key:"replication-factor" doc:"Replicas of a topic created without a number; 0: 3 when bootstrap-expect is at least 3, otherwise 1."`
	AutoCreate        bool  `key:"auto-create" doc:"Create a topic when a client first asks for it."`
}

// Storage configures the logs on disk.
type Storage struct {
	FlushWorkers   int           `key:"flush-workers" doc:"Flushes (fdatasync) that may run at once."`
	RetentionCheck time.Duration `key:"retention-check" doc:"How often old segments are looked for."`
	ReserveBytes   int64         `key:"reserve-bytes" doc:"Free disk space below which produce is refused with a retriable storage error."`
}

// Replica configures replication.
type Replica struct {
	LagMax time.Duration `key:"lag-max" doc:"A follower that has not caught up for this long leaves the in-sync set."`
}

// Session configures broker sessions.
type Session struct {
	Heartbeat time.Duration `key:"heartbeat" doc:"How often a broker tells the controller that it lives."`
	Timeout   time.Duration `key:"timeout" doc:"Silence after which the controller fences a broker."`
}

// Group configures consumer groups.
type Group struct {
	OffsetsRetention time.Duration `key:"offsets-retention" doc:"How long the offsets of a group without members are kept."`
	MaxMembers       int           `key:"max-members" doc:"Members of one group."`
}

// Limits bounds what clients can make a broker hold.
type Limits struct {
	MaxRequestBytes  int `key:"max-request-bytes" doc:"Largest request or message of any door."`
	MaxInFlightBytes int `key:"max-in-flight-bytes" doc:"Bytes of produce requests held by the broker at once, and on their own of decompressed batches, of fetched records and of answers."`
}

// Shutdown configures the orderly stop.
type Shutdown struct {
	Drain time.Duration `key:"drain" doc:"How long a stopping broker waits for its leaderships to move away."`
}

// Default is the configuration of a broker that was told nothing.
func Default() Config {
	return Config{
		Data:     "./moldau-data",
		Kafka:    Door{Addr: ":9092"},
		GRPC:     Door{Addr: ":9094"},
		Peer:     Door{Addr: ":9093"},
		HTTP:     Door{Addr: ":9644"},
		Log:      Log{Level: "info", Format: "text"},
		Topic:    Topic{Partitions: 6},
		Storage:  Storage{FlushWorkers: 8, RetentionCheck: 5 * time.Minute, ReserveBytes: 64 << 20},
		Replica:  Replica{LagMax: 10 * time.Second},
		Session:  Session{Heartbeat: 250 * time.Millisecond, Timeout: 1500 * time.Millisecond},
		Group:    Group{OffsetsRetention: 7 * 24 * time.Hour, MaxMembers: 1000},
		Limits:   Limits{MaxRequestBytes: 100 << 20, MaxInFlightBytes: 256 << 20},
		Shutdown: Shutdown{Drain: 20 * time.Second},
	}
}

// DefaultReplicationFactor resolves the replication factor of topics created without one.
func (c Config) DefaultReplicationFactor() int16 {
	switch {
	case c.Topic.ReplicationFactor > 0:
		return c.Topic.ReplicationFactor
	case c.BootstrapExpect >= 3:
		return 3
	}
	return 1
}

// beyondLease is above the lease of one second that a broker takes from an answered heartbeat: a broker that is fenced, or that a new leader takes out of the
// in-sync set, must know that it does not lead any more.
const beyondLease = 1100 * time.Millisecond

// Validate reports everything that is wrong at once, each with what to do.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ID < 0 {
		bad("id: %d is negative; broker ids are 0, 1, 2 ...", c.ID)
	}
	if c.Data == "" {
		bad("data: empty; name the directory that keeps this broker's logs")
	}
	if len(c.Seeds) > 0 && c.BootstrapExpect <= 0 {
		bad("bootstrap-expect: needed with seeds; give the number of brokers that form the cluster at its first start, the same on each")
	}
	if len(c.Seeds) == 0 && c.BootstrapExpect > 1 {
		bad("seeds: needed with bootstrap-expect %d; list the peer addresses (host:9093) of the brokers", c.BootstrapExpect)
	}
	for _, s := range c.Seeds {
		if _, _, err := net.SplitHostPort(s); err != nil {
			bad("seeds: %q is not host:port; example broker-0:9093", s)
		}
	}
	for name, d := range map[string]Door{"kafka": c.Kafka, "grpc": c.GRPC, "peer": c.Peer, "http": c.HTTP} {
		if _, _, err := splitAddr(d.Addr); err != nil {
			bad("%s.addr: %q is not host:port: %v", name, d.Addr, err)
		}
		if d.Advertise != "" {
			if err := parseAdvertised(d.Advertise); err != nil {
				bad("%s.advertise: %w", name, err)
			}
		}
	}
	if _, err := c.NamedListeners(); err != nil {
		errs = append(errs, err)
	}
	if len(c.Seeds) > 0 && c.Peer.Advertise == "" && !loopback(c.Peer.Addr) {
		bad("peer.advertise: needed with seeds when the broker does not listen on loopback; give the name and port under which other brokers reach it")
	}
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		bad("log.level: %q; one of debug, info, warn, error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		bad("log.format: %q; text or json", c.Log.Format)
	}
	if c.Topic.Partitions < 1 {
		bad("topic.partitions: %d; at least 1", c.Topic.Partitions)
	}
	if c.Topic.ReplicationFactor < 0 {
		bad("topic.replication-factor: %d; at least 1, or 0 to derive it", c.Topic.ReplicationFactor)
	}
	if c.Storage.FlushWorkers < 1 || c.Storage.FlushWorkers > 256 {
		bad("storage.flush-workers: %d; between 1 and 256", c.Storage.FlushWorkers)
	}
	for _, d := range []struct {
		key string
		got time.Duration
		min time.Duration
	}{
		{"storage.retention-check", c.Storage.RetentionCheck, time.Second}, {"replica.lag-max", c.Replica.LagMax, beyondLease},
		{"session.heartbeat", c.Session.Heartbeat, 20 * time.Millisecond}, {"session.timeout", c.Session.Timeout, max(beyondLease, 2*c.Session.Heartbeat)},
		{"group.offsets-retention", c.Group.OffsetsRetention, time.Second},
	} {
		if d.got < d.min {
			bad("%s: %v is too short; at least %v", d.key, d.got, d.min)
		}
	}
	if c.Limits.MaxRequestBytes < 1<<20 {
		bad("limits.max-request-bytes: %d; at least 1 MiB", c.Limits.MaxRequestBytes)
	}
	if c.Limits.MaxInFlightBytes < c.Limits.MaxRequestBytes {
		bad("limits.max-in-flight-bytes: %d is below limits.max-request-bytes %d", c.Limits.MaxInFlightBytes, c.Limits.MaxRequestBytes)
	}
	return errors.Join(errs...)
}

func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q is not a number from 0 to 65535", p)
	}
	return host, port, nil
}

// parseAdvertised refuses an address that nobody can dial: one without a host or port, or of all interfaces.
func parseAdvertised(addr string) error {
	host, port, err := splitAddr(addr)
	switch ip := net.ParseIP(host); {
	case err != nil:
		return fmt.Errorf("%q is not host:port: %w", addr, err)
	case host == "" || port == 0:
		return fmt.Errorf("%q names no host and port", addr)
	case ip != nil && ip.IsUnspecified():
		return fmt.Errorf("%q is an address to listen on; give the name or address under which others reach this broker", addr)
	case ip == nil && strings.ContainsFunc(host, notInHostName):
		return fmt.Errorf("%q has a character that is in no host name", addr)
	}
	return nil
}

func notInHostName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:%", r) // the last two are of IPv6 with a zone
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
