package kafka

import (
	"time"

	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/record"
)

// Config bounds the door. A zero field takes its default.
type Config struct {
	// MaxRequestBytes is the largest request. Default 100 MiB. Topics bound batches by max.message.bytes.
	MaxRequestBytes int
	// MaxInFlightBytes bounds the bytes of requests held over all connections, and, on its own, those of fetched records. Default 256 MiB.
	MaxInFlightBytes int
	// MaxFetchBytes bounds the records of one fetch answer, whatever the client asks for. Default 50 MiB.
	MaxFetchBytes int
	// MaxDecompressedBytes bounds one batch when it is decompressed for checking. Default 256 MiB.
	MaxDecompressedBytes int
	// Memory counts what decompressions hold, of this door and of others that have the same. Default one of MaxInFlightBytes.
	Memory *record.Memory
	// MaxConnections and MaxConnectionsPerAddress bound open connections; more are closed at once. Defaults 10,000 and 4,000.
	MaxConnections, MaxConnectionsPerAddress int
	// Descriptors is how many the process may have open; at most a quarter of them are for connections here, and half of those for one address. Default no bound.
	Descriptors int
	// MaxPipelined bounds the requests of one connection that are not answered yet. Default 128.
	MaxPipelined int
	// MaxConnectionBytes bounds, for one connection, the bytes of requests held, and on its own those of encoded answers that wait for the client. A single one
	// that is larger passes alone. Default 32 MiB.
	MaxConnectionBytes int
	// MaxFetchSessions and MaxSessionPartitions bound the fetch sessions that are remembered, and the partitions in them. Defaults 10,000 and 200,000.
	MaxFetchSessions, MaxSessionPartitions int
	// IdleTimeout closes a connection on which nothing is asked. Default 10 min.
	IdleTimeout time.Duration
	// FrameTimeout bounds the time in which a megabyte of a request that has begun must arrive, and a small answer be taken. Default 30 s.
	FrameTimeout time.Duration
	// AutoAdvertise answers with the address that the client has reached this broker by, instead of the registered one.
	AutoAdvertise bool
	// DataDir is reported by DescribeLogDirs.
	DataDir string
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
}

// DefaultConfig is the configuration of a door that was told nothing.
func DefaultConfig() Config {
	return Config{
		MaxRequestBytes:          100 << 20,
		MaxInFlightBytes:         256 << 20,
		MaxFetchBytes:            50 << 20,
		MaxDecompressedBytes:     256 << 20,
		MaxConnections:           10_000,
		MaxConnectionsPerAddress: 4_000,
		MaxPipelined:             128,
		MaxConnectionBytes:       32 << 20,
		MaxFetchSessions:         10_000,
		MaxSessionPartitions:     200_000,
		IdleTimeout:              10 * time.Minute,
		FrameTimeout:             30 * time.Second,
		Now:                      time.Now,
	}
}

// withDefaults fills the zero fields.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	for _, f := range []struct{ value, fallback *int }{
		{&c.MaxRequestBytes, &d.MaxRequestBytes},
		{&c.MaxInFlightBytes, &d.MaxInFlightBytes},
		{&c.MaxFetchBytes, &d.MaxFetchBytes},
		{&c.MaxDecompressedBytes, &d.MaxDecompressedBytes},
		{&c.MaxConnections, &d.MaxConnections},
		{&c.MaxConnectionsPerAddress, &d.MaxConnectionsPerAddress},
		{&c.MaxPipelined, &d.MaxPipelined},
		{&c.MaxConnectionBytes, &d.MaxConnectionBytes},
		{&c.MaxFetchSessions, &d.MaxFetchSessions},
		{&c.MaxSessionPartitions, &d.MaxSessionPartitions},
	} {
		if *f.value <= 0 {
			*f.value = *f.fallback
		}
	}
	if c.Descriptors > 0 {
		l := conns.Limits{Whole: c.MaxConnections, Each: c.MaxConnectionsPerAddress}.Within(c.Descriptors, conns.ClientShare)
		c.MaxConnections, c.MaxConnectionsPerAddress = l.Whole, l.Each
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = d.IdleTimeout
	}
	if c.FrameTimeout <= 0 {
		c.FrameTimeout = d.FrameTimeout
	}
	if c.Memory == nil {
		c.Memory = record.NewMemory(c.MaxInFlightBytes)
	}
	if c.Now == nil {
		c.Now = d.Now
	}
	return c
}
